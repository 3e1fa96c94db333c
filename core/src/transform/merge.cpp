#include <algorithm>
#include <cmath>

#include "pipe.h"
#include "tftf/adapter/merge.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/kernels.h"
#include "tftf/simd/scan.h"

namespace tftf::transform {
namespace {

// Values of `data` that are NaN or infinite once cast to `to`.
uint64_t nonfinite_after(const TensorData& data, DType to, uint64_t count) {
  constexpr uint64_t kRun = 1024;
  std::byte cast_run[kRun * 8];
  const KernelTable& kernels = best_kernels();
  const uint64_t size = dtype_bits(data.dtype) / 8;
  Scan seen;
  for (uint64_t done = 0; done < count; done += kRun) {
    const uint64_t run = std::min(kRun, count - done);
    const std::byte* from = data.bytes.data() + done * size;
    if (to == data.dtype) {
      kernels.scan(to, from, 0, run, seen);
    } else {
      cast(kernels, data.dtype, to, from, cast_run, run);
      kernels.scan(to, cast_run, 0, run, seen);
    }
  }
  return seen.nan + seen.inf;
}

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
    for (const MergeResolution::Change& change : resolved->changes) {
      TFTF_TRY(check_finite(change, stream.tensors[change.base], stream.warnings));
      apply_change(change, stream.tensors[change.base]);
    }
    for (const MergeResolution::Added& added : resolved->added) {
      TFTF_TRY(check_finite(*added.data, added.data->dtype, added.name, stream.warnings));
      StreamTensor tensor{.name = added.name, .dtype = added.data->dtype, .shape = added.data->shape};
      tensor.source = stream.checkpoint->order.front();
      tensor.provided = provided(added.data);
      tensor.added = true;
      tensor.stages.push_back({.op = &kCastStage, .from = tensor.dtype, .to = tensor.dtype});
      stream.tensors.push_back(std::move(tensor));
    }
    for (const std::string& notice : adapter_->notices) stream.warnings.push_back(notice);
    for (const std::string& notice : resolved->notices) stream.warnings.push_back(notice);
    for (const NamedTensor& tensor : adapter_->tensors) stream.held_bytes += tensor.data.bytes.size();
    stream.merges.push_back({adapter_->given, resolved->modules, resolved->merged, resolved->skipped,
                             uint64_t{resolved->changes.size()}, uint64_t{resolved->added.size()}});
    return {};
  }

 private:
  std::shared_ptr<const TensorData> provided(const TensorData* data) const {
    return std::shared_ptr<const TensorData>(adapter_, data);  // lives as long as the adapter
  }

  // What stands for the base's values is looked at here, since it is in memory: its own values that are not finite,
  // and those that the base's dtype cannot hold (a program on top rounds only the sum).
  Result<void> check_finite(const MergeResolution::Change& change, const StreamTensor& tensor,
                            std::vector<std::string>& warnings) const {
    if (change.replacement == nullptr) return {};
    const DType dtype = change.program == nullptr ? tensor.dtype : change.replacement->dtype;
    return check_finite(*change.replacement, dtype, tensor.name, warnings);
  }

  Result<void> check_finite(const TensorData& data, DType dtype, const std::string& name,
                            std::vector<std::string>& warnings) const {
    const uint64_t count = element_count(data.shape).value_or(0);
    const uint64_t bad = is_floating(data.dtype) ? nonfinite_after(data, dtype, count) : 0;
    if (bad == 0) return {};
    const std::string what = grouped_digits(bad) + " of the " + grouped_digits(count) +
                             " values that adapter " + quote_name(adapter_->file) + " has saved for " +
                             quote_name(name) + " are not finite as " + std::string(dtype_name(dtype));
    if (allow_nonfinite_) {
      warnings.push_back(what + ".");
      return {};
    }
    return Error{.code = ErrorCode::kRefusedValues,
                 .message = what + "; --allow-nonfinite takes them.",
                 .file = adapter_->file,
                 .tensor = name};
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
