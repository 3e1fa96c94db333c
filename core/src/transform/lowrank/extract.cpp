// `adapter extract`: the difference of two models as an adapter.
#include <algorithm>
#include <set>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/simd/cast.h"
#include "transform/lowrank/adapter_file.h"
#include "transform/lowrank/extract_ops.h"
#include "transform/lowrank/pairs.h"
#include "transform/lowrank/tool_plan.h"

namespace tftf {

using namespace lowrank;

namespace {

constexpr std::string_view kWeightSuffix = ".weight";
// Words of a module's last component that mean an embedding, whose factors have another form.
constexpr std::string_view kEmbeddingWords[] = {"embed", "wte", "wpe"};
// First components that mean the denoiser of an image model: kohya's lora_unet_.
constexpr std::string_view kUnetWords[] = {"down_blocks",
                                           "up_blocks",
                                           "mid_block",
                                           "input_blocks",
                                           "middle_block",
                                           "output_blocks",
                                           "conv_in",
                                           "conv_out",
                                           "time_embedding",
                                           "add_embedding",
                                           "time_embed",
                                           "label_emb",
                                           "double_blocks",
                                           "single_blocks",
                                           "transformer_blocks",
                                           "single_transformer_blocks",
                                           "joint_blocks",
                                           "img_in",
                                           "txt_in",
                                           "time_in",
                                           "vector_in",
                                           "guidance_in",
                                           "final_layer",
                                           "x_embedder",
                                           "context_embedder",
                                           "time_text_embed",
                                           "proj_out",
                                           "norm_out"};

struct ComponentPrefix {
  std::string_view dotted, kohya;
};
constexpr ComponentPrefix kComponents[] = {{"unet.", "lora_unet_"},
                                           {"transformer.", "lora_unet_"},
                                           {"model.diffusion_model.", "lora_unet_"},
                                           {"diffusion_model.", "lora_unet_"},
                                           {"text_encoder_2.", "lora_te2_"},
                                           {"text_encoder.", "lora_te1_"}};

bool is_embedding(std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
  return std::any_of(std::begin(kEmbeddingWords), std::end(kEmbeddingWords), [&](std::string_view word) {
    return word == "embed"
               ? last.find(word) != std::string_view::npos && last.find("embedder") == std::string_view::npos
               : last == word;
  });
}

// Empty: kohya has no name for it.
std::string kohya_name(std::string_view path) {
  std::string_view prefix;
  for (const ComponentPrefix& one : kComponents) {
    if (!path.starts_with(one.dotted)) continue;
    prefix = one.kohya;
    path.remove_prefix(one.dotted.size());
    break;
  }
  const std::string_view first = path.substr(0, path.find('.'));
  if (prefix.empty() && first == "text_model") prefix = "lora_te_";
  if (prefix.empty() &&
      std::find(std::begin(kUnetWords), std::end(kUnetWords), first) != std::end(kUnetWords))
    prefix = "lora_unet_";
  if (prefix.empty()) return "";
  std::string name(prefix);
  name += path;
  std::replace(name.begin() + static_cast<ptrdiff_t>(prefix.size()), name.end(), '.', '_');
  return name;
}

struct ComparedTensor {
  std::string name;
  TensorRef tuned{}, original{};
  Extent tuned_at{}, original_at{};
};

struct ExtractRun {
  const Checkpoint* tuned = nullptr;
  const Checkpoint* original = nullptr;
  ExtractOptions options;
  AdapterToolRequest request;
  std::shared_ptr<Account> account;
  uint32_t output = 0;
  std::vector<ComparedTensor> tensors{};
  std::vector<std::string> names{};

  const TensorInfo& info(const ComparedTensor& tensor) const { return tuned->info(tensor.tuned); }

