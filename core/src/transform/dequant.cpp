// `dequant`: whatever layouts the codecs read become plain floats.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "decoded.h"
#include "pipe.h"
#include "restamp.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"
#include "tftf/base/json_text.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/registry.h"
#include "tftf/quant/undecided.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kNative = "native";
constexpr std::string_view kUnscaledId = "fp8-unscaled";
constexpr std::string_view kScaleSuffix = ".qs";
constexpr std::string_view kColibriPrefix = "colibri-";

uint64_t ref_key(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }

struct DequantOptions {
  std::optional<DType> dtype{};
  bool native = false;
  std::string layout{};
  std::optional<uint64_t> rows{};  // of every pair, which are then of `layout` whatever they look like
  uint64_t columns = 0;
  uint64_t group_size = 0;
  std::vector<Glob> include{}, exclude{};
};

class Dequant final : public Pipe {
 public:
  explicit Dequant(DequantOptions options) : options_(std::move(options)) {}

  std::string text() const override {
    std::string text = "dequant";
    if (options_.dtype) text += " dtype=" + std::string(dtype_info(*options_.dtype).torch);
    if (options_.native) text += " dtype=native";
    if (!options_.layout.empty()) text += " layout=" + options_.layout;
    if (options_.rows) {
      text += " rows=" + std::to_string(*options_.rows) + " cols=" + std::to_string(options_.columns);
      if (options_.group_size != 0) text += " group-size=" + std::to_string(options_.group_size);
    }
    for (const Glob& glob : options_.include) text += " include=" + json_ascii_string(glob.pattern());
    for (const Glob& glob : options_.exclude) text += " exclude=" + json_ascii_string(glob.pattern());
    return text;
  }

  Result<void> apply(Stream& stream) const override {
    TFTF_TRY(check_moved_codes(stream, "dequantised"));
    Work work(stream);
    std::vector<QuantMatch> given;
    if (options_.rows) {
      given = pairs_of(stream);
      for (const QuantMatch& match : given) TFTF_TRY(dequantise(work, match));
      if (given.empty())
        stream.warnings.push_back("No tensor has a .qs beside it: there is nothing to dequantise.");
    } else {
      TFTF_TRY(check_problems(stream));
      bool named = options_.layout.empty();
      for (const QuantFinding& finding : stream.layouts->findings) TFTF_TRY(dequantise(work, finding, named));
      if (!named) {
        return Error{.code = ErrorCode::kRefusedMissing,
                     .message = "Nothing in the model is of the layout " + quote_name(options_.layout) + ".",
                     .expected = options_.layout};
      }
      if (stream.layouts->findings.empty())
        stream.warnings.push_back("Nothing in the model is quantised; its tensors are copied.");
      else if (work.modules == 0)
        stream.warnings.push_back("No quantised module is selected; all tensors are copied.");
    }
    for (const std::string& note : stream.layouts->notes) stream.warnings.push_back(note);
    if (work.unscaled > 0)
      stream.warnings.push_back(grouped_digits(work.unscaled) +
                                (work.unscaled == 1 ? " FP8 weight has" : " FP8 weights have") +
                                " no scale: the codes are taken for the values.");
    stream.dequantises = true;
    stream.adds_format = true;
    if (work.dtypes.size() == 1 && is_floating(*work.dtypes.begin()))
      stream.result_dtype = *work.dtypes.begin();
    TFTF_TRY(restamp(stream, work.names, {}));
    drop(stream, work);
    return {};
  }

 private:
  struct Work {
    explicit Work(Stream& s) : stream(s) {
      for (size_t i = 0; i < s.tensors.size(); ++i)
        if (!s.tensors[i].added) at.emplace(ref_key(s.tensors[i].source), i);
    }
    Stream& stream;
    std::unordered_map<uint64_t, size_t> at;  // of stored tensors, in the stream
    std::unordered_set<size_t> consumed{};
    std::unordered_set<std::string> names{};
    std::unordered_set<DType> dtypes{};
    uint64_t modules = 0;
    uint64_t unscaled = 0;  // of them
  };

  bool selects(const std::string& name) const {
    return glob_selects(options_.include, options_.exclude, name);
  }

