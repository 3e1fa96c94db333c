// Fuses and splits experts: every tensor of the other form is gathered from those of this one (spec experts 4.3 to 4.5).
#include <algorithm>

#include "expert_sets.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kWeight = "weight", kPacked = "weight_packed", kBias = "bias";
// Experts of one container: more are no model, and would be as many tensors.
constexpr uint64_t kMostExperts = 1 << 16;

bool holds_codes(DType dtype) { return dtype == DType::U8 || dtype == DType::I8 || dtype == DType::I32; }

Error no_fused_form(const ExpertWork& work, const ExpertSet& set, size_t tensor, const std::string& suffix,
                    const std::string& why) {
  return expert_refusal(work.stream, set, tensor, ErrorCode::kRefusedUnsupported,
                        "tensors " + quote_name(suffix) + " " + why);
}

std::string why_none(const ExpertWork& work, std::string_view suffix, const StreamTensor& tensor,
                     uint64_t rows) {
  if (suffix == "weight_shape" || suffix == "qweight" || suffix == "qzeros" || suffix == "scales" ||
      suffix == "g_idx")
    return "belong to a layout of codes that no fused form is known of; dequantise in the same run";
  std::string text = "of shape " + shape_text(tensor.shape) + " have neither a value per row (" +
                     std::to_string(rows) + "), nor one in all, nor one per block of rows";
  if (work.block) text += " (weight_block_size " + std::to_string((*work.block)[0]) + ")";
  return text;
}

// What decodes more than a row at once is turned a matrix at a time, which has to fit.
Result<void> check_turned(const ExpertWork& work, const ExpertSet& set, size_t tensor, const Gather& gather) {
  const GatherForm& form = gather.form;
  if (!form.turned() || form.matrix_elements() <= kLargestUnitBytes / sizeof(float)) return {};
  for (const GatherSource& source : gather.sources) {
    if (source.way == nullptr || source.way->stages.empty()) continue;
    const Stage& first = source.way->stages.front();
    if (first.weight == nullptr || first.weight->unit < form.col_stride) continue;
    return expert_refusal(work.stream, set, tensor, ErrorCode::kRefusedUnsupported,
                          "its matrices are decoded and turned as a whole, and are too large for that; "
                          "dequantise in a run of its own");
  }
  return {};
}

// Makes the fused tensors of one set.
class Fusing {
 public:
  Fusing(ExpertWork& work, const ExpertSet& set, const SplitTable& table, ExpertAxes axes)
      : work_(work), set_(set), table_(table), axes_(axes) {}

  Result<void> fuse() {
    TFTF_TRY(find_weight());
    bool quantised = false;
    for (const auto& [suffix, column] : table_.suffixes) {
      if (suffix != *weight_ && suffix != kBias) quantised = true;
      TFTF_TRY(fuse(suffix, column, ExpertPart::kUp));
      TFTF_TRY(fuse(suffix, column, ExpertPart::kDown));
    }
    work_.fused_codes += quantised ? 1 : 0;
    return {};
  }

 private:
  const StreamTensor& tensor(size_t i) const { return work_.stream.tensors[i]; }
  const std::vector<size_t>& list(const SplitTable::Column& column, ExpertPart part) const {
    return column[static_cast<size_t>(part)];
  }

