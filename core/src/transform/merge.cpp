#include <algorithm>
#include <cmath>

#include "pipe.h"
#include "tftf/adapter/merge.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

class Merge final : public Pipe {
 public:
  Merge(std::shared_ptr<const Adapter> adapter, MergeOptions options, bool allow_nonfinite)
      : adapter_(std::move(adapter)), options_(std::move(options)), allow_nonfinite_(allow_nonfinite) {}

  std::string text() const override {
    return "merge-lora adapter=" + adapter_->fingerprint +
           " adapter-name=" + json_ascii_string(options_.adapter_name) +
           " scale=" + OrderedJson(options_.scale).dump() +
           (options_.base_is_residual ? " base-is-residual" : "") +
           (allow_nonfinite_ ? " allow-nonfinite" : "");
  }

  Result<void> apply(Stream& stream) const override {
    std::vector<TensorView> base;
    base.reserve(stream.tensors.size());
    for (const StreamTensor& tensor : stream.tensors)
      base.push_back({tensor.name, tensor.dtype, &tensor.shape});
    const JsonValue* config = stream.checkpoint->config();
    const JsonValue* tied = config == nullptr ? nullptr : config->get("tie_word_embeddings");
    Result<MergeResolution> resolved =
        resolve_merge(adapter_, base, options_, tied != nullptr && tied->is_true());
    if (!resolved) return std::move(resolved).error();
    for (const MergeResolution::Change& change : resolved->changes)
      apply_change(change, stream.tensors[change.base]);
    for (const MergeResolution::Added& added : resolved->added) {
      StreamTensor tensor{.name = added.name, .dtype = added.data->dtype, .shape = added.data->shape};
      tensor.source = stream.checkpoint->order.front();
      tensor.provided = provided(added.data);
      tensor.added = true;
      tensor.stages.push_back({.op = &kCastStage, .from = tensor.dtype, .to = tensor.dtype});
      stream.tensors.push_back(std::move(tensor));
    }
    for (const std::string& notice : adapter_->notices) stream.warnings.push_back(notice);
    for (const std::string& notice : resolved->notices) stream.warnings.push_back(notice);
    stream.merges.push_back({adapter_->given, resolved->modules, resolved->merged, resolved->skipped,
                             uint64_t{resolved->changes.size()}, uint64_t{resolved->added.size()}});
    return {};
  }

 private:
  std::shared_ptr<const TensorData> provided(const TensorData* data) const {
    return std::shared_ptr<const TensorData>(adapter_, data);  // lives as long as the adapter
  }

  void apply_change(const MergeResolution::Change& change, StreamTensor& tensor) const {
    DType from = tensor.dtype;
    if (change.replacement != nullptr) {
      tensor.provided = provided(change.replacement);
      tensor.shape = change.replacement->shape;
      tensor.stages.clear();
      from = change.replacement->dtype;
    }
    if (change.program != nullptr) {
      Stage stage{.op = &kMergeStage, .from = from, .to = tensor.dtype};
      stage.merge = change.program;
      stage.allow_nonfinite = allow_nonfinite_;
      tensor.stages.push_back(std::move(stage));
    } else {
      tensor.stages.push_back({.op = &kCastStage, .from = from, .to = tensor.dtype});
    }
  }

  std::shared_ptr<const Adapter> adapter_;
  MergeOptions options_;
  bool allow_nonfinite_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_merge(const Operation& operation) {
  if (operation.adapter == nullptr) {
    return Error{.code = ErrorCode::kUsage, .message = "merge-lora was given no adapter that has been read."};
  }
  MergeOptions options;
  if (const auto* scale = operation.find("scale")) options.scale = *parse_number(scale->front());
  if (const auto* name = operation.find("adapter-name")) options.adapter_name = name->front();
  options.base_is_residual =
      operation.find("base-is-residual") != nullptr || operation.find("force") != nullptr;
  options.strict = operation.find("strict") != nullptr;
  return std::unique_ptr<Pipe>(std::make_unique<Merge>(operation.adapter, std::move(options),
                                                       operation.find("allow-nonfinite") != nullptr));
}

std::string merge_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    const DType dtype = checkpoint.info(ref).dtype;
    if (is_floating(dtype) && (dtype_bits(dtype) >= 16 || is_fp8(dtype))) return "";
  }
  return "It holds no weights of a float type.";
}

}  // namespace tftf::transform
