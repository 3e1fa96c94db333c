// Plans of new pairs.
#include "transform/lowrank/tool_plan.h"

#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::lowrank {
namespace {

constexpr uint64_t kMemoBytes = uint64_t{48} << 20;

// [n, rows] or [rows, n], with what belongs behind.
Shape factor_shape(uint64_t rank, uint64_t length, bool rank_last, const Shape& tail) {
  Shape shape = rank_last ? Shape{length, rank} : Shape{rank, length};
  shape.insert(shape.end(), tail.begin(), tail.end());
  return shape;
}

struct ToolRun {
  std::shared_ptr<NewAdapter> made;
  std::shared_ptr<Account> account;
  AdapterToolRequest request;
  uint32_t output = 0;
  bool measures = false;
  std::vector<std::string> names{};  // of the writing phase's items
  std::vector<std::string> item_modules{};

  Result<void> lay_out(PlanBuilder& builder) {
    AdapterFile file;
    for (const NewAdapter::Copied& copied : made->copies)
      file.copy(copied.name, copied.dtype, copied.shape, copied.from);
    for (NewModule& module : made->modules) {
      const FactorTask& task = *module.task;
      const uint64_t kept = task.kept;
      uint64_t kernel = 1;
      for (const uint64_t side : module.kernel) kernel *= side;
      const size_t up = file.made(module.up_name, task.up_to,
                                  factor_shape(kept, task.rows, task.up_rank_last, module.up_tail));
      const size_t down =
          file.made(module.down_name, task.down_to,
                    factor_shape(kept, task.cols / kernel, task.down_rank_last, module.kernel));
      if (module.stored_alpha)
        file.scalar(module.alpha_name, module.alpha_dtype, module.scale * static_cast<double>(kept));
      Item item{.op = &kWriteFactorsOp, .units = 1, .in = module.in, .context = module.task};
      file.add_item(std::move(item), {up, down});
      item_modules.push_back(module.module);
      made->announcement.modules.push_back({module.path, kept, module.scale * static_cast<double>(kept)});
    }
    announce(made->announcement, request, file, builder, *account);
    return file.lay_out(builder, output, *account, names);
  }

  Result<void> finish(size_t phase, std::span<const Value> values, PlanBuilder& more) {
    if (phase == 0 && measures) {
      for (size_t i = 0; i < values.size(); ++i) {
        const NewModule& module = made->modules[i];
        if (values[i].n[1] != 0) return not_finite_factors(module.module);
        module.task->kept = values[i].n[0];
        account->ranks.push_back({module.module, module.old_rank, values[i].n[0], values[i].x[0]});
      }
      more.begin_phase(true, false);
      return lay_out(more);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].n[1] != 0) return not_finite_factors(item_modules[i]);
      if (values[i].n[0] == 0) continue;
      account->non_finite.push_back({names[i], values[i].n[0]});
      account->warnings.push_back("In the factors of module " + quote_name(item_modules[i]) +
                                  " values became infinite: their dtype cannot hold them.");
    }
    return {};
  }
};

}  // namespace

void give_memos(std::vector<NewModule>& modules, PlanBuilder& builder) {
  uint64_t bytes = 0;
  for (const NewModule& module : modules) {
    const uint64_t rank = module.task->rank();
    bytes += sizeof(double) * (rank + 2 * rank * module.task->most);
    if (bytes > kMemoBytes) return;
  }
  for (NewModule& module : modules) {
    const uint64_t rank = module.task->rank();
    auto memo = std::make_unique<FactorTask::Memo>();
    memo->values.resize(to_size(rank));
    memo->left.resize(to_size(rank * module.task->most));
    memo->right.resize(to_size(rank * module.task->most));
    module.task->memo = std::move(memo);
  }
  builder.hold(bytes);
}

Account begin_account(const AdapterToolRequest& request, uint64_t tensors_in, std::string file_name) {
  Account account;
  account.command = request.command;
  account.input = request.input;
  account.output = request.output;
  account.dry_run = request.dry_run;
  account.tensors_in = tensors_in;
  account.files.push_back({std::move(file_name), 0, 0});
  return account;
}

Result<AdapterToolPlan> plan_new_adapter(std::shared_ptr<NewAdapter> made, PlanBuilder builder,
                                         PlanInputs& inputs, Account account,
                                         const AdapterToolRequest& request) {
  auto run = std::make_shared<ToolRun>();
  run->account = std::make_shared<Account>(std::move(account));
  run->request = request;
  run->output = builder.add_output({.name = run->account->files.back().name, .known = false}, {});
  run->measures = std::any_of(made->modules.begin(), made->modules.end(), [](const NewModule& module) {
    return module.task->kind == FactorTask::Kind::kLowRank;
  });
  run->made = std::move(made);
  if (run->measures) {
    give_memos(run->made->modules, builder);
    builder.begin_phase(false, false);
    for (const NewModule& module : run->made->modules) {
      PlanEntry entry{.kind = PlanEntry::Kind::kMeasure,
                      .name = module.module,
                      .dtype = DType::F64,
                      .shape = {module.task->rows, module.task->cols}};
      entry.from = module.in;
      entry.word = std::string(kMeasureRankOp.id);
      Item item{.op = &kMeasureRankOp, .units = 1, .in = module.in, .context = module.task};
      item.tensor = builder.add_tensor(std::move(entry));
      builder.add_item(std::move(item));
    }
  } else {
    builder.begin_phase(true, false);
    for (const NewModule& module : run->made->modules)
      run->account->ranks.push_back({module.module, module.old_rank, module.task->kept, 1});
    TFTF_TRY(run->lay_out(builder));
  }
  builder.on_finish(
      PlanBuilder::Extend([run](size_t phase, std::span<const Value> values, Tables&, PlanBuilder& more) {
        return run->finish(phase, values, more);
      }));
  Result<Plan> plan = builder.build();
  if (!plan) return std::move(plan).error();
  run->account->bytes_read = plan->read_bytes();
  run->account->bytes_written = plan->written_bytes();
  return AdapterToolPlan{*std::move(plan), run->account, inputs.take_sources()};
}

}  // namespace tftf::lowrank

namespace tftf {

Account AdapterToolPlan::final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const {
  Account result = *account;
  result.bytes_read = bytes_read;
  result.bytes_written = bytes_written;
  result.resumed = resumed;
  return result;
}

}  // namespace tftf
