// Joined matrices: rows of several, one below the other, are one matrix in the other layout.
#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include "layout_change.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kWeightEnd = ".weight";

// The begin of a name that ends in `end`, with its dot; nothing for other names.
std::optional<std::string_view> before(std::string_view name, std::string_view end) {
  if (!ends_with(name, end)) return std::nullopt;
  const std::string_view rest = name.substr(0, name.size() - end.size());
  return rest.empty() || rest.back() == '.' ? std::optional(rest) : std::nullopt;
}

class Joins {
 public:
  Joins(Stream& stream, LayoutCounts& counts) : stream_(stream), counts_(counts), rebuild_(stream) {}

  Result<void> join(const JoinedMatrix& matrix) {
    std::map<std::string_view, std::vector<size_t>> groups;  // by begin; tensors by part, or npos
    for (size_t i = 0; i < stream_.tensors.size(); ++i) {
      for (size_t part = 0; part < matrix.parts.size(); ++part) {
        const auto begin = before(stream_.tensors[i].name, matrix.parts[part]);
        if (!begin) continue;
        std::vector<size_t>& group = groups[*begin];
        group.resize(matrix.parts.size(), std::string::npos);
        group[part] = i;
      }
    }
    for (const auto& [begin, group] : groups) TFTF_TRY(join(matrix, std::string(begin), group));
    return {};
  }

  Result<void> part(const JoinedMatrix& matrix) {
    for (size_t i = 0; i < stream_.tensors.size(); ++i)
      if (const auto begin = before(stream_.tensors[i].name, matrix.whole))
        TFTF_TRY(part(matrix, std::string(*begin), i));
    return {};
  }

  Result<void> finish() {
    for (const StreamTensor& tensor : stream_.tensors) {
      const size_t dot = tensor.name.rfind('.');
      if (dot == std::string::npos || modules_.count(tensor.name.substr(0, dot)) == 0 ||
          tensor.name.substr(dot) == kWeightEnd)
        continue;
      return refusal(
          tensor, ErrorCode::kRefusedUnsupported,
          "belongs to a matrix that is joined or parted in the other layout, and only plain weights "
          "are; dequantise first");
    }
    rebuild_.apply();
    return {};
  }

 private:
  Error refusal(const StreamTensor& tensor, ErrorCode code, const std::string& what) const {
    return {.code = code,
            .message = "Tensor " + stream_.described(tensor) + " " + what + ".",
            .file = stream_.file_of(tensor.source),
            .tensor = tensor.name};
  }
  void touch(const std::string& name) { modules_.insert(name.substr(0, name.size() - kWeightEnd.size())); }

  Result<void> join(const JoinedMatrix& matrix, const std::string& begin, const std::vector<size_t>& group) {
    const size_t there =
        *std::find_if(group.begin(), group.end(), [](size_t i) { return i != std::string::npos; });
    for (size_t p = 0; p < group.size(); ++p) {
      if (group[p] != std::string::npos) continue;
      return refusal(stream_.tensors[there], ErrorCode::kRefusedMissing,
                     "is to be joined with " + quote_name(begin + std::string(matrix.parts[p])) +
                         ", which is not there");
    }
    const StreamTensor& first = stream_.tensors[group.front()];
    Gather gather;
    for (const size_t i : group) {
      const StreamTensor& tensor = stream_.tensors[i];
      if (tensor.dtype != first.dtype || tensor.shape != first.shape || tensor.shape.empty())
        return refusal(tensor, ErrorCode::kRefusedShape,
                       "is " + std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape) +
                           " and cannot be joined with " + quote_name(first.name) + ", which is " +
                           std::string(dtype_name(first.dtype)) + " " + shape_text(first.shape));
      Result<GatherSource> source = rebuild_.source(i);
      if (!source) return std::move(source).error();
      gather.lanes.push_back({static_cast<uint32_t>(gather.sources.size()), 0});
      gather.sources.push_back(*std::move(source));
      touch(tensor.name);
    }
    Result<GatherForm> form = rows_form(first.shape, first.dtype, 0);
    if (!form) return refusal(first, form.error().code, "cannot be joined: " + form.error().message);
    gather.form = *form;
    gather.form.per_matrix = static_cast<uint32_t>(group.size());
    const auto rows = checked_mul(first.shape[0], group.size());
    if (!rows) return refusal(first, ErrorCode::kRefusedShape, "has too many rows to be joined");
    StreamTensor made{.name = begin + std::string(matrix.whole), .dtype = first.dtype, .shape = first.shape};
    made.shape[0] = *rows;
    made.source = first.source;
    made.gather = std::make_shared<const Gather>(std::move(gather));
    for (const size_t i : group) rebuild_.remove(i);
    rebuild_.put(*std::min_element(group.begin(), group.end()), std::move(made));
    ++counts_.joined;
    return {};
  }

  Result<void> part(const JoinedMatrix& matrix, const std::string& begin, size_t i) {
    const StreamTensor& whole = stream_.tensors[i];
    const uint64_t count = matrix.parts.size();
    if (whole.shape.empty() || whole.shape[0] % count != 0)
      return refusal(whole, ErrorCode::kRefusedShape,
                     "of shape " + shape_text(whole.shape) + " cannot be parted into " +
                         std::to_string(count) + " matrices of equally many rows");
    Result<GatherSource> source = rebuild_.source(i);
    if (!source) return std::move(source).error();
    Result<GatherForm> form = rows_form(whole.shape, whole.dtype, 0);
    if (!form) return refusal(whole, form.error().code, "cannot be parted: " + form.error().message);
    form->rows /= count;
    for (uint64_t p = 0; p < count; ++p) {
      StreamTensor made{.name = begin + std::string(matrix.parts[to_size(p)]), .dtype = whole.dtype};
      made.shape = whole.shape;
      made.shape[0] /= count;
      made.source = whole.source;
      made.gather = std::make_shared<const Gather>(
          Gather{*form, {*source}, {GatherLane{0, p * form->rows * form->cols}}});
      rebuild_.put(i, std::move(made));
    }
    touch(whole.name);
    ++counts_.joined;
    return {};
  }

  Stream& stream_;
  LayoutCounts& counts_;
  StreamRebuild rebuild_;
  std::unordered_set<std::string> modules_;
};

}  // namespace

Result<void> convert_joins(Stream& stream, std::span<const JoinedMatrix> joins, NameLayout to,
                           LayoutCounts& counts) {
  if (joins.empty()) return {};
  Joins work(stream, counts);
  for (const JoinedMatrix& matrix : joins) {
    if (matrix.whole_in == to) {
      TFTF_TRY(work.join(matrix));
    } else {
      TFTF_TRY(work.part(matrix));
    }
  }
  return work.finish();
}

}  // namespace tftf::transform