  Result<void> find_weight() {
    const SplitTable::Column* column = nullptr;
    for (const std::string_view wanted : {kWeight, kPacked})
      for (const auto& [suffix, known] : table_.suffixes)
        if (weight_ == nullptr && suffix == wanted) weight_ = &suffix, column = &known;
    if (weight_ == nullptr)
      return expert_refusal(
          work_.stream, set_, set_.split.front().tensor, ErrorCode::kRefusedUnsupported,
          "there is no weight among " + quote_name(table_.suffixes.front().first) +
              " and the like: no fused form is known of this layout of codes; dequantise in the "
              "same run");
    for (const ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp, ExpertPart::kDown}) {
      const std::vector<size_t>& weights = list(*column, part);
      if (weights.empty()) {
        if (part == ExpertPart::kGate && !set_.kind->gated()) continue;
        return expert_refusal(work_.stream, set_, set_.split.front().tensor, ErrorCode::kRefusedMissing,
                              "there is no " +
                                  std::string(part == ExpertPart::kGate ? set_.kind->gate
                                              : part == ExpertPart::kUp ? set_.kind->up
                                                                        : set_.kind->down) +
                                  "." + *weight_ + " of any expert");
      }
      const StreamTensor& first = tensor(weights.front());
      if (first.shape.size() != 2)
        return expert_refusal(
            work_.stream, set_, weights.front(), ErrorCode::kRefusedShape,
            quote_name(first.name) + " of shape " + shape_text(first.shape) + " is no matrix");
      rows_[static_cast<size_t>(part)] = first.shape[0];
      if (axes_ == ExpertAxes::kInOut && holds_codes(first.dtype))
        return no_fused_form(work_, set_, weights.front(), *weight_, in_out());
    }
    return {};
  }

  std::string in_out() const {
    return "hold codes or scales, and " + work_.type +
           " stores fused experts in-out: they would have to be turned; dequantise in the same run";
  }

  Result<void> fuse(const std::string& suffix, const SplitTable::Column& column, ExpertPart part) {
    const bool two = part == ExpertPart::kUp && set_.kind->gated();
    const std::vector<size_t>& own = list(column, part);
    if (own.empty()) return {};
    const std::vector<size_t>* gates = two ? &list(column, ExpertPart::kGate) : nullptr;
    const StreamTensor& first = tensor(own.front());
    const uint64_t rows = rows_[static_cast<size_t>(part)];
    const bool weight = suffix == *weight_, turned = weight && axes_ == ExpertAxes::kInOut;
    const ScaleKind kind = weight ? ScaleKind::kRows : scale_kind(work_, suffix, first.shape, rows);
    if (kind == ScaleKind::kNone)
      return no_fused_form(work_, set_, own.front(), suffix, why_none(work_, suffix, first, rows));
    if (axes_ == ExpertAxes::kInOut && !weight && suffix != kBias)
      return no_fused_form(work_, set_, own.front(), suffix, in_out());
    if (two && kind == ScaleKind::kGrid) TFTF_TRY(check_grid(suffix, own.front(), rows));
    if (kind == ScaleKind::kOne && gates != nullptr) {
      TFTF_TRY(check_same(suffix, *gates, own));
      gates = nullptr;
    }
    Gather gather;
    StreamTensor made;
    TFTF_TRY(shape_of(first, kind, turned, gates != nullptr, gather.form, made.shape));
    for (uint64_t e = 0; e < table_.experts; ++e) {
      if (gates != nullptr) TFTF_TRY(add(gather, (*gates)[to_size(e)], made));
      TFTF_TRY(add(gather, own[to_size(e)], made));
    }
    made.name = set_.fused_path() + "." +
                std::string(part == ExpertPart::kDown ? set_.kind->fused_down : set_.kind->fused_up) +
                tail_of_suffix(suffix);
    made.dtype = first.dtype;
    size_t place = *std::min_element(own.begin(), own.end());
    if (two) {
      const std::vector<size_t>& all = list(column, ExpertPart::kGate);
      place = std::min(place, *std::min_element(all.begin(), all.end()));
      for (const size_t i : all) work_.rebuild.remove(i);
    }
    for (const size_t i : own) work_.rebuild.remove(i);
    TFTF_TRY(check_turned(work_, set_, own.front(), gather));
    made.source = gather.sources.front().ref;
    made.gather = std::make_shared<const Gather>(std::move(gather));
    work_.rebuild.put(place, std::move(made));
    return {};
  }

  Result<void> check_grid(const std::string& suffix, size_t at, uint64_t rows) const {
    if (rows % (*work_.block)[0] == 0 && !set_.kind->interleaved) return {};
    return no_fused_form(work_, set_, at, suffix,
                         "have a row per block of " + std::to_string((*work_.block)[0]) +
                             " rows, and a gate of " + std::to_string(rows) +
                             " rows fills no whole blocks: one block would hold rows of gate and up");
  }

  // One value for gate and up: both must say the same.
  Result<void> check_same(const std::string& suffix, const std::vector<size_t>& gates,
                          const std::vector<size_t>& ups) const {
    for (uint64_t e = 0; e < table_.experts; ++e) {
      const StreamTensor &gate = tensor(gates[to_size(e)]), &up = tensor(ups[to_size(e)]);
      if (!gate.is_copy() || !up.is_copy() || gate.provided != nullptr || up.provided != nullptr)
        return no_fused_form(work_, set_, gates[to_size(e)], suffix,
                             "were changed before they could be compared");
      const auto a = work_.stream.values->get(gate.source), b = work_.stream.values->get(up.source);
      if (work_.stream.values->pending(gate.source) || work_.stream.values->pending(up.source)) {
        work_.pending = true;
        continue;
      }
      if (a && b && std::equal(a->begin(), a->end(), b->begin(), b->end())) continue;
      return expert_refusal(
          work_.stream, set_, gates[to_size(e)], ErrorCode::kRefusedValues,
          a && b ? "expert " + std::to_string(e) + " has a " + suffix +
                       " of the gate and one of up that differ, and a fused tensor has room for "
                       "one"
                 : "the " + suffix + " of expert " + std::to_string(e) + " cannot be read");
    }
    return {};
  }

  Result<void> shape_of(const StreamTensor& one, ScaleKind kind, bool turned, bool two, GatherForm& form,
                        Shape& shape) const {
    const Shape behind(one.shape.begin() + (one.shape.empty() ? 0 : 1), one.shape.end());
    if (kind == ScaleKind::kOne) {
      form = {.rows = 1, .cols = 1, .row_stride = 1, .element_bytes = dtype_bits(one.dtype) / 8};
      if (dtype_bits(one.dtype) < 8) return too_small(one);
      shape = one.shape;
    } else if (turned) {
      if (dtype_bits(one.dtype) < 8) return too_small(one);
      form = {.rows = one.shape[1], .cols = one.shape[0], .row_stride = 1, .col_stride = one.shape[1]};
      form.element_bytes = dtype_bits(one.dtype) / 8;
      form.across = two;
      shape = {one.shape[1], one.shape[0]};
    } else {
      Result<GatherForm> rows = rows_form(one.shape, one.dtype, 0);
      if (!rows) return too_small(one);
      form = *rows;
      shape = one.shape;
    }
    if (two) {
      form.per_matrix = 2;
      form.interleaved = set_.kind->interleaved;
      uint64_t& doubled = shape[turned ? 1 : 0];
      const auto sum = checked_add(doubled, doubled);
      if (!sum) return too_small(one);
      doubled = *sum;
    }
    form.matrices = table_.experts;
    shape.insert(shape.begin(), table_.experts);
    const auto elements = element_count(shape);
    if (!elements || !byte_count(*elements, one.dtype)) return too_small(one);
    return {};
  }

  Error too_small(const StreamTensor& one) const {
    return {.code = ErrorCode::kRefusedShape,
            .message = "Tensor " + work_.stream.described(one) + " of shape " + shape_text(one.shape) +
                       " and " + std::string(dtype_name(one.dtype)) +
                       " cannot be fused: rows are no whole bytes, or sizes "
                       "are too large.",
            .file = work_.stream.file_of(one.source),
            .tensor = one.name};
  }

  Result<void> add(Gather& gather, size_t i, StreamTensor& made) {
    Result<GatherSource> source = work_.rebuild.source(i);
    if (!source) return std::move(source).error();
    gather.lanes.push_back({static_cast<uint32_t>(gather.sources.size()), 0});
    gather.sources.push_back(*std::move(source));
    made.moved_codes = made.moved_codes || work_.coded.has(tensor(i));
    return {};
  }

  ExpertWork& work_;
  const ExpertSet& set_;
  const SplitTable& table_;
  ExpertAxes axes_;
  const std::string* weight_ = nullptr;
  std::array<uint64_t, 3> rows_{};  // of the weights, by part
};

