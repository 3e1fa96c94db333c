// Which containers change their form, and into which (spec experts 4.2 to 4.4).
#include "expert_sets.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::transform {
namespace {

constexpr NameLayout kBothLayouts[] = {NameLayout::kTransformers4, NameLayout::kTransformers5};

class ExpertConversion {
 public:
  ExpertConversion(Stream& stream, const ExpertRequest& request, LayoutCounts& counts)
      : stream_(stream), request_(request), counts_(counts), rebuild_(stream), coded_(stream) {}

  Result<void> convert() {
    if (request_.form == ExpertForm::kFused && request_.to) TFTF_TRY(check_fused_form());
    const ExpertSurvey survey = survey_experts(stream_, request_.kinds, *request_.names);
    ExpertWork work{stream_, rebuild_, coded_, request_.type};
    work.experts = expert_count(stream_.config());
    work.block = weight_block();
    for (const ExpertSet& set : survey.sets) TFTF_TRY(convert(work, survey, set));
    if (survey.above_tail && (rebuild_.changes() || wants_split(survey)))
      return refuse_above_tail(stream_.tensors[*survey.above_tail]);
    if (work.pending) return {};  // run again with the values
    if (work.fused_codes > 0) {
      stream_.warnings.push_back(grouped_digits(work.fused_codes) +
                                 (work.fused_codes == 1 ? " container" : " containers") +
                                 " of quantised experts is written fused: not every engine reads that.");
    }
    counts_.fused += fused_;
    counts_.split += split_;
    counts_.transposed += turned_;
    rebuild_.apply();
    return {};
  }

 private:
  bool wants_split(const ExpertSurvey& survey) const {
    if (request_.form) return *request_.form == ExpertForm::kSplit;
    if (!request_.to) return false;
    const std::optional<ExpertName> found =
        parse_expert_name(request_.kinds, stream_.tensors[*survey.above_tail].name);
    return found && found->kind->form[*request_.to] == ExpertForm::kSplit;
  }

  Error refuse_above_tail(const StreamTensor& tensor) const {
    return {
        .code = ErrorCode::kRefusedUnsupported,
        .message = "Tensor " + stream_.described(tensor) +
                   " is below a fused tensor of experts, where no reader looks for one, and would be passed "
                   "over while experts are converted; --key-rename gives it the name that is meant.",
        .file = stream_.file_of(tensor.source),
        .tensor = tensor.name};
  }

  std::string fused_forms() const {
    std::string text;
    for (const ExpertKind& kind : request_.kinds)
      for (const NameLayout layout : kBothLayouts)
        if (kind.form[layout] != ExpertForm::kSplit &&
            text.find(name_layout_text(layout)) == std::string::npos)
          text += (text.empty() ? "" : ", ") + std::string(name_layout_text(layout));
    return text;
  }

  Result<void> check_fused_form() const {
    for (const ExpertKind& kind : request_.kinds) {
      if (kind.form[*request_.to] != ExpertForm::kSplit) continue;
      const std::string layout(name_layout_text(*request_.to));
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Experts of " + request_.type + " have no fused form in " + layout +
                              "; they have one in " + fused_forms() + ".",
                   .expected = fused_forms(),
                   .found = layout};
    }
    return {};
  }

  // weight_block_size of the configuration.
  std::optional<std::array<uint64_t, 2>> weight_block() const {
    const JsonValue* config = stream_.config();
    const auto object = [](const JsonValue* in, std::string_view key) {
      const JsonValue* value = in != nullptr && in->is_object() ? in->get(key) : nullptr;
      return value != nullptr && value->is_object() ? value : nullptr;
    };
    for (const JsonValue* root : {config, object(config, "text_config")}) {
      const JsonValue* section = object(root, "quantization_config");
      const JsonValue* size = section == nullptr ? nullptr : section->get("weight_block_size");
      if (size == nullptr || !size->is_array() || size->elements.size() != 2) continue;
      const auto rows = size->elements[0].as_integer(), columns = size->elements[1].as_integer();
      if (rows && columns && *rows > 0 && *columns > 0)
        return std::array{static_cast<uint64_t>(*rows), static_cast<uint64_t>(*columns)};
    }
    return std::nullopt;
  }

  Result<void> convert(ExpertWork& work, const ExpertSurvey& survey, const ExpertSet& set) {
    const ExpertForm form = request_.form ? *request_.form
                            : request_.to ? set.kind->form[*request_.to]
                                          : ExpertForm::kKept;
    if (set.split.empty() && set.fused.empty()) return {};  // strays alone
    if (!set.split.empty() && !set.fused.empty()) {
      return expert_refusal(
          stream_, set, set.fused.front().tensor, ErrorCode::kRefusedAmbiguous,
          "both forms stand side by side: " + quote_name(stream_.tensors[set.split.front().tensor].name) +
              " and " + quote_name(stream_.tensors[set.fused.front().tensor].name));
    }
    if (!set.split.empty()) {
      if (form != ExpertForm::kFused) return {};
      Result<ExpertAxes> axes = target_axes(set);
      if (!axes) return std::move(axes).error();
      ++fused_;
      return fuse_experts(work, survey, set, *axes);
    }
    return form == ExpertForm::kSplit ? split(work, set) : stay(work, set);
  }

