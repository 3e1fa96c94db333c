// `quantize`: plain float matrices, and what the codecs read, become codes of a layout, round to nearest, without data.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "decoded.h"
#include "encoded.h"
#include "pipe.h"
#include "restamp.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"
#include "tftf/base/json_text.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kColibriIds = "colibri-";
constexpr std::string_view kUnscaledFp8 = "fp8-unscaled";

bool has_weight_name(const std::string& name) { return name == "weight" || ends_with(name, ".weight"); }

bool is_plain_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16 || dtype == DType::F64;
}

// Whether a colibri reader looks a stamp of this weight up (spec colibri 3.4), in whatever layer.
bool reads_stamp(const std::string& name) {
  colibri::Pass pass;
  pass.layers = INT64_MAX;
  return colibri::is_stampable(colibri::classify(name, pass));
}

struct QuantizeOptions {
  const QuantFormat* format = nullptr;
  EncodeOptions encode{};
  std::vector<Glob> include{}, exclude{};
};

class Quantize final : public Pipe {
 public:
  explicit Quantize(QuantizeOptions options) : options_(std::move(options)) {}

  std::string text() const override {
    std::string text = "quantize to=" + std::string(options_.format->id);
    if (options_.encode.bits != 0) text += " bits=" + std::to_string(options_.encode.bits);
    if (options_.encode.group_size != 0) text += " group-size=" + std::to_string(options_.encode.group_size);
    if (options_.encode.whole_rows) text += " group-size=-1";
    if (options_.encode.asymmetric) text += " asymmetric";
    if (options_.encode.nested) text += " nested";
    if (options_.encode.strict) text += " strict";
    for (const Glob& glob : options_.include) text += " include=" + json_ascii_string(glob.pattern());
    for (const Glob& glob : options_.exclude) text += " exclude=" + json_ascii_string(glob.pattern());
    return text;
  }

  Result<void> apply(Stream& stream) const override {
    TFTF_TRY(check_moved_codes(stream, "quantised"));
    Work work{stream};
    index_modules(work);
    TFTF_TRY(check_readable(work));
    const bool by_name = any_weight_name(work);
    std::vector<StreamTensor> out;
    std::vector<std::string> plain_modules;
    uint64_t left = 0;
    std::optional<DType> dtype;  // of the first that is quantised
    for (StreamTensor& tensor : stream.tensors) {
      const QuantMatch* match = work.match_of(tensor);
      if (work.is_companion(tensor)) {
        // Goes with its weight, or stays with it.
        if (work.quantised.count(work.owner_of(tensor)) > 0) {
          stream.dropped.push_back({stream.checkpoint->info(tensor.source).name, "companion"});
        } else {
          out.push_back(std::move(tensor));
        }
        continue;
      }
      const bool matrix = is_matrix(tensor, match);
      if (!matrix || !selects(name_of(stream, tensor, match), by_name)) {
        if (matrix && has_weight_name(tensor.name)) plain_modules.push_back(module_of(tensor.name));
        out.push_back(std::move(tensor));
        continue;
      }
      if (!dtype) dtype = match != nullptr ? match->logical_dtype : tensor.dtype;
      TFTF_TRY(quantise(work, std::move(tensor), match, out));
      ++left;
    }
    stream.tensors = std::move(out);
    if (left == 0) stream.warnings.push_back("No tensor is selected; all tensors are copied.");
    stream.adds_format = true;
    const Encoder& encoder = *options_.format->encoder;
    if (encoder.config != nullptr && left > 0) {
      stream.quantization_config = encoder.config({plain_modules, options_.encode, *dtype});
      if (encoder.config_twice)
        stream.config_members.push_back({{"quantization"}, stream.quantization_config});
    }
    if (encoder.stamped) TFTF_TRY(restamp(stream, work.names, work.stamps));
    warn_of_mixed_experts(work);
    return {};
  }

