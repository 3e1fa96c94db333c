// Takes tensors of another model into this one (spec experts 7).
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "decoded.h"
#include "graft_config.h"
#include "graft_names.h"
#include "graft_weights.h"
#include "pipe.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"
#include "tftf/simd/cast.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kGraftedWeight = ".weight";
constexpr std::string_view kBareFp8 = "fp8-unscaled";

struct GraftOptions {
  bool missing = false;
  bool replace = false;
  std::vector<Glob> include{}, exclude{};
  std::optional<DType> dtype{};
  GraftNaming naming{};
};

class Graft final : public Pipe {
 public:
  Graft(std::shared_ptr<const OtherModel> other, GraftOptions options)
      : other_(std::move(other)), options_(std::move(options)) {}

  std::string text() const override {
    std::string text = "graft from=" + json_ascii_string(other_->given);
    if (options_.missing) text += " missing";
    for (const Glob& glob : options_.include) text += " include=" + json_ascii_string(glob.pattern());
    for (const Glob& glob : options_.exclude) text += " exclude=" + json_ascii_string(glob.pattern());
    if (options_.replace) text += " replace";
    if (options_.dtype) text += " dtype=" + std::string(dtype_info(*options_.dtype).torch);
    if (!options_.naming.model_type.empty())
      text += " model-type=" + json_ascii_string(options_.naming.model_type);
    if (options_.naming.allow_unmapped) text += " allow-unmapped";
    return text;
  }

  Result<void> apply(Stream& stream) const override {
    const auto found = std::find_if(stream.others.begin(), stream.others.end(),
                                    [&](const OtherSource& one) { return one.model == other_.get(); });
    Stream source = open_other(stream, static_cast<size_t>(found - stream.others.begin()));
    Result<GraftMatch> match = match_graft_names(stream, source, options_.naming);
    if (!match) return std::move(match).error();
    Work work(stream, source);
    TFTF_TRY(options_.missing ? choose_missing(work) : choose_named(work));
    TFTF_TRY(check_whole(work));
    TFTF_TRY(check_codes(work));
    Account::Graft account{.source = other_->given};
    for (const auto& [reason, names] : work.skipped) account.skipped.push_back({reason, names});
    account.moved = match->moved;
    account.into_wrapper = match->into_wrapper;
    account.replaced = replace(work);
    TFTF_TRY(take(work, account));
    if (account.taken == 0) {
      stream.warnings.push_back(
          options_.missing
              ? "The model lacks nothing that " + quote_name(other_->given) + " has; its tensors are copied."
              : "--exclude leaves nothing of what --include names; the model's tensors are copied.");
    } else {
      carry_mtp_counts(stream, source, account.names);
      TFTF_TRY(carry_processor_files(stream, *other_));
      if (!options_.missing && ties_head(stream.config()) &&
          std::any_of(account.names.begin(), account.names.end(), is_head))
        untie_head(stream);
    }
    stream.grafts.push_back(std::move(account));
    return {};
  }

 private:
  struct Work {
    Work(Stream& into, Stream& from) : model(into), source(from), here(into), there(from) {
      for (size_t i = 0; i < into.tensors.size(); ++i) has.insert(here.name_of(i));
      chosen.resize(from.tensors.size());
    }
    Stream& model;
    Stream& source;
    GraftWeights here, there;
    std::unordered_set<std::string_view> has{};  // weights of the model
    std::vector<bool> chosen{};                  // of the source's tensors
    std::map<std::string, std::vector<std::string>> skipped{};
  };

  static bool matches(const std::vector<Glob>& globs, const std::string& name) {
    return std::any_of(globs.begin(), globs.end(), [&](const Glob& glob) { return glob.matches(name); });
  }

  Result<void> choose_missing(Work& work) const {
    const bool tied = ties_head(work.model.config());
    for (size_t i = 0; i < work.chosen.size(); ++i) {
      const std::string& name = work.source.tensors[i].name;
      if (work.has.count(work.there.name_of(i)) > 0) continue;
      if (tied && is_head(work.there.name_of(i))) {
        work.skipped["config.json ties it to the embeddings"].push_back(name);
      } else if (matches(options_.exclude, name)) {
        work.skipped["excluded"].push_back(name);
      } else {
        work.chosen[i] = true;
      }
    }
    return {};
  }

