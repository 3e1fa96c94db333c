// `quantize --to compressed-tensors`: every module that a scheme means becomes what its group says, round to nearest, or under
// scales that are given.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "decoded.h"
#include "encoded.h"
#include "pipe.h"
#include "quant/ct/written_scheme.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"
#include "tftf/base/sha256.h"
#include "tftf/base/size_text.h"
#include "tftf/simd/cast.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kOfWeight = ".weight";
constexpr std::string_view kCacheScales[] = {".k_scale",      ".v_scale",      ".q_scale",
                                             ".k_zero_point", ".v_zero_point", ".q_zero_point"};

struct SchemeOptions {
  std::string text;  // of the operation, for the plan
  ct::WrittenScheme scheme{};
  std::shared_ptr<const TensorFile> params{};         // scales of weights, and of activations
  std::shared_ptr<const TensorFile> static_params{};  // of activations alone
  std::vector<Glob> include{}, exclude{};
};

class QuantizeScheme final : public Pipe {
 public:
  explicit QuantizeScheme(SchemeOptions options)
      : options_(std::move(options)),
        schemes_(options_.scheme.config),
        sparse_targets_(options_.scheme.sparse_targets.value_or(std::vector<std::string>())),
        sparse_ignore_(options_.scheme.sparse_ignore) {}

  std::string text() const override { return options_.text; }

  Result<void> apply(Stream& stream) const override {
    Work work{stream};
    index_modules(work);
    TFTF_TRY(check_readable(work));
    std::vector<StreamTensor> out;
    for (StreamTensor& tensor : stream.tensors) TFTF_TRY(take(work, std::move(tensor), out));
    for (const auto* file : {options_.params.get(), options_.static_params.get()})
      if (file != nullptr) add_cache_scales(work, *file, out);
    stream.tensors = std::move(out);
    stream.adds_format = true;
    warn(work);
    if (work.done > 0) stream.quantization_config = ct::scheme_section(options_.scheme, work.plain);
    for (const auto* file : {options_.params.get(), options_.static_params.get()})
      if (file != nullptr) stream.held_bytes += file->size();
    return {};
  }

 private:
  struct Work {
    Stream& stream;
    std::unordered_map<uint64_t, const QuantMatch*> by_weight{};
    std::unordered_map<uint64_t, uint64_t> owner{};  // companion to weight
    std::unordered_set<uint64_t> coded{};            // weights that are quantised anew
    std::vector<std::string> plain{};                // modules that the scheme means and that stay
    std::unordered_set<std::string> used{};          // tensors of the files
    uint64_t done = 0, stacks = 0;
    std::string first_stack{};

    static uint64_t key(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }
    static uint64_t key(const StreamTensor& tensor) { return key(tensor.source); }
    const QuantMatch* match_of(const StreamTensor& tensor) const {
      const auto at = by_weight.find(key(tensor));
      return at == by_weight.end() || tensor.added || !tensor.stages.empty() ? nullptr : at->second;
    }
  };

  // What the scheme says of a tensor.
  struct Choice {
    std::string module{};
    const ct::Group* group = nullptr;
    ct::Sparse sparse = ct::Sparse::kNo;
    explicit operator bool() const { return group != nullptr || sparse != ct::Sparse::kNo; }
  };

  void index_modules(Work& work) const {
    for (const QuantFinding& finding : work.stream.layouts->findings)
      for (const QuantMatch& match : finding.matches) {
        work.by_weight.emplace(Work::key(match.weight), &match);
        for (const QuantCompanion& companion : match.companions)
          work.owner.emplace(Work::key(companion.tensor), Work::key(match.weight));
      }
    for (const StreamTensor& tensor : work.stream.tensors)
      if (choose(work, tensor)) work.coded.insert(Work::key(tensor));
  }

  // What the weight is called as a plain one, unless an earlier pipe has given its codes a name.
  static const std::string& name_of(const Stream& stream, const StreamTensor& tensor,
                                    const QuantMatch* match) {
    const bool as_stored = match != nullptr && tensor.name == stream.checkpoint->info(tensor.source).name;
    return as_stored ? match->module : tensor.name;
  }

  bool means(const std::string& module) const {
    const std::string_view kind = ct::guessed_class(module);
    if (options_.scheme.preset && ct::is_left_plain(module)) return false;
    const ct::Group* group = schemes_.assign(module, kind);
    return group != nullptr && group->weights.has_value();
  }

  bool means_sparse(const std::string& module) const {
    if (options_.scheme.sparse == ct::Sparse::kNo || sparse_ignore_.matches(module)) return false;
    if (!options_.scheme.sparse_targets) return true;
    const std::string_view kind = ct::guessed_class(module);
    return sparse_targets_.matches(module) || sparse_targets_.names(kind) || sparse_targets_.names("Module");
  }