// Makes the tensors of every expert.
class Splitting {
 public:
  Splitting(ExpertWork& work, const ExpertSet& set, const FusedShapes& shapes)
      : work_(work), set_(set), shapes_(shapes) {}

  Result<void> split() {
    for (const ExpertSet::Fused& one : set_.fused) TFTF_TRY(split(one));
    return {};
  }

 private:
  Result<void> split(const ExpertSet::Fused& one) {
    const StreamTensor& fused = work_.stream.tensors[one.tensor];
    const bool two = one.part == ExpertPart::kUp && set_.kind->gated();
    const std::string suffix = suffix_of_tail(one.tail);
    const bool weight = one.tail.empty() || one.tail == "_packed";
    if (fused.shape.empty() || fused.shape[0] != shapes_.experts)
      return refused(one, "is of shape " + shape_text(fused.shape) + ", for " +
                              std::to_string(shapes_.experts) + " experts");
    const Shape inner(fused.shape.begin() + 1, fused.shape.end());
    const uint64_t rows = rows_of_weight(one.part, two);
    const bool turned = weight && shapes_.axes == ExpertAxes::kInOut;
    const ScaleKind kind = weight ? ScaleKind::kRows : scale_kind(work_, suffix, inner, rows);
    if (kind == ScaleKind::kNone) return refused(one, why_none(work_, suffix, fused, rows));
    if (shapes_.axes == ExpertAxes::kInOut &&
        ((!weight && suffix != kBias) || (weight && holds_codes(fused.dtype))))
      return refused(
          one,
          "holds codes or scales of experts that are stored in-out, which would have to be turned; "
          "dequantise in the same run");
    if (two && kind == ScaleKind::kGrid && ((rows / 2) % (*work_.block)[0] != 0 || set_.kind->interleaved))
      return refused(one, "has a row per block of " + std::to_string((*work_.block)[0]) +
                              " rows, and one of the blocks holds rows of gate and up");
    Result<GatherSource> source = work_.rebuild.source(one.tensor);
    if (!source) return std::move(source).error();
    const uint64_t lanes = two ? 2 : 1;
    for (uint64_t e = 0; e < shapes_.experts; ++e) {
      for (uint64_t k = 0; k < lanes; ++k) {
        StreamTensor made{.name = set_.split_path() + "." + std::to_string(e) + "." +
                                  part_of(one.part, two, k) + "." + suffix,
                          .dtype = fused.dtype};
        Gather gather{.sources = {*source}, .lanes = {GatherLane{}}};
        if (!place(fused, kind, turned, two, e, k, gather, made.shape))
          return refused(one, "of shape " + shape_text(fused.shape) + " cannot be split into whole bytes");
        if (e == 0) TFTF_TRY(check_turned(work_, set_, one.tensor, gather));
        made.source = fused.source;
        made.moved_codes = work_.coded.has(fused);
        made.gather = std::make_shared<const Gather>(std::move(gather));
        work_.rebuild.put(one.tensor, std::move(made));
      }
    }
    return {};
  }

