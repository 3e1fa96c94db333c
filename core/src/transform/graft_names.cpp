// Names and experts of a graft's source, brought to the model's.
#include "graft_names.h"

#include <algorithm>

#include "expert_sets.h"
#include "graft_wrapper.h"
#include "layout_change.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

std::string type_of(const Stream& stream, const GraftNaming& naming) {
  if (!naming.model_type.empty()) return naming.model_type;
  const JsonValue* config = stream.config();
  const auto type = config == nullptr ? std::nullopt : config->string("model_type");
  return type ? std::string(*type) : std::string();
}

NameLayout layout_of(const Stream& stream, const LayoutNames& names) {
  LayoutVote vote(names);
  for (const StreamTensor& tensor : stream.tensors) vote.add(tensor.name);
  return vote.layout();
}

// The form of the experts; nothing where there are none, or several forms.
std::optional<ExpertForm> form_of(const Stream& stream, std::span<const ExpertKind> kinds,
                                  const LayoutNames& names) {
  std::optional<ExpertForm> form;
  for (const ExpertSet& set : survey_experts(stream, kinds, names).sets) {
    const ExpertForm own = set.fused.empty() ? ExpertForm::kSplit : ExpertForm::kFused;
    if ((form && *form != own) || (!set.fused.empty() && !set.split.empty())) return std::nullopt;
    form = own;
  }
  return form;
}

// The axes of fused experts; nothing where there are none, or their shapes do not tell.
std::optional<ExpertAxes> axes_of(const Stream& stream, std::span<const ExpertKind> kinds,
                                  const LayoutNames& names) {
  for (const ExpertSet& set : survey_experts(stream, kinds, names).sets) {
    const ExpertSet::Fused* up = set.find(ExpertPart::kUp, "");
    const ExpertSet::Fused* down = set.find(ExpertPart::kDown, "");
    if (up == nullptr || down == nullptr) continue;
    const auto shapes = fused_shapes(stream, set, up->tensor, down->tensor, set.kind->axes[set.under]);
    return shapes ? std::optional(shapes->axes) : std::nullopt;
  }
  return std::nullopt;
}

// The layout that stores experts in these axes, where only one of the two does.
std::optional<NameLayout> layout_of_axes(std::span<const ExpertKind> kinds, ExpertAxes axes) {
  for (const ExpertKind& kind : kinds) {
    if (kind.axes.in4 == kind.axes.in5) continue;
    return kind.axes.in4 == axes ? NameLayout::kTransformers4 : NameLayout::kTransformers5;
  }
  return std::nullopt;
}

// Whether a name of the stream is one of the other layout.
bool any_moves(const Stream& stream, const LayoutNames& names, NameLayout to) {
  return std::any_of(stream.tensors.begin(), stream.tensors.end(),
                     [&](const StreamTensor& tensor) { return names.convert(tensor.name, to).moved; });
}

}  // namespace

Result<uint64_t> bring_to_layout_of(const Stream& like, Stream& stream, const ModelEntry& entry,
                                    const GraftNaming& naming) {
  const LayoutNames names(entry);
  LayoutRequest request{.model_type = std::string(entry.type->name), .allow_unmapped = naming.allow_unmapped};
  const NameLayout layout = layout_of(like, names);
  if (any_moves(stream, names, layout)) request.to = layout;
  const auto wanted = form_of(like, entry.experts(), names), own = form_of(stream, entry.experts(), names);
  if (wanted && own && *wanted != *own) request.experts = wanted;
  // Where both layouts have the same names, the axes of fused experts tell which it is.
  const auto axes = axes_of(like, entry.experts(), names), own_axes = axes_of(stream, entry.experts(), names);
  const bool turned = own_axes && axes && *axes != *own_axes;
  if (!request.to && axes && (turned || request.experts == ExpertForm::kFused))
    request.to = layout_of_axes(entry.experts(), *axes);
  if (!request.to && !request.experts) return uint64_t{0};
  stream.layout_change.reset();
  TFTF_TRY(change_layout(stream, request));
  return stream.layout_change->moved;
}

Result<GraftMatch> match_graft_names(Stream& model, Stream& source, const GraftNaming& naming) {
  const std::string ours = type_of(model, naming), theirs = type_of(source, naming);
  if (ours != theirs) {
    if (const auto part = find_wrapped_part(source.config(), ours)) {
      TFTF_TRY(put_into_wrapper(model, source, *part, naming));
      return GraftMatch{.into_wrapper = true};
    }
    return Error{
        .code = ErrorCode::kRefusedUnsupported,
        .message = "The model is of type " + quote_name(ours) + " and the source of type " +
                   quote_name(theirs) +
                   ": tensors are taken from a model of the same type, or from a wrapper of which the "
                   "model is the text model.",
        .expected = ours,
        .found = theirs};
  }
  Result<ModelEntry> entry = find_model_entry(source.config(), naming.model_type);
  if (!entry) {
    // A type outside of the table has one layout and no experts, as far as is known; one that was left out has more.
    if (ours.empty() || !left_out_reason(ours).empty()) return std::move(entry).error();
    return GraftMatch{};
  }
  Result<uint64_t> moved = bring_to_layout_of(model, source, *entry, naming);
  if (!moved) return std::move(moved).error();
  return GraftMatch{.moved = *moved};
}

}  // namespace tftf::transform