  static bool is_number(DType dtype) {
    return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16 || dtype == DType::F64;
  }

  Choice choose(const Work& work, const StreamTensor& tensor) const {
    const QuantMatch* match = work.match_of(tensor);
    const std::string& name = name_of(work.stream, tensor, match);
    if (tensor.added || !ends_with(name, kOfWeight) || work.owner.count(Work::key(tensor)) > 0) return {};
    if (!glob_selects(options_.include, options_.exclude, name)) return {};
    const size_t rank =
        match != nullptr && match->logical_shape ? match->logical_shape->size() : tensor.shape.size();
    if (rank != 2) return {};
    Choice choice{name.substr(0, name.size() - kOfWeight.size())};
    if ((match != nullptr || is_number(tensor.dtype)) && means(choice.module))
      choice.group = schemes_.assign(choice.module, ct::guessed_class(choice.module));
    if (means_sparse(choice.module)) choice.sparse = options_.scheme.sparse;
    return choice;
  }

  Result<void> check_readable(const Work& work) const {
    for (const QuantProblem& problem : work.stream.layouts->problems) {
      if (!glob_selects(options_.include, options_.exclude, problem.module)) continue;
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be quantised anew: " + problem.what + ".",
                   .tensor = problem.module};
    }
    return {};
  }

  Result<void> take(Work& work, StreamTensor tensor, std::vector<StreamTensor>& out) const {
    const auto owner = tensor.added ? work.owner.end() : work.owner.find(Work::key(tensor));
    if (owner != work.owner.end()) {  // goes with its weight, or stays with it
      if (work.coded.count(owner->second) > 0)
        work.stream.dropped.push_back({work.stream.checkpoint->info(tensor.source).name, "companion"});
      else
        out.push_back(std::move(tensor));
      return {};
    }
    const Choice choice = choose(work, tensor);
    if (!choice) {
      note_plain(work, tensor);
      out.push_back(std::move(tensor));
      return {};
    }
    ++work.done;
    return code(work, std::move(tensor), choice, out);
  }

  // Modules that a loader would look for codes in.
  void note_plain(Work& work, const StreamTensor& tensor) const {
    const std::string& name = tensor.name;
    if (tensor.shape.size() > 2 && name.find("expert") != std::string::npos && work.stacks++ == 0)
      work.first_stack = name;
    if (tensor.shape.size() != 2 || !ends_with(name, kOfWeight) || !is_number(tensor.dtype)) return;
    std::string module = name.substr(0, name.size() - kOfWeight.size());
    const ct::Group* group = schemes_.assign(module, ct::guessed_class(module));
    if (group != nullptr && group->weights) work.plain.push_back(std::move(module));
  }

  std::optional<TensorFile::Tensor> given(Work& work, const TensorFile* file, const std::string& name) const {
    if (file == nullptr) return std::nullopt;
    auto found = file->find(name);
    if (found) work.used.insert(name);
    return found;
  }

  Result<void> code(Work& work, StreamTensor tensor, const Choice& choice,
                    std::vector<StreamTensor>& out) const {
    Stream& stream = work.stream;
    const QuantMatch* match = work.match_of(tensor);
    if (match != nullptr) {
      // As `dequant` would make it.
      const DType native = config_dtype(*stream.checkpoint).value_or(match->logical_dtype);
      const bool narrow = native == DType::BF16 || native == DType::F16;
      TFTF_TRY(decode_weight(stream, *match, narrow ? native : DType::F32, tensor));
      tensor.name = match->module;
      stream.dequantises = true;
    } else if (tensor.dtype == DType::F64) {
      tensor.stages.push_back({.op = &kCastStage, .from = DType::F64, .to = DType::F32});
      tensor.dtype = DType::F32;
    }
    ct::CodingRequest request{choice.module, tensor.shape[0], tensor.shape[1], tensor.dtype};
    if (request.rows == 0 || request.columns == 0)
      return ct::cannot_code(request, "has no elements: there is nothing to quantise");
    request.plain =
        tensor.provided == nullptr && std::all_of(tensor.stages.begin(), tensor.stages.end(),
                                                  [](const Stage& stage) { return stage.op == &kCastStage; });
    request.sparse = choice.sparse;
    request.release = ct::release_of(options_.scheme.config.version);
    if (choice.group != nullptr) {
      request.args = &*choice.group->weights;
      request.format = choice.group->format;
      request.shared = ct::fused_set(choice.module);
      TFTF_TRY(take_given(work, choice, request));
    }
    std::shared_ptr<const ct::RowCounts> counts;
    if (choice.sparse == ct::Sparse::kBitmask) {
      Result<std::shared_ptr<const ct::RowCounts>> counted = count_rows(stream, tensor, request);
      if (!counted) return std::move(counted).error();
      counts = *std::move(counted);
      request.counts = counts.get();
    }
    Result<Encoded> encoded =
        request.format == "marlin-24" ? ct::plan_marlin(request) : ct::plan_coding(request);
    if (!encoded) {
      Error error = std::move(encoded).error();
      error.file = stream.file_of(tensor.source);
      return error;
    }
    const TensorRef source = tensor.source;
    encode_as(stream, std::move(tensor), *std::move(encoded), out);
    return choice.group == nullptr ? Result<void>() : add_activations(work, choice, source, out);
  }

  // The stored values decide how large the result is, so they are looked at first.
  Result<std::shared_ptr<const ct::RowCounts>> count_rows(Stream& stream, const StreamTensor& tensor,
                                                          const ct::CodingRequest& request) const {
    const uint32_t bits = dtype_bits(tensor.dtype);
    if (!tensor.stages.empty() || tensor.provided != nullptr || bits % 8 != 0)
      return ct::cannot_code(
          request,
          "is not stored as it is to be written, and sparse-bitmask has to count its zeros "
          "first; change it in a run before");
    const uint64_t size = bits / 8;
    auto counts =
        stream.values->nonzero(tensor.source, request.columns * size, size, is_floating(tensor.dtype));
    if (counts != nullptr) return counts;
    return std::make_shared<const ct::RowCounts>(to_size(request.rows));  // asked again once they are known
  }

  Result<void> take_given(Work& work, const Choice& choice, ct::CodingRequest& request) const {
    const std::string stem = choice.module + ".weight_";
    const TensorFile* file = options_.params.get();
    request.given.order = given(work, file, stem + "g_idx");
    if (!request.given.order) request.given.order = given(work, options_.static_params.get(), stem + "g_idx");
    if (file == nullptr) return {};
    request.given.scale = given(work, file, stem + "scale");
    request.given.zero = given(work, file, stem + "zero_point");
    request.given.global = given(work, file, stem + "global_scale");
    if (request.given.scale) return {};
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = "File " + quote_name(file->name()) + " has no " + quote_name(stem + "scale") +
                            ", and module " + quote_name(choice.module) +
                            " is to be quantised under the scales that it gives; --exclude leaves the module "
                            "as it is.",
                 .file = file->name(),
                 .tensor = choice.module + std::string(kOfWeight)};
  }

  static StreamTensor literal(TensorRef source, std::string name, const TensorFile::Tensor& tensor) {
    StreamTensor made;
    made.name = std::move(name);
    made.dtype = tensor.dtype;
    made.shape = tensor.shape;
    made.source = source;
    made.added = true;
    made.literal = ct::literal_bytes(tensor.bytes);
    return made;
  }

  std::optional<TensorFile::Tensor> activation(Work& work, const std::string& name) const {
    for (const TensorFile* file : {options_.params.get(), options_.static_params.get()})
      if (auto found = given(work, file, name)) return found;
    return std::nullopt;
  }

  // Scales of static activations, which only a calibration can know.
  Result<void> add_activations(Work& work, const Choice& choice, TensorRef source,
                               std::vector<StreamTensor>& out) const {
    const auto add = [&](const ct::Args& args, const std::string& role) -> Result<void> {
      const std::string name = choice.module + "." + role + (args.local ? "_global_scale" : "_scale");
      const auto scale = activation(work, name);
      if (!scale) {
        const bool params = options_.params != nullptr || options_.static_params != nullptr;
        return Error{
            .code = ErrorCode::kRefusedMissing,
            .message = "The scheme quantises activations by a scale that only a calibration knows: " +
                       quote_name(name) +
                       (params ? " is not in the file that is given."
                               : " has to be given by --static-qparams or --qparams; presets with "
                                 "dynamic activations, or without any, need none."),
            .tensor = choice.module + std::string(kOfWeight)};
      }
      out.push_back(literal(source, name, *scale));
      if (args.symmetric) {
        (void)activation(work, choice.module + "." + role + "_zero_point");
        return {};
      }
      const std::string zero = choice.module + "." + role + "_zero_point";
      const auto zeros = activation(work, zero);
      if (!zeros)
        return Error{.code = ErrorCode::kRefusedMissing,
                     .message = "The scheme has asymmetric activations, and " + quote_name(zero) +
                                " is in none of the files that are given.",
                     .tensor = choice.module + std::string(kOfWeight)};
      out.push_back(literal(source, zero, *zeros));
      return {};
    };
    const auto is_static = [](const std::optional<ct::Args>& args) {
      return args && (!args->dynamic || args->local);
    };
    if (is_static(choice.group->inputs)) TFTF_TRY(add(*choice.group->inputs, "input"));
    if (is_static(choice.group->outputs)) TFTF_TRY(add(*choice.group->outputs, "output"));
    return {};
  }

  void add_cache_scales(Work& work, const TensorFile& file, std::vector<StreamTensor>& out) const {
    if (out.empty() || !options_.scheme.config.cache) return;
    const TensorRef source = out.front().source;
    for (const TensorInfo& info : file.tensors())
      for (const std::string_view suffix : kCacheScales) {
        if (!ends_with(info.name, suffix) || !work.used.insert(info.name).second) continue;
        const bool zero = suffix.find("zero") != std::string_view::npos;
        if (!zero || !options_.scheme.config.cache->symmetric)
          out.push_back(literal(source, info.name, *file.find(info.name)));
      }
  }

  void warn(Work& work) const {
    std::vector<std::string>& warnings = work.stream.warnings;
    if (work.done == 0) warnings.push_back("No tensor is selected; all tensors are copied.");
    for (const std::string& entry : schemes_.unread())
      warnings.push_back("The pattern " + quote_name(entry) +
                         " of the scheme is not understood, and counts as matching nothing.");
    if (work.stacks > 0)
      warnings.push_back(
          grouped_digits(work.stacks) + " stacked expert tensors, the first " + quote_name(work.first_stack) +
          ", stay as they are: the format has no place for them; `convert --experts split` parts "
          "them first.");
    for (const auto* file : {options_.params.get(), options_.static_params.get()}) {
      if (file == nullptr) continue;
      uint64_t unused = 0;
      std::string first;
      for (const TensorInfo& info : file->tensors())
        if (work.used.count(info.name) == 0 && unused++ == 0) first = info.name;
      const bool about_weights = file == options_.static_params.get() && options_.params == nullptr;
      if (unused > 0 && !about_weights)
        warnings.push_back("Of file " + quote_name(file->name()) + " " + grouped_digits(unused) +
                           " tensors are not used, the first " + quote_name(first) + ".");
    }
  }

  SchemeOptions options_;
  ct::Schemes schemes_;
  ct::Patterns sparse_targets_, sparse_ignore_;
};