  Result<void> choose_named(Work& work) const {
    for (const Glob& glob : options_.include) {
      if (std::any_of(work.source.tensors.begin(), work.source.tensors.end(),
                      [&](const StreamTensor& tensor) { return glob.matches(tensor.name); }))
        continue;
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "There is no tensor in " + quote_name(other_->given) + " that matches " +
                              quote_name(glob.pattern()) + ", with the names that this model has.",
                   .file = other_->given,
                   .expected = glob.pattern()};
    }
    for (size_t i = 0; i < work.chosen.size(); ++i) {
      const StreamTensor& tensor = work.source.tensors[i];
      if (!matches(options_.include, tensor.name)) continue;
      if (matches(options_.exclude, tensor.name)) {
        work.skipped["excluded"].push_back(tensor.name);
        continue;
      }
      if (!options_.replace && work.has.count(work.there.name_of(i)) > 0) {
        return Error{.code = ErrorCode::kRefusedCollision,
                     .message = "The model has " + quote_name(work.there.name_of(i)) +
                                " already; --replace takes that of " + quote_name(other_->given) +
                                " instead.",
                     .file = work.source.file_of(tensor.source),
                     .tensor = tensor.name};
      }
      work.chosen[i] = true;
    }
    return {};
  }

  // Codes and scales go together.
  static Result<void> check_whole(const Work& work) {
    std::unordered_map<const QuantMatch*, size_t> first;  // a chosen tensor of each weight
    for (size_t i = 0; i < work.chosen.size(); ++i)
      if (work.chosen[i] && work.there.match_of(i) != nullptr) first.emplace(work.there.match_of(i), i);
    for (size_t i = 0; i < work.chosen.size(); ++i) {
      const QuantMatch* match = work.there.match_of(i);
      const auto chosen = match == nullptr || work.chosen[i] ? first.end() : first.find(match);
      if (chosen == first.end()) continue;
      const StreamTensor& left = work.source.tensors[i];
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "Only a part of the quantised weight " + quote_name(work.there.name_of(i)) +
                              " (" + std::string(match->layout) +
                              ") is chosen: " + quote_name(work.source.tensors[chosen->second].name) +
                              " without " + quote_name(left.name) + "; codes and scales have to go together.",
                   .file = work.source.file_of(left.source),
                   .tensor = left.name};
    }
    return {};
  }

  // What is quantised may come as it is where the model's configuration tells how to read it, too.
  Result<void> check_codes(const Work& work) const {
    const bool plain = !is_quantised(work.model);
    QuantConfig ours = work.model.open->config;
    if (plain) ours = QuantConfig{};
    const std::string difference = quantisation_difference(ours, work.source.open->config);
    const bool method = !work.source.open->config.method.empty();
    for (size_t i = 0; i < work.chosen.size(); ++i) {
      if (!work.chosen[i]) continue;
      const StreamTensor& tensor = work.source.tensors[i];
      const QuantMatch* match = work.there.match_of(i);
      if (tensor.moved_codes && !options_.dtype && difference.empty()) continue;
      if (tensor.moved_codes) return moved_codes(work, tensor, difference);
      const bool unread = match == nullptr && method && tensor.is_copy() &&
                          looks_like_codes(work.source.checkpoint->info(tensor.source));
      if (match == nullptr && !unread) continue;
      if (options_.dtype && !unread) continue;
      if (!options_.dtype && (difference.empty() || (match != nullptr && match->layout == kBareFp8)))
        continue;
      const std::string what =
          unread ? "codes of no known layout" : "quantised (" + std::string(match->layout) + ")";
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Tensor " + work.source.described(tensor) + " is " + what +
                              (options_.dtype ? " and cannot be dequantised."
                                              : ", and the model would not be read so: " + difference +
                                                    ". --dtype dequantises it on the way."),
                   .file = work.source.file_of(tensor.source),
                   .tensor = tensor.name};
    }
    return {};
  }

  // Experts whose codes were fused or split are no modules any more that could be dequantised.
  Error moved_codes(const Work& work, const StreamTensor& tensor, const std::string& difference) const {
    return {.code = ErrorCode::kRefusedUnsupported,
            .message = "Tensor " + quote_name(tensor.name) + " is made of quantised experts of " +
                       quote_name(other_->given) + ", which has them in another form than the model" +
                       (options_.dtype ? "; dequantise the source first, then take it."
                                       : ", and the model would not be read so: " + difference +
                                             ". Dequantise the source first, then take it."),
            .file = work.source.file_of(tensor.source),
            .tensor = tensor.name};
  }

  // Weights of the model that give way. Returns how many tensors they have.
  static uint64_t replace(Work& work) {
    std::unordered_set<std::string_view> names;
    for (size_t i = 0; i < work.chosen.size(); ++i)
      if (work.chosen[i]) names.insert(work.there.name_of(i));
    std::vector<StreamTensor> kept;
    std::vector<StreamTensor>& tensors = work.model.tensors;
    kept.reserve(tensors.size());
    uint64_t replaced = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (names.count(work.here.name_of(i)) == 0) {
        kept.push_back(std::move(tensors[i]));
        continue;
      }
      work.model.dropped.push_back({work.model.checkpoint->info(tensors[i].source).name, "replaced"});
      ++replaced;
    }
    tensors = std::move(kept);
    return replaced;
  }

  Result<void> take(Work& work, Account::Graft& account) const {
    const bool quantised = is_quantised(work.model);
    std::unordered_set<const QuantMatch*> kept;
    bool listed = false;
    for (size_t i = 0; i < work.chosen.size(); ++i) {
      if (!work.chosen[i]) continue;
      StreamTensor& tensor = work.source.tensors[i];
      const QuantMatch* match = work.there.match_of(i);
      if (match != nullptr && options_.dtype) {
        // What goes with the codes is read along with them.
        if (!is_codes(tensor, *match)) continue;
        tensor.name = work.there.name_of(i);
        TFTF_TRY(decode_weight(work.source, *match, *options_.dtype, tensor));
      } else if (match != nullptr) {
        kept.insert(match);
      } else {
        cast(tensor);
        if (quantised && !tensor.moved_codes && tensor.shape.size() == 2 &&
            ends_with(tensor.name, kGraftedWeight)) {
          if (!listed) TFTF_TRY(find_plain_lists(work.model, tensor));
          listed = true;
          tensor.left_alone = true;
        }
      }
      if (match != nullptr && options_.dtype && quantised) {
        if (!listed) TFTF_TRY(find_plain_lists(work.model, tensor));
        listed = true;
        tensor.left_alone = true;
      }
      account.converted += tensor.stages.empty() ? 0 : 1;
      account.bytes += bytes_of(tensor);
      account.names.push_back(tensor.name);
      ++account.taken;
      work.model.tensors.push_back(std::move(tensor));
    }
    add_layouts(work, kept);
    return {};
  }

  static bool is_codes(const StreamTensor& tensor, const QuantMatch& match) {
    return tensor.source.shard == match.weight.shard && tensor.source.tensor == match.weight.tensor;
  }

  static uint64_t bytes_of(const StreamTensor& tensor) {
    const auto elements = element_count(tensor.shape);
    return elements ? byte_count(*elements, tensor.dtype).value_or(0) : 0;
  }

  void cast(StreamTensor& tensor) const {
    if (!options_.dtype || tensor.dtype == *options_.dtype) return;
    if (!is_floating(tensor.dtype) || is_fp8(tensor.dtype) || !can_cast(tensor.dtype, *options_.dtype))
      return;
    tensor.stages.push_back({.op = &kCastStage, .from = tensor.dtype, .to = *options_.dtype});
    tensor.dtype = *options_.dtype;
  }

  // What comes quantised is so for the operations that follow, too.
  static void add_layouts(Work& work, const std::unordered_set<const QuantMatch*>& kept) {
    if (kept.empty()) return;
    auto report = std::make_shared<LayoutReport>(*work.model.layouts);
    for (const QuantFinding& finding : work.source.layouts->findings) {
      QuantFinding taken{.layout = finding.layout, .matches = {}, .extras = {}, .evidence = finding.evidence};
      for (const QuantMatch& match : finding.matches)
        if (kept.count(&match) > 0) taken.matches.push_back(match);
      if (taken.matches.empty()) continue;
      const auto there = std::find_if(report->findings.begin(), report->findings.end(),
                                      [&](const QuantFinding& one) { return one.layout == taken.layout; });
      if (there == report->findings.end()) {
        report->findings.push_back(std::move(taken));
      } else {
        there->matches.insert(there->matches.end(), taken.matches.begin(), taken.matches.end());
      }
    }
    work.model.own_layouts = report;
    work.model.layouts = report.get();
  }

  std::shared_ptr<const OtherModel> other_;
  GraftOptions options_;
};

