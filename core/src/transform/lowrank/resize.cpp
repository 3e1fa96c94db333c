// `adapter resize`: each pair brought to a lower rank.
#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/transform/output_layout.h"
#include "transform/lowrank/tool_plan.h"

namespace tftf {

using namespace lowrank;

namespace {

std::string resize_text(const ResizeOptions& options) {
  using Method = RankChoice::Method;
  std::string text = "adapter resize rank=" + std::to_string(options.choice.most);
  if (options.conv_rank) text += " conv-rank=" + std::to_string(*options.conv_rank);
  if (options.choice.method == Method::kFixed) return text;
  text += options.choice.method == Method::kRatio        ? " method=sv_ratio"
          : options.choice.method == Method::kCumulative ? " method=sv_cumulative"
                                                         : " method=sv_fro";
  return text + " param=" + json_float(options.choice.param).dump();
}

PairInput pair_input(const Checkpoint& checkpoint, const PairModule& pair) {
  PairInput input;
  input.up_dtype = checkpoint.info(pair.up).dtype;
  input.down_dtype = checkpoint.info(pair.down).dtype;
  input.up_rank_last = pair.up_rank_last;
  input.down_rank_last = pair.down_rank_last;
  input.rank = pair.rank;
  input.down_rank = pair.down_rank;
  if (pair.mid) {
    input.has_mid = true;
    input.mid_dtype = checkpoint.info(*pair.mid).dtype;
    for (const uint64_t side : pair.kernel) input.kernel *= side;
  }
  return input;
}

}  // namespace

Result<AdapterToolPlan> plan_resize(const AdapterInput& input, const ResizeOptions& options,
                                    const AdapterToolRequest& request) {
  TFTF_TRY(check_rank_choice(options.choice));
  Result<AdapterPairs> pairs = read_pairs(input);
  if (!pairs) return std::move(pairs).error();
  const Checkpoint& checkpoint = input.checkpoint();
  if (pairs->modules.empty()) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = quote_name(checkpoint.listing.given) +
                            " holds no pair of factors: only LoRA has a rank that can be lowered.",
                 .file = checkpoint.listing.given};
  }
  const AdapterFamily family = input.survey().family.value_or(AdapterFamily::kKohya);
  PlanBuilder builder(resize_text(options), PlanOptions{.tile_bytes = request.tile_bytes});
  PlanInputs inputs(builder);
  auto made = std::make_shared<NewAdapter>();
  const bool stored = input.scales().kind == AdapterScale::kAlpha;
  // Metadata is rewritten nowhere else than where the family's own configuration is: other scales become alphas.
  const bool to_alphas = input.scales().kind == AdapterScale::kMetadata && !keeps_configuration(family);
  made->announcement = {.input = &input, .family = family, .scales_stored = stored || to_alphas};
  Account account =
      begin_account(request, checkpoint.order.size(),
                    request.single_name.empty() ? adapter_file_name(family) : request.single_name);
  account.coverage = Account::Coverage{.mapped = checkpoint.order.size()};
  std::vector<std::string> grown;
  for (const PairModule& pair : pairs->modules) {
    NewModule module;
    module.module = pair.stored;
    module.path = std::string(peft_module_path(pair.stored));
    module.up_name = checkpoint.info(pair.up).name;
    module.down_name = checkpoint.info(pair.down).name;
    module.alpha_name = pair.alpha ? checkpoint.info(*pair.alpha).name : pair.stored + ".alpha";
    if (pair.alpha) module.alpha_dtype = checkpoint.info(*pair.alpha).dtype;
    module.stored_alpha = pair.alpha.has_value() || to_alphas;
    module.old_rank = pair.rank;
    module.scale = pair.scale;
    module.kernel = pair.kernel;
    module.up_tail = pair.up_tail;
    auto task = std::make_shared<FactorTask>();
    task->pairs = {pair_input(checkpoint, pair)};
    task->rows = pair.rows;
    task->cols = pair.cols;
    task->choice = options.choice;
    if (pair.wide_kernel()) task->choice.most = options.conv_rank.value_or(options.choice.most);
    task->most = std::min({task->choice.most, pair.rank, pair.rows, pair.cols});
    task->up_to = factor_dtype(task->pairs[0].up_dtype, task->pairs[0].up_dtype);
    task->down_to = factor_dtype(task->pairs[0].down_dtype, task->pairs[0].down_dtype);
    task->up_rank_last = pair.up_rank_last;
    task->down_rank_last = pair.down_rank_last;
    module.in = {inputs.stored(0, input, pair.up), inputs.stored(0, input, pair.down)};
    if (pair.mid) module.in.push_back(inputs.stored(0, input, *pair.mid));
    if (task->choice.most > pair.rank) grown.push_back(pair.stored);
    module.task = std::move(task);
    made->modules.push_back(std::move(module));
  }
  const auto copy = [&](TensorRef tensor) {
    const TensorInfo& info = checkpoint.info(tensor);
    made->copies.push_back({info.name, info.dtype, info.shape, inputs.stored(0, input, tensor)});
  };
  for (const PairModule& pair : pairs->modules)
    for (const TensorRef tensor : pair.others) copy(tensor);
  for (const TensorRef tensor : pairs->rest) copy(tensor);
  for (const size_t m : pairs->other_modules)
    for (const auto& [part, tensor] : input.survey().modules[m].parts) copy(tensor);
  if (!pairs->other_modules.empty()) {
    const AdapterModule& first = input.survey().modules[pairs->other_modules.front()];
    account.warnings.push_back(grouped_digits(pairs->other_modules.size()) +
                               (pairs->other_modules.size() == 1 ? " module is" : " modules are") +
                               " copied as they are, " + quote_name(first.name) +
                               " first: only pairs of LoRA factors have a rank that can be lowered.");
  }
  if (grown.size() == pairs->modules.size()) {
    account.warnings.push_back(
        "Every module has a rank below the one that was asked for; a rank never grows.");
  }
  if (request.single_name.empty()) {
    for (const FileEntry& file : side_files_to_copy(ModelListing::Kind::kFolder, request.folder))
      if (file.name != "adapter_config.json") builder.add_side({.name = file.name});
  }
  return plan_new_adapter(std::move(made), std::move(builder), inputs, std::move(account), request);
}

}  // namespace tftf
