#include "lint/header/value_pieces.h"

#include <algorithm>

#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Longer rows of codes under one row of scales are left alone.
constexpr uint64_t kMaxCodeRows = 64 << 20;

}  // namespace

void ScalePieces::cut(const LintResult& result, const std::vector<uint32_t>& checks) {
  result_ = &result;
  for (const uint32_t number : checks) {
    const ScaleCheck& check = result.scale_checks[number];
    const uint64_t width = dtype_bits(info(check.scales).dtype) / 8;
    const bool codes = check.block_rows != 0 && result.files[check.codes.file].scan.sound &&
                       checked_mul(check.block_rows, check.row_bytes).value_or(UINT64_MAX) <= kMaxCodeRows &&
                       check.scale_columns * width <= DataPass::kMaxPiece;
    if (codes)
      cut_rows(number, width);
    else
      cut_scales(number, info(check.scales).bytes() / width, width);
  }
}

void ScalePieces::cut_scales(uint32_t number, uint64_t elements, uint64_t width) {
  for (uint64_t at = 0; at < elements;) {
    const uint64_t count = std::min(elements - at, DataPass::kMaxPiece / width);
    pieces_.push_back({number, at, count, 0, 0});
    bytes_ += count * width;
    at += count;
  }
}

// As many rows of scales as fit a piece with their codes, at least one.
void ScalePieces::cut_rows(uint32_t number, uint64_t width) {
  const ScaleCheck& check = result_->scale_checks[number];
  const uint64_t under = check.block_rows * check.row_bytes;
  const uint64_t most = std::max(under, check.scale_columns * width);
  const uint64_t rows = check.scale_rows();
  for (uint64_t at = 0; at < rows;) {
    const uint64_t count = std::min(rows - at, std::max<uint64_t>(DataPass::kMaxPiece / most, 1));
    const uint64_t first_code_row = at * check.block_rows;
    const uint64_t code_rows = std::min(check.rows - first_code_row, count * check.block_rows);
    pieces_.push_back({number, at * check.scale_columns, count * check.scale_columns,
                       first_code_row * check.row_bytes, code_rows * check.row_bytes});
    bytes_ += count * check.scale_columns * width + code_rows * check.row_bytes;
    at += count;
  }
}

DataPass::Piece ScalePieces::piece(uint64_t index) const {
  const Cut& cut = pieces_[to_size(index)];
  const ScaleCheck& check = result_->scale_checks[cut.check];
  const auto part = [&](TensorPlace place, uint64_t begin, uint64_t length) {
    const Header& header = result_->files[place.file].scan.header;
    return DataPass::Part{place.file, {header.data_offset() + info(place).begin + begin, length}};
  };
  const uint64_t width = dtype_bits(info(check.scales).dtype) / 8;
  DataPass::Piece out;
  out.parts[0] = part(check.scales, cut.first * width, cut.count * width);
  if (cut.code_length == 0) return out;
  out.count = 2;
  out.parts[1] = part(check.codes, cut.code_begin, cut.code_length);
  return out;
}

ScaleSeen ScalePieces::run(uint64_t index, Bytes scales, Bytes codes) const {
  const Cut& cut = pieces_[to_size(index)];
  const ScaleCheck& check = result_->scale_checks[cut.check];
  return scan_scales(check, info(check.scales).dtype, cut.first, scales, codes);
}

std::vector<std::pair<uint32_t, uint32_t>> live_experts(const ExpertStack& stack, DType dtype,
                                                        uint64_t offset, Bytes bytes, const Scan& found) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  if (bytes.empty() || found.zero == found.count) return out;
  const auto first = static_cast<uint32_t>(offset / stack.expert_bytes);
  const auto last = static_cast<uint32_t>((offset + bytes.size() - 1) / stack.expert_bytes);
  if (found.zero == 0) return {{first, last}};
  for (uint32_t expert = first; expert <= last; ++expert) {
    const uint64_t begin = std::max(expert * stack.expert_bytes, offset) - offset;
    const uint64_t end =
        std::min((expert + uint64_t{1}) * stack.expert_bytes, offset + bytes.size()) - offset;
    if (!has_nonzero(dtype, bytes.subspan(to_size(begin), to_size(end - begin)))) continue;
    if (!out.empty() && out.back().second + 1 == expert)
      out.back().second = expert;
    else
      out.emplace_back(expert, expert);
  }
  return out;
}

}  // namespace tftf