  // Why a difference of this tensor is no adapter's; empty: it can be one.
  std::string obstacle(const ComparedTensor& tensor) const {
    const TensorInfo &a = info(tensor), &b = original->info(tensor.original);
    if (a.shape.size() != 2 && a.shape.size() != 4)
      return "is no matrix, whose difference could have a low rank";
    if (!std::string_view(a.name).ends_with(kWeightSuffix)) return "is not called .weight";
    for (const DType dtype : {a.dtype, b.dtype}) {
      if (dtype != DType::F64 && dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16)
        return "is stored as " + std::string(dtype_name(dtype)) +
               ": quantised weights have to be dequantised first";
    }
    const std::string_view path = path_of(tensor);
    if (is_embedding(path)) return "is an embedding, whose factors have another form";
    if (options.kohya && kohya_name(path).empty())
      return "has no name in kohya's family, which is for image models and their text encoders";
    return "";
  }

  std::string_view path_of(const ComparedTensor& tensor) const {
    std::string_view path = info(tensor).name;
    path.remove_suffix(kWeightSuffix.size());
    return path;
  }

  Result<void> finish(size_t phase, std::span<const Value> values, PlanBuilder& more) {
    if (phase > 0) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i].n[0] == 0) continue;
        account->non_finite.push_back({names[i], values[i].n[0]});
        account->warnings.push_back("In tensor " + quote_name(names[i]) +
                                    " values became infinite: its dtype cannot hold them.");
      }
      return {};
    }
    std::vector<const ComparedTensor*> modules;
    std::vector<std::pair<const ComparedTensor*, std::string>> left;
    for (size_t i = 0; i < values.size(); ++i) {
      const ComparedTensor& tensor = tensors[i];
      if (values[i].n[0] == 0 && values[i].n[1] == 0) continue;
      std::string why = obstacle(tensor);
      if (why.empty() && values[i].n[1] > 0) return not_finite_difference(tensor);
      if (values[i].n[0] == 0) continue;
      if (why.empty()) {
        modules.push_back(&tensor);
      } else {
        left.emplace_back(&tensor, std::move(why));
      }
    }
    if (!left.empty() && !options.allow_partial)
      return cannot_hold(*left.front().first, left.front().second, left.size());
    if (modules.empty()) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = std::string(left.empty() ? "The two models are equal" : "No matrix differs") +
                              ": there is nothing to extract.",
                   .file = request.input};
    }
    for (const auto& [tensor, why] : left) {
      account->warnings.push_back("Tensor " + quote_name(tensor->name) + " differs and is left out: it " +
                                  why + ".");
    }
    account->coverage->mapped = modules.size();
    account->coverage->unmapped += left.size();
    account->coverage->dropped = tensors.size() - modules.size() - left.size();
    more.begin_phase(true, false);
    return lay_out(modules, more);
  }

  Error not_finite_difference(const ComparedTensor& tensor) const {
    return {.code = ErrorCode::kRefusedValues,
            .message = "Tensor " + quote_name(tensor.name) + " holds values that are NaN or infinite.",
            .tensor = tensor.name};
  }

  static Error cannot_hold(const ComparedTensor& tensor, const std::string& why, uint64_t count) {
    return {.code = ErrorCode::kRefusedUnmatched,
            .message =
                "Tensor " + quote_name(tensor.name) + " differs, and it " + why +
                (count > 1 ? "; " + grouped_digits(count - 1) + " more cannot be held by an adapter, either"
                           : std::string()) +
                ". --allow-partial leaves that out.",
            .tensor = tensor.name};
  }

  Result<void> lay_out(const std::vector<const ComparedTensor*>& modules, PlanBuilder& more) {
    AdapterFile file;
    Announcement announcement{.family = options.kohya ? AdapterFamily::kKohya : AdapterFamily::kPeft,
                              .scales_stored = options.kohya};
    bool te2 = false;
    for (const ComparedTensor* tensor : modules) te2 = te2 || path_of(*tensor).starts_with("text_encoder_2.");
    for (const ComparedTensor* tensor : modules) {
      const TensorInfo& weight = info(*tensor);
      const std::string path(path_of(*tensor));
      uint64_t cols = 1;
      for (size_t i = 1; i < weight.shape.size(); ++i) cols *= weight.shape[i];
      const bool wide = weight.shape.size() == 4 && (weight.shape[2] > 1 || weight.shape[3] > 1);
      const uint64_t asked = wide ? options.conv_rank.value_or(options.rank) : options.rank;
      auto task = std::make_shared<DifferenceTask>();
      task->shape = subspace_shape(weight.shape[0], cols, asked);
      task->tuned = weight.dtype;
      task->original = original->info(tensor->original).dtype;
      task->to = factor_dtype(weight.dtype, weight.dtype);
      if (task->to == DType::F64) task->to = DType::F32;
      const uint64_t kept = task->shape.kept;
      const Shape tail(weight.shape.begin() + 2, weight.shape.end());
      Shape up{weight.shape[0], kept}, down{kept, weight.shape[1]};
      up.insert(up.end(), tail.size(), 1);
      down.insert(down.end(), tail.begin(), tail.end());
      std::string name = options.kohya ? kohya_name(path) : "base_model.model." + path;
      // One encoder alone is numbered only beside a second.
      if (options.kohya && !te2 && name.starts_with("lora_te1_")) name.erase(7, 1);
      const size_t up_number =
          file.made(name + (options.kohya ? ".lora_up.weight" : ".lora_B.weight"), task->to, up);
      const size_t down_number =
          file.made(name + (options.kohya ? ".lora_down.weight" : ".lora_A.weight"), task->to, down);
      if (options.kohya) file.scalar(name + ".alpha", DType::F32, static_cast<double>(kept));
      Item gather{.op = &kSubspaceOp, .in = {tensor->tuned_at, tensor->original_at}, .context = task};
      gather.units = task->shape.passes * task->shape.pieces();
      Resident resident;
      resident.ready_bytes = subspace_bytes(*task);
      resident.gather = std::make_shared<const Item>(gather);
      const uint32_t number = more.add_resident(std::move(resident));
      Item upper{.op = &kUpperFactorOp, .in = gather.in, .context = task};
      upper.units = task->shape.rows;
      upper.units_per_tile = task->shape.piece;
      upper.residents = {number};
      file.add_item(std::move(upper), {up_number});
      Item lower{.op = &kLowerFactorOp, .units = 1, .context = task};
      lower.residents = {number};
      file.add_item(std::move(lower), {down_number});
      announcement.modules.push_back({path, kept, static_cast<double>(kept)});
      account->ranks.push_back({path, std::min(weight.shape[0], cols), kept, std::nullopt});
    }
    announce(announcement, request, file, more, *account);
    return file.lay_out(more, output, *account, names);
  }
};