 private:
  struct Work {
    Stream& stream;
    std::unordered_map<uint64_t, const QuantMatch*> by_weight{};
    std::unordered_map<uint64_t, uint64_t> owner{};  // companion to weight
    std::unordered_set<uint64_t> quantised{};        // weights, decided before the pass
    std::unordered_set<std::string> names{};
    std::map<std::string, std::string, std::less<>> stamps{};

    static uint64_t key(const StreamTensor& t) { return uint64_t{t.source.shard} << 32 | t.source.tensor; }
    const QuantMatch* match_of(const StreamTensor& tensor) const {
      const auto at = by_weight.find(key(tensor));
      return at == by_weight.end() || tensor.added || tensor.gather != nullptr || !tensor.stages.empty()
                 ? nullptr
                 : at->second;
    }
    bool is_companion(const StreamTensor& tensor) const {
      return !tensor.added && owner.count(key(tensor)) > 0;
    }
    uint64_t owner_of(const StreamTensor& tensor) const { return owner.at(key(tensor)); }
  };

  void index_modules(Work& work) const {
    const auto key = [](TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; };
    for (const QuantFinding& finding : work.stream.layouts->findings)
      for (const QuantMatch& match : finding.matches) {
        work.by_weight.emplace(key(match.weight), &match);
        for (const QuantCompanion& companion : match.companions)
          work.owner.emplace(key(companion.tensor), key(match.weight));
      }
    const bool by_name = any_weight_name(work);
    for (const StreamTensor& tensor : work.stream.tensors) {
      const QuantMatch* match = work.match_of(tensor);
      if (match != nullptr && is_matrix(tensor, match) &&
          selects(name_of(work.stream, tensor, match), by_name))
        work.quantised.insert(Work::key(tensor));
    }
  }

  // What the weight is called as a plain one, unless an earlier pipe has given its codes a name.
  static const std::string& name_of(const Stream& stream, const StreamTensor& tensor,
                                    const QuantMatch* match) {
    const bool as_stored = match != nullptr && tensor.name == stream.checkpoint->info(tensor.source).name;
    return as_stored ? match->module : tensor.name;
  }

  // Rows and columns of elements; codes of a layout that hides them, or that nothing reads, are matrices all the same.
  static bool is_matrix(const StreamTensor& tensor, const QuantMatch* match) {
    if (match != nullptr) return !match->logical_shape || match->logical_shape->size() == 2;
    return tensor.shape.size() == 2 && (is_plain_float(tensor.dtype) || is_fp8(tensor.dtype));
  }

  // Where nothing is called *.weight, as in a file of one matrix, every matrix is meant.
  bool any_weight_name(const Work& work) const {
    return std::any_of(work.stream.tensors.begin(), work.stream.tensors.end(),
                       [&](const StreamTensor& tensor) {
                         const QuantMatch* match = work.match_of(tensor);
                         return !work.is_companion(tensor) && is_matrix(tensor, match) &&
                                has_weight_name(name_of(work.stream, tensor, match));
                       });
  }

  bool selects(const std::string& name, bool by_name) const {
    if (options_.include.empty() && by_name && !has_weight_name(name)) return false;
    return glob_selects(options_.include, options_.exclude, name);
  }