  // Axes of the fused form that a split container gets.
  Result<ExpertAxes> target_axes(const ExpertSet& set) const {
    const ExpertKind& kind = *set.kind;
    if (request_.to) return kind.axes[*request_.to];
    const bool same_path = kind.path.in4 == kind.path.in5;
    const std::string say = "; --to says which layout is meant";
    if (same_path && kind.form.in4 == ExpertForm::kSplit && request_.names_move) {
      return refuse(set,
                    "they have a fused form in transformers-5 only, and other names of the file are of "
                    "transformers-4: the result would be neither" +
                        say);
    }
    std::optional<ExpertAxes> axes;
    for (const NameLayout layout : kBothLayouts) {
      if (!set.at[layout] || kind.form[layout] == ExpertForm::kSplit) continue;
      if (axes && *axes != kind.axes[layout])
        return refuse(set, "transformers-4 and transformers-5 store the fused form in different axes" + say);
      axes = kind.axes[layout];
    }
    if (axes) return *axes;
    return refuse(set, "they lie where " + std::string(name_layout_text(set.under)) +
                           " has them, which has no fused form; " + fused_forms() + " has one" + say);
  }

  Error refuse(const ExpertSet& set, const std::string& what) const {
    return expert_refusal(stream_, set,
                          (set.split.empty() ? set.fused.front().tensor : set.split.front().tensor),
                          ErrorCode::kRefusedAmbiguous, what);
  }

  // The weights of a fused set: plain ones, or packed codes.
  struct Pair {
    const ExpertSet::Fused* up = nullptr;
    const ExpertSet::Fused* down = nullptr;
  };
  static Pair pair_of(const ExpertSet& set) {
    Pair pair{set.find(ExpertPart::kUp, ""), set.find(ExpertPart::kDown, "")};
    if (pair.up == nullptr && pair.down == nullptr)
      pair = {set.find(ExpertPart::kUp, "_packed"), set.find(ExpertPart::kDown, "_packed")};
    return pair;
  }

  Result<FusedShapes> shapes_of(const ExpertSet& set, const Pair& pair) const {
    const ExpertKind& kind = *set.kind;
    const ExpertAxes assumed = kind.axes[request_.to.value_or(set.under)];
    Result<FusedShapes> shapes = fused_shapes(stream_, set, pair.up->tensor, pair.down->tensor, assumed);
    if (!shapes) return shapes;
    if (shapes->axes == kind.axes.in4 || shapes->axes == kind.axes.in5 ||
        request_.also_stored == shapes->axes)
      return shapes;
    return expert_refusal(stream_, set, pair.up->tensor, ErrorCode::kRefusedShape,
                          "they are stored " + std::string(expert_axes_text(shapes->axes)) + ", but " +
                              request_.type + " stores " + std::string(expert_axes_text(kind.axes.in4)));
  }

  Result<void> split(ExpertWork& work, const ExpertSet& set) {
    for (const ExpertSet::Fused& one : set.fused) {
      if (one.tail != "_blocks") continue;
      return expert_refusal(stream_, set, one.tensor, ErrorCode::kRefusedUnsupported,
                            "they are MXFP4 blocks, which have no split form; dequantise in the same run "
                            "(--dequant before --convert), or repack to another layout");
    }
    const Pair pair = pair_of(set);
    if (pair.up == nullptr || pair.down == nullptr) {
      return expert_refusal(stream_, set, set.fused.front().tensor, ErrorCode::kRefusedMissing,
                            std::string(set.kind->fused_up) + " and " + std::string(set.kind->fused_down) +
                                " are split as a pair, and one of them is not there");
    }
    Result<FusedShapes> shapes = shapes_of(set, pair);
    if (!shapes) return std::move(shapes).error();
    ++split_;
    return split_experts(work, set, *shapes);
  }

  // A fused set stays fused, in the axes of the layout that is asked for.
  Result<void> stay(ExpertWork& work, const ExpertSet& set) {
    const Pair pair = pair_of(set);
    if (!request_.to || pair.up == nullptr || pair.down == nullptr) return {};
    Result<FusedShapes> shapes = shapes_of(set, pair);
    if (!shapes) return std::move(shapes).error();
    if (shapes->axes == set.kind->axes[*request_.to]) return {};
    ++turned_;
    return turn_experts(work, set, *shapes);
  }

  Stream& stream_;
  const ExpertRequest& request_;
  LayoutCounts& counts_;
  StreamRebuild rebuild_;
  CodedTensors coded_;
  uint64_t fused_ = 0, split_ = 0, turned_ = 0;
};

}  // namespace

Result<void> convert_experts(Stream& stream, const ExpertRequest& request, LayoutCounts& counts) {
  if (request.kinds.empty() || (!request.to && !request.form)) return {};
  return ExpertConversion(stream, request, counts).convert();
}

}  // namespace tftf::transform