Error apart(const std::string& tensor, const std::string& where, const std::string& other) {
  return {.code = ErrorCode::kRefusedUnmatched,
          .message = "Tensor " + quote_name(tensor) + " is in " + quote_name(where) + " and not in " +
                     quote_name(other) + "; --allow-partial leaves such tensors out.",
          .tensor = tensor};
}

}  // namespace

Result<AdapterToolPlan> plan_extract(const AdapterInput& original, const AdapterInput& tuned,
                                     const ExtractOptions& options, const AdapterToolRequest& request) {
  TFTF_TRY(original.check());
  TFTF_TRY(tuned.check());
  std::string text = "adapter extract rank=" + std::to_string(options.rank);
  if (options.conv_rank) text += " conv-rank=" + std::to_string(*options.conv_rank);
  text += options.kohya ? " to=kohya" : " to=peft";
  if (options.allow_partial) text += " allow-partial";
  PlanBuilder builder(text, PlanOptions{.tile_bytes = request.tile_bytes});
  PlanInputs inputs(builder);
  auto run = std::make_shared<ExtractRun>();
  run->tuned = &tuned.checkpoint();
  run->original = &original.checkpoint();
  run->options = options;
  run->request = request;
  const AdapterFamily family = options.kohya ? AdapterFamily::kKohya : AdapterFamily::kPeft;
  Account account =
      begin_account(request, run->tuned->order.size(),
                    request.single_name.empty() ? adapter_file_name(family) : request.single_name);
  account.coverage = Account::Coverage{};
  const std::string &tuned_name = run->tuned->listing.given, &original_name = run->original->listing.given;
  for (const TensorRef ref : run->original->order) {
    const std::string& name = run->original->info(ref).name;
    if (run->tuned->find(name)) continue;
    if (!options.allow_partial) return apart(name, original_name, tuned_name);
    ++account.coverage->unmapped;
  }
  for (const TensorRef ref : run->tuned->order) {
    const TensorInfo& info = run->tuned->info(ref);
    const auto other = run->original->find(info.name);
    if (!other) {
      if (!options.allow_partial) return apart(info.name, tuned_name, original_name);
      ++account.coverage->unmapped;
      continue;
    }
    const TensorInfo& before = run->original->info(*other);
    const auto elements = element_count(info.shape);
    const bool comparable = info.dtype == before.dtype ||
                            (can_cast(info.dtype, DType::F64) && can_cast(before.dtype, DType::F64) &&
                             dtype_bits(info.dtype) % 8 == 0 && dtype_bits(before.dtype) % 8 == 0);
    if (info.shape != before.shape || !elements || !comparable) {
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Tensor " + quote_name(info.name) + " is " +
                              std::string(dtype_name(info.dtype)) + " " + shape_text(info.shape) + " in " +
                              quote_name(tuned_name) + " and " + std::string(dtype_name(before.dtype)) + " " +
                              shape_text(before.shape) + " in " + quote_name(original_name) +
                              ": they have no difference.",
                   .tensor = info.name,
                   .expected = shape_text(before.shape),
                   .found = shape_text(info.shape)};
    }
    ComparedTensor tensor{.name = info.name, .tuned = ref, .original = *other};
    tensor.tuned_at = inputs.stored(1, tuned, ref);
    tensor.original_at = inputs.stored(0, original, *other);
    run->tensors.push_back(std::move(tensor));
  }
  if (run->tensors.empty()) {
    return Error{.code = ErrorCode::kRefusedUnmatched,
                 .message = quote_name(tuned_name) + " and " + quote_name(original_name) +
                            " have no tensor in common."};
  }
  run->account = std::make_shared<Account>(std::move(account));
  run->output = builder.add_output({.name = run->account->files.back().name, .known = false}, {});
  builder.begin_phase(false, false);
  for (const ComparedTensor& tensor : run->tensors) {
    const TensorInfo& info = run->info(tensor);
    PlanEntry entry{.kind = PlanEntry::Kind::kMeasure,
                    .name = info.name,
                    .dtype = info.dtype,
                    .shape = info.shape,
                    .from = {tensor.tuned_at},
                    .with = {tensor.original_at},
                    .word = std::string(kDifferenceOp.id)};
    Item item{.op = &kDifferenceOp, .in = {tensor.tuned_at, tensor.original_at}};
    item.in_dtype = info.dtype;
    item.out_dtype = run->original->info(tensor.original).dtype;
    // Elements that fill no byte are compared as bytes.
    if (dtype_bits(item.in_dtype) % 8 != 0) item.in_dtype = item.out_dtype = DType::U8;
    item.units = tensor.tuned_at.row_bytes * 8 / dtype_bits(item.in_dtype);
    item.units_per_tile =
        tile_units(request.tile_bytes, std::max(dtype_bits(item.in_dtype), dtype_bits(item.out_dtype)));
    item.tensor = builder.add_tensor(std::move(entry));
    builder.add_item(std::move(item));
  }
  builder.on_finish(
      PlanBuilder::Extend([run](size_t phase, std::span<const Value> values, Tables&, PlanBuilder& more) {
        return run->finish(phase, values, more);
      }));
  Result<Plan> plan = builder.build();
  if (!plan) return std::move(plan).error();
  run->account->bytes_read = plan->read_bytes();
  return AdapterToolPlan{*std::move(plan), run->account, inputs.take_sources()};
}

}  // namespace tftf