  Result<void> check_problems(const Stream& stream) const {
    for (const QuantProblem& problem : stream.layouts->problems) {
      if (!selects(problem.module)) continue;
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be dequantised: " + problem.what + ".",
                   .tensor = problem.module};
    }
    return {};
  }

  Result<void> dequantise(Work& work, const QuantFinding& finding, bool& named) const {
    const bool undecided = finding.layout == kUndecidedNvfp4;
    if (undecided || finding.layout == options_.layout) named = true;
    bool all = true;
    for (const QuantMatch& match : finding.matches) {
      if (!selects(match.module)) {
        all = false;
        continue;
      }
      TFTF_TRY(dequantise(work, undecided ? decided(match, options_.layout) : match));
    }
    // Markers and the like have no meaning without their modules.
    for (const TensorRef extra : finding.extras) {
      const auto at = work.at.find(ref_key(extra));
      if (all && at != work.at.end()) work.consumed.insert(at->second);
    }
    return {};
  }

  Result<void> dequantise(Work& work, const QuantMatch& match) const {
    const auto at = work.at.find(ref_key(match.weight));
    if (at == work.at.end()) return {};  // left out by an earlier pipe
    StreamTensor& weight = work.stream.tensors[at->second];
    const std::string& stored = work.stream.checkpoint->info(match.weight).name;
    DType to = match.logical_dtype;
    if (options_.dtype) {
      to = *options_.dtype;
    } else if (!options_.native) {
      to = config_dtype(*work.stream.checkpoint).value_or(to);
    }
    TFTF_TRY(decode_weight(work.stream, match, to, weight));
    work.names.insert(weight.name);
    if (weight.name == stored && match.module != stored) work.stream.rename(weight, match.module);
    for (const QuantCompanion& companion : match.companions) {
      const auto part = work.at.find(ref_key(companion.tensor));
      if (part != work.at.end()) work.consumed.insert(part->second);
    }
    work.dtypes.insert(to);
    ++work.modules;
    if (match.layout == kUnscaledId) ++work.unscaled;
    return {};
  }

  // NAME and NAME.qs, whatever detection makes of them.
  std::vector<QuantMatch> pairs_of(const Stream& stream) const {
    std::vector<QuantMatch> matches;
    for (const TensorRef ref : stream.checkpoint->order) {
      const TensorInfo& info = stream.checkpoint->info(ref);
      const auto scales = stream.checkpoint->find(info.name + std::string(kScaleSuffix));
      if (!scales || !selects(info.name)) continue;
      QuantMatch match;
      match.layout = find_quant_format(options_.layout)->id;
      match.module = info.name;
      match.weight = ref;
      match.role = "weight";
      match.companions.push_back({"qs", *scales});
      match.logical_dtype = DType::F32;
      match.logical_shape = Shape{*options_.rows, options_.columns};
      match.group_size = options_.group_size;
      matches.push_back(std::move(match));
    }
    return matches;
  }

  static void drop(Stream& stream, const Work& work) {
    std::vector<StreamTensor> kept;
    kept.reserve(stream.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      if (work.consumed.count(i) > 0) {
        stream.dropped.push_back({stream.checkpoint->info(stream.tensors[i].source).name, "companion"});
      } else {
        kept.push_back(std::move(stream.tensors[i]));
      }
    }
    stream.tensors = std::move(kept);
  }

  DequantOptions options_;
};

Error dequant_usage(std::string message) {
  return {.code = ErrorCode::kUsage, .message = std::move(message)};
}

}  // namespace

Result<std::unique_ptr<Pipe>> make_dequant(const Operation& operation) {
  DequantOptions options;
  const auto number = [&operation](std::string_view name) -> std::optional<uint64_t> {
    const auto* given = operation.find(name);
    return given == nullptr ? std::nullopt : json_unsigned(given->front());
  };
  if (const auto* dtype = operation.find("dtype")) {
    options.native = dtype->front() == kNative;
    if (!options.native) options.dtype = find_torch_dtype(dtype->front());
  }
  if (const auto* layout = operation.find("layout")) {
    const QuantFormat* format = find_quant_format(layout->front());
    if (format == nullptr) return dequant_usage("There is no layout " + quote_name(layout->front()) + ".");
    options.layout = format->id;
  }
  for (const Operation::Given& given : operation.options) {
    if (given.name == "include") options.include.emplace_back(given.values[0]);
    if (given.name == "exclude") options.exclude.emplace_back(given.values[0]);
  }
  options.rows = number("rows");
  if (options.rows) {
    const bool colibri = options.layout.substr(0, kColibriPrefix.size()) == kColibriPrefix;
    const auto columns = number("cols");
    if (!columns || !colibri || !find_quant_format(options.layout)->read())
      return dequant_usage("--rows goes with --cols and the --layout of a colibri container.");
    options.columns = *columns;
    const auto group = number("group-size");
    const bool grouped = options.layout == colibri::format_info(colibri::Format::kInt4Grouped).id;
    if (grouped != group.has_value() && (grouped || options.layout != "colibri-int3-g64" || group != 64)) {
      return dequant_usage(grouped ? "colibri-int4-grouped needs --group-size."
                                   : "--group-size does not go with " + options.layout + ".");
    }
    options.group_size = group.value_or(0);
  } else if (operation.find("cols") != nullptr || operation.find("group-size") != nullptr) {
    return dequant_usage("--cols and --group-size need --rows.");
  }
  return std::unique_ptr<Pipe>(std::make_unique<Dequant>(std::move(options)));
}

std::string dequant_obstacle(const Checkpoint& checkpoint) {
  SmallValues values(checkpoint);
  const LayoutReport report = detect_layouts(checkpoint, values);
  std::string unread;
  for (const QuantFinding& finding : report.findings) {
    const QuantFormat* format = find_quant_format(finding.layout);
    if (format != nullptr && format->read()) return "";
    unread += (unread.empty() ? "" : ", ") + std::string(finding.layout);
  }
  return unread.empty() ? "Nothing in it is quantised." : "Its layouts are not read: " + unread + ".";
}

}  // namespace tftf::transform