  std::string part_of(ExpertPart part, bool two, uint64_t k) const {
    if (part == ExpertPart::kDown) return std::string(set_.kind->down);
    return std::string(two && k == 0 ? set_.kind->gate : set_.kind->up);
  }

  // Outputs of a weight, of gate and up together.
  uint64_t rows_of_weight(ExpertPart part, bool two) const {
    if (part != ExpertPart::kDown) return shapes_.inner * (two ? 2 : 1);
    const ExpertSet::Fused* down = set_.find(ExpertPart::kDown, "");
    if (down == nullptr) down = set_.find(ExpertPart::kDown, "_packed");
    return work_.stream.tensors[down->tensor].shape[shapes_.axes == ExpertAxes::kOutIn ? 1 : 2];
  }

  // Lane k of expert e.
  static bool place(const StreamTensor& fused, ScaleKind kind, bool turned, bool two, uint64_t e, uint64_t k,
                    Gather& gather, Shape& shape, bool interleaved) {
    GatherForm& form = gather.form;
    uint64_t& base = gather.lanes.front().base;
    if (kind == ScaleKind::kOne) {
      shape.assign(fused.shape.begin() + 1, fused.shape.end());
      form = {.rows = 1, .cols = 1, .row_stride = 1, .element_bytes = dtype_bits(fused.dtype) / 8};
      base = e;
      return dtype_bits(fused.dtype) >= 8;
    }
    const uint64_t lanes = two ? 2 : 1, step = interleaved && two ? 2 : 1;
    if (turned) {
      if (dtype_bits(fused.dtype) < 8) return false;
      const uint64_t height = fused.shape[1], width = fused.shape[2], rows = width / lanes;
      form = {.rows = rows, .cols = height, .row_stride = step, .col_stride = width};
      form.element_bytes = dtype_bits(fused.dtype) / 8;
      base = e * height * width + (step == 2 ? k : k * rows);
      shape = {rows, height};
      return true;
    }
    Result<GatherForm> whole = rows_form(fused.shape, fused.dtype, 1);
    if (!whole || whole->rows % lanes != 0) return false;
    form = *whole;
    form.rows = whole->rows / lanes;
    form.row_stride = step * whole->cols;
    base = (e * whole->rows + (step == 2 ? k : k * form.rows)) * whole->cols;
    shape.assign(fused.shape.begin() + 1, fused.shape.end());
    shape[0] /= lanes;
    return true;
  }
  bool place(const StreamTensor& fused, ScaleKind kind, bool turned, bool two, uint64_t e, uint64_t k,
             Gather& gather, Shape& shape) const {
    return place(fused, kind, turned, two, e, k, gather, shape, set_.kind->interleaved);
  }