Result<std::shared_ptr<const TensorFile>> params_of(const Operation& operation, const std::string& option) {
  const auto* path = operation.find(option);
  if (path == nullptr) return std::shared_ptr<const TensorFile>();
  const auto read = operation.files.find(option);
  if (read == operation.files.end())
    return Error{.code = ErrorCode::kUsage, .message = "--" + option + " was not read."};
  return TensorFile::read(path->front(), read->second);
}

}  // namespace

Result<std::unique_ptr<Pipe>> make_quantize_scheme(const Operation& operation) {
  const auto usage = [](const std::string& what) {
    return Error{.code = ErrorCode::kUsage, .message = what};
  };
  for (const Operation::Given& given : operation.options)
    for (const char* other : {"bits", "group-size", "asymmetric", "nested", "strict"})
      if (given.name == other)
        return usage("--" + given.name + " does not go with compressed-tensors: its --scheme says that.");
  const auto* word = operation.find("scheme");
  if (word == nullptr)
    return usage(
        "--to compressed-tensors takes a --scheme: a configuration file, or a preset such as W4A16.");
  const auto file = operation.files.find("scheme");
  Result<ct::WrittenScheme> scheme =
      ct::read_scheme(word->front(), file == operation.files.end() ? nullptr : file->second.get());
  if (!scheme) return std::move(scheme).error();
  SchemeOptions options;
  options.scheme = *std::move(scheme);
  auto params = params_of(operation, "qparams"), statics = params_of(operation, "static-qparams");
  if (!params) return std::move(params).error();
  if (!statics) return std::move(statics).error();
  options.params = *std::move(params);
  options.static_params = *std::move(statics);
  options.text = "quantize to=compressed-tensors scheme=" + (file == operation.files.end()
                                                                 ? json_ascii_string(word->front())
                                                                 : sha256_hex(as_bytes(*file->second)));
  if (options.params != nullptr) options.text += " qparams=" + options.params->sha256();
  if (options.static_params != nullptr) options.text += " static-qparams=" + options.static_params->sha256();
  for (const Operation::Given& given : operation.options) {
    if (given.name != "include" && given.name != "exclude") continue;
    (given.name == "include" ? options.include : options.exclude).emplace_back(given.values[0]);
    options.text += " " + given.name + "=" + json_ascii_string(given.values[0]);
  }
  return std::unique_ptr<Pipe>(std::make_unique<QuantizeScheme>(std::move(options)));
}

}  // namespace tftf::transform