  // Codes whose scales are broken or unknown would be taken for values.
  Result<void> check_readable(const Work& work) const {
    for (const QuantProblem& problem : work.stream.layouts->problems) {
      if (!selects(problem.module, true)) continue;
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be quantised anew: " + problem.what + ".",
                   .tensor = problem.module};
    }
    return {};
  }

  Result<void> quantise(Work& work, StreamTensor tensor, const QuantMatch* match,
                        std::vector<StreamTensor>& out) const {
    Stream& stream = work.stream;
    if (match != nullptr && match->layout != kUnscaledFp8) {
      TFTF_TRY(decode_weight(stream, *match, DType::F32, tensor));
      tensor.name = name_of(stream, tensor, match);
      stream.dequantises = true;  // the section of config.json goes with the last of the old codes
    } else if (is_fp8(tensor.dtype)) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "Tensor " + stream.described(tensor) + " is " +
                              std::string(dtype_name(tensor.dtype)) +
                              " and has no scale: its codes are not the weights.",
                   .file = stream.file_of(tensor.source),
                   .tensor = tensor.name};
    } else if (tensor.dtype == DType::F64) {
      tensor.stages.push_back({.op = &kCastStage, .from = DType::F64, .to = DType::F32});
      tensor.dtype = DType::F32;
    }
    if (tensor.shape[0] == 0 || tensor.shape[1] == 0) {
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Tensor " + stream.described(tensor) + " of shape " + shape_text(tensor.shape) +
                              " has no elements: there is nothing to quantise.",
                   .file = stream.file_of(tensor.source),
                   .tensor = tensor.name};
    }
    const Encoder& encoder = *options_.format->encoder;
    std::optional<std::string> stamp;
    if (encoder.stamped && reads_stamp(tensor.name)) {
      stamp = options_.format->id.substr(kColibriIds.size());
      work.stamps.emplace(tensor.name, *stamp);
    }
    work.names.insert(tensor.name);
    return encode_matrix(stream, std::move(tensor), encoder, options_.encode, std::move(stamp), out);
  }

  // All projections of routed experts on the lattice, or none (spec colibri 1.7).
  void warn_of_mixed_experts(const Work& work) const {
    if (options_.format->id != colibri::format_info(colibri::Format::kE8Lattice).id) return;
    bool coded = false, plain = false;
    for (const StreamTensor& tensor : work.stream.tensors) {
      if (tensor.output > 0 || tensor.literal || tensor.measured || tensor.shape.empty() ||
          !colibri::is_routed_expert(tensor.name) || !has_weight_name(tensor.name))
        continue;
      (tensor.bundle != 0 ? coded : plain) = true;
    }
    if (coded && plain) {
      work.stream.warnings.push_back(
          "Some projections of routed experts are e8-iq3-lattice and some are not: their reader takes all or "
          "none.");
    }
  }

  static std::string module_of(const std::string& name) {
    return ends_with(name, ".weight") ? name.substr(0, name.size() - 7) : name;
  }

  QuantizeOptions options_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_quantize(const Operation& operation) {
  QuantizeOptions options;
  const std::string& to = operation.find("to")->front();
  options.format = find_quant_format(to);
  if (options.format == nullptr || !options.format->written()) {
    std::string known;
    for (const QuantFormat* format : quant_formats())
      if (format->written()) known += (known.empty() ? "" : ", ") + std::string(format->id);
    return Error{
        .code = ErrorCode::kUsage,
        .message = "--to " + quote_name(to) + " is no layout that can be written; these can: " + known + ".",
        .expected = known,
        .found = to};
  }
  if (const auto* bits = operation.find("bits"))
    options.encode.bits =
        static_cast<uint32_t>(std::min<uint64_t>(*json_unsigned(bits->front()), UINT32_MAX));
  if (const auto* size = operation.find("group-size")) {
    options.encode.group_size = json_unsigned(size->front()).value_or(0);
    options.encode.whole_rows = options.encode.group_size == 0;
  }
  options.encode.asymmetric = operation.find("asymmetric") != nullptr;
  options.encode.strict = operation.find("strict") != nullptr;
  options.encode.nested = operation.find("nested") != nullptr;
  if (options.encode.nested && !options.format->encoder->nests)
    return Error{.code = ErrorCode::kUsage, .message = "--nested does not go with " + to + "."};
  TFTF_TRY(options.format->encoder->check(options.format->id, options.encode));
  for (const Operation::Given& given : operation.options) {
    if (given.name == "include") options.include.emplace_back(given.values[0]);
    if (given.name == "exclude") options.exclude.emplace_back(given.values[0]);
  }
  return std::unique_ptr<Pipe>(std::make_unique<Quantize>(std::move(options)));
}

std::string quantize_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    const TensorInfo& info = checkpoint.info(ref);
    if (info.shape.size() == 2 && is_floating(info.dtype)) return "";
  }
  return "It holds no matrix of floats.";
}

}  // namespace tftf::transform
