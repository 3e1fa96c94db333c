#include <algorithm>
#include <cmath>

#include "pipe.h"
#include "tftf/adapter/merge.h"
#include "tftf/adapter/tokenizer_files.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"
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

std::string axes_text(const std::string& option, const std::optional<Axes>& axes) {
  return axes ? " " + option + (*axes == Axes::kInOut ? "=in-out" : "=out-in") : std::string();
}

std::optional<Axes> axes_given(const Operation& operation, std::string_view option) {
  const auto* given = operation.find(option);
  if (given == nullptr) return std::nullopt;
  return given->front() == "in-out" ? Axes::kInOut : Axes::kOutIn;
}

MergeModel model_of(const JsonValue* config) {
  MergeModel model;
  if (config == nullptr || !config->is_object()) return model;
  const auto take = [&model](const JsonValue& section) {
    if (const auto type = section.string("model_type")) model.types.emplace_back(*type);
  };
  take(*config);
  for (const JsonValue::Member& member : config->members)
    if (member.second.is_object() && member.first != "text_config") take(member.second);
  const JsonValue* text = config->get("text_config");
  if (text != nullptr && text->is_object()) take(*text);
  const JsonValue* tied = config->get("tie_word_embeddings");
  if (tied == nullptr && text != nullptr && text->is_object()) tied = text->get("tie_word_embeddings");
  if (tied != nullptr) model.tied = tied->is_true();
  return model;
}

class Merge final : public Pipe {
 public:
  Merge(std::shared_ptr<const Adapter> adapter, MergeOptions options, std::string renames,
        bool allow_nonfinite, bool tokenizer)
      : adapter_(std::move(adapter)),
        options_(std::move(options)),
        renames_(std::move(renames)),
        allow_nonfinite_(allow_nonfinite),
        tokenizer_(tokenizer) {}

  std::string text() const override {
    return "merge-lora adapter=" + adapter_->fingerprint +
           " adapter-name=" + json_ascii_string(options_.adapter_name) +
           " scale=" + OrderedJson(options_.scale).dump() + axes_text("expert-axes", options_.expert_axes) +
           axes_text("linear-axes", options_.linear_axes) + renames_ +
           (options_.parameters_in_order ? " parameters-in-order" : "") + (options_.fit ? " fit" : "") +
           (options_.untie_head ? " untie-head" : "") + (tokenizer_ ? " tokenizer-from=adapter" : "") +
           (options_.base_is_residual ? " base-is-residual" : "") +
           (allow_nonfinite_ ? " allow-nonfinite" : "");
  }

  Result<void> apply(Stream& stream) const override {
    std::vector<TensorView> base;
    base.reserve(stream.tensors.size());
    for (const StreamTensor& tensor : stream.tensors)
      base.push_back({tensor.name, tensor.dtype, &tensor.shape});
    MergeModel model = model_of(stream.config());
    for (const auto& [path, value] : stream.config_members)  // of a merge before this one
      if (path.back() == "tie_word_embeddings") model.tied = value == "true";
    Result<MergeResolution> resolved = resolve_merge(adapter_, base, options_, model);
    if (!resolved) return with_way(std::move(resolved).error(), stream);
    const Owner& owner = resolved->adapted != nullptr ? resolved->adapted : adapter_;
    std::vector<StreamTensor> added;  // made of what the base's tensors are before this merge
    for (const MergeResolution::Added& one : resolved->added) {
      if (one.data != nullptr) {
        const DType held = one.program == nullptr ? one.data->dtype : DType::F64;
        TFTF_TRY(check_finite(*one.data, held, one.name, stream.warnings));
      }
      added.push_back(make_added(one, stream, owner));
    }
    for (const MergeResolution::Change& change : resolved->changes) {
      TFTF_TRY(check_finite(change, stream.tensors[change.base], stream.warnings));
      apply_change(change, stream.tensors[change.base], owner);
    }
    for (StreamTensor& tensor : added) stream.tensors.push_back(std::move(tensor));
    follow_config(*resolved, stream);
    TFTF_TRY(follow_tokenizer(stream));
    for (const std::string& notice : adapter_->notices) stream.warnings.push_back(notice);
    for (const std::string& notice : resolved->notices) stream.warnings.push_back(notice);
    for (const NamedTensor& tensor : adapter_->tensors) stream.held_bytes += tensor.data.bytes.size();
    if (owner != adapter_)
      for (const NamedTensor& tensor : owner->tensors) stream.held_bytes += tensor.data.bytes.size();
    stream.merges.push_back({adapter_->given, resolved->modules, resolved->merged, resolved->skipped,
                             uint64_t{resolved->changes.size()}, uint64_t{resolved->added.size()}});
    return {};
  }

 private:
  // Into codes nothing is merged: what the user can do then.
  static Error with_way(Error error, const Stream& stream) {
    if (stream.dequantises || error.message.find("--merge-lora") != std::string::npos) return error;
    for (const QuantFinding& finding : stream.layouts->findings) {
      const QuantFormat* format = find_quant_format(finding.layout);
      if (format == nullptr || !format->read() || finding.matches.empty()) continue;
      error.message += " The base is quantised (" + std::string(format->id) +
                       "): dequant --merge-lora merges into the weights that its codes stand for.";
      break;
    }
    return error;
  }