Error graft_usage(std::string message) { return {.code = ErrorCode::kUsage, .message = std::move(message)}; }

}  // namespace

Result<std::unique_ptr<Pipe>> make_graft(const Operation& operation) {
  GraftOptions options;
  options.missing = operation.find("missing") != nullptr;
  options.replace = operation.find("replace") != nullptr;
  for (const Operation::Given& given : operation.options) {
    if (given.name == "include") options.include.emplace_back(given.values[0]);
    if (given.name == "exclude") options.exclude.emplace_back(given.values[0]);
  }
  if (options.missing == !options.include.empty()) {
    return graft_usage(options.missing ? "--missing and --include do not go together: one says what is taken."
                                       : "graft needs --missing or --include to say what is taken.");
  }
  if (options.replace && options.missing)
    return graft_usage("--replace goes with --include: nothing that is missing can be replaced.");
  if (operation.other == nullptr) return graft_usage("graft was given no source that has been read.");
  if (const auto* dtype = operation.find("dtype")) options.dtype = find_torch_dtype(dtype->front());
  if (const auto* type = operation.find("model-type")) options.naming.model_type = type->front();
  options.naming.allow_unmapped = operation.find("allow-unmapped") != nullptr;
  return std::unique_ptr<Pipe>(std::make_unique<Graft>(operation.other, std::move(options)));
}

}  // namespace tftf::transform