  Error refused(const ExpertSet::Fused& one, const std::string& what) const {
    return expert_refusal(work_.stream, set_, one.tensor, ErrorCode::kRefusedUnsupported,
                          quote_name(work_.stream.tensors[one.tensor].name) + " " + what);
  }

  ExpertWork& work_;
  const ExpertSet& set_;
  const FusedShapes& shapes_;
};

}  // namespace

Result<void> fuse_experts(ExpertWork& work, const ExpertSurvey& survey, const ExpertSet& set,
                          ExpertAxes axes) {
  if (set.stray) {
    return expert_refusal(work.stream, set, *set.stray, ErrorCode::kRefusedUnsupported,
                          "there is " + quote_name(set.stray_name) +
                              " beside their weights, which has no place in the fused form");
  }
  Result<SplitTable> table = split_table(work.stream, survey, set);
  if (!table) return std::move(table).error();
  if (work.experts && *work.experts != table->experts) {
    return expert_refusal(work.stream, set, set.split.front().tensor, ErrorCode::kRefusedMissing,
                          "there are " + std::to_string(table->experts) + " of them, and config.json says " +
                              std::to_string(*work.experts));
  }
  return Fusing(work, set, *table, axes).fuse();
}

Result<void> split_experts(ExpertWork& work, const ExpertSet& set, const FusedShapes& shapes) {
  if (shapes.experts > kMostExperts || (work.experts && *work.experts != shapes.experts)) {
    return expert_refusal(work.stream, set, set.fused.front().tensor, ErrorCode::kRefusedShape,
                          "there are " + std::to_string(shapes.experts) + " of them" +
                              (work.experts ? ", and config.json says " + std::to_string(*work.experts)
                                            : std::string(", more than can be split")));
  }
  return Splitting(work, set, shapes).split();
}

Result<void> turn_experts(ExpertWork& work, const ExpertSet& set, const FusedShapes& shapes) {
  for (const ExpertSet::Fused& one : set.fused) {
    const StreamTensor& fused = work.stream.tensors[one.tensor];
    if (one.tail == "_bias") continue;
    if (!one.tail.empty() || holds_codes(fused.dtype) || dtype_bits(fused.dtype) < 8)
      return expert_refusal(work.stream, set, one.tensor, ErrorCode::kRefusedUnsupported,
                            quote_name(fused.name) + " holds codes or scales, and the experts are stored " +
                                std::string(expert_axes_text(shapes.axes)) +
                                ": they would have to be turned; dequantise in the same run");
    Result<GatherSource> source = work.rebuild.source(one.tensor);
    if (!source) return std::move(source).error();
    const uint64_t experts = fused.shape[0], height = fused.shape[1], width = fused.shape[2];
    Gather gather{.sources = {*std::move(source)}};
    gather.form = {.matrices = experts, .rows = width, .cols = height, .row_stride = 1, .col_stride = width};
    gather.form.element_bytes = dtype_bits(fused.dtype) / 8;
    if (experts > kMostExperts)
      return expert_refusal(work.stream, set, one.tensor, ErrorCode::kRefusedShape,
                            "there are " + std::to_string(experts) + " of them, more than can be turned");
    for (uint64_t e = 0; e < experts; ++e) gather.lanes.push_back({0, e * height * width});
    TFTF_TRY(check_turned(work, set, one.tensor, gather));
    StreamTensor made{.name = fused.name, .dtype = fused.dtype, .shape = {experts, width, height}};
    made.source = fused.source;
    made.gather = std::make_shared<const Gather>(std::move(gather));
    work.rebuild.put(one.tensor, std::move(made));
  }
  return {};
}

}  // namespace tftf::transform