  using Owner = std::shared_ptr<const Adapter>;
  static std::shared_ptr<const TensorData> provided(const TensorData* data, const Owner& owner) {
    return std::shared_ptr<const TensorData>(owner, data);  // lives as long as the adapter
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

  StreamTensor make_added(const MergeResolution::Added& added, const Stream& stream,
                          const Owner& owner) const {
    StreamTensor tensor{.name = added.name};
    if (added.copy_of) {
      tensor = stream.tensors[*added.copy_of];
      tensor.name = added.name;
    } else {
      tensor.dtype = added.data->dtype;
      tensor.shape = added.data->shape;
      tensor.source = stream.checkpoint->order.front();
      tensor.provided = provided(added.data, owner);
      tensor.added = true;
    }
    Stage stage{.op = &kCastStage, .from = tensor.dtype, .to = tensor.dtype};
    if (added.program != nullptr) {
      stage.op = &kMergeStage;
      stage.merge = added.program;
      stage.allow_nonfinite = allow_nonfinite_;
    }
    tensor.stages.push_back(std::move(stage));
    return tensor;
  }

  // What config.json says of the embeddings follows them.
  static void follow_config(const MergeResolution& resolved, Stream& stream) {
    const JsonValue* config = stream.config();
    if (config == nullptr || !config->is_object()) return;
    const JsonValue* text = config->get("text_config");
    const auto set = [&](const std::string& key, const std::string& value, bool needed) {
      bool there = false;
      if (text != nullptr && text->is_object() && text->find(key) != nullptr) {
        stream.config_members.push_back({{"text_config", key}, value});
        there = true;
      }
      if (config->find(key) != nullptr || (needed && !there)) stream.config_members.push_back({{key}, value});
    };
    if (resolved.unties) set("tie_word_embeddings", "false", true);
    if (resolved.vocab_size) set("vocab_size", std::to_string(*resolved.vocab_size), false);
  }

  // The adapter's tokenizer in place of the model's, or a word about it.
  Result<void> follow_tokenizer(Stream& stream) const {
    std::string names;
    for (const AdapterSideFile& file : adapter_->tokenizer)
      names += (names.empty() ? "" : ", ") + quote_name(file.name);
    if (!tokenizer_) {
      if (!names.empty())
        stream.warnings.push_back("The adapter has a tokenizer of its own beside it (" + names +
                                  "); the result keeps the model's. Where tokens were added, "
                                  "--tokenizer-from adapter takes the adapter's.");
      return {};
    }
    const auto refused = [&](ErrorCode code, const std::string& why) {
      return Error{
          .code = code, .message = "--tokenizer-from adapter: " + why + ".", .file = adapter_->given};
    };
    if (names.empty())
      return refused(ErrorCode::kRefusedMissing,
                     "beside adapter " + quote_name(adapter_->given) + " there are no files of a tokenizer");
    if (stream.request->layout.single_file)
      return refused(ErrorCode::kUsage,
                     "the output is one file, and a tokenizer is several; name a folder as the output");
    if (!stream.made_sides.empty())
      return refused(ErrorCode::kUsage, "two adapters cannot both give the result its tokenizer");
    const bool whole = std::any_of(adapter_->tokenizer.begin(), adapter_->tokenizer.end(),
                                   [](const AdapterSideFile& file) { return is_vocabulary_file(file.name); });
    std::string gone;
    for (const AdapterSideFile& file : adapter_->tokenizer)
      stream.made_sides.emplace_back(file.name, file.text.value_or(""));
    for (const FileEntry& file : stream.request->folder) {
      const bool same = std::any_of(adapter_->tokenizer.begin(), adapter_->tokenizer.end(),
                                    [&](const AdapterSideFile& one) { return one.name == file.name; });
      if (!same && !(whole && is_tokenizer_file(file.name))) continue;
      if (!same) gone += (gone.empty() ? "" : ", ") + quote_name(file.name);
      stream.sides_replaced.push_back(file.name);
    }
    stream.warnings.push_back(
        "The tokenizer is the adapter's: " + names + "." +
        (gone.empty() ? "" : " Left out, since the model's own tokenizer has them: " + gone + "."));
    return {};
  }

  void apply_change(const MergeResolution::Change& change, StreamTensor& tensor, const Owner& owner) const {
    DType from = tensor.dtype;
    if (change.replacement != nullptr) {
      tensor.provided = provided(change.replacement, owner);
      tensor.gather.reset();
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
  std::string renames_;  // as text
  bool allow_nonfinite_;
  bool tokenizer_;  // the adapter's is the result's
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
  options.expert_axes = axes_given(operation, "expert-axes");
  options.linear_axes = axes_given(operation, "linear-axes");
  options.parameters_in_order = operation.find("parameters-in-order") != nullptr;
  options.fit = operation.find("fit") != nullptr;
  options.untie_head = operation.find("untie-head") != nullptr;
  std::string renames;
  for (const Operation::Given& given : operation.options) {
    if (given.name != "rename-adapter") continue;
    Result<Regex> pattern = Regex::compile(given.values[0]);
    if (!pattern) return std::move(pattern).error();
    Result<RegexTemplate> replacement = pattern->parse_template(given.values[1]);
    if (!replacement) return std::move(replacement).error();
    options.renames.emplace_back(*std::move(pattern), *std::move(replacement));
    renames +=
        " rename-adapter=" + json_ascii_string(given.values[0]) + "->" + json_ascii_string(given.values[1]);
  }
  return std::unique_ptr<Pipe>(
      std::make_unique<Merge>(operation.adapter, std::move(options), std::move(renames),
                              operation.find("allow-nonfinite") != nullptr, takes_tokenizer(operation)));
}

std::string merge_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    const DType dtype = checkpoint.info(ref).dtype;
    if (is_floating(dtype) && (dtype_bits(dtype) >= 16 || is_fp8(dtype))) return "";
  }
  return "It holds no weights of a float type.";
}

}  // namespace tftf::transform
