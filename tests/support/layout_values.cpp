#include "layout_values.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>

namespace tftf::test {

Result<Weight> open_module(const HeaderModel& model, std::string_view layout) {
  const LayoutReport report = model.detect();
  OpenContext context{model.checkpoint(), read_quant_config(model.checkpoint())};
  Result<Weight> weight = Error{.message = "not found"};
  for (const QuantFinding& finding : report.findings)
    for (const QuantMatch& match : finding.matches)
      if (match.layout == layout) weight = open_weight(context, match);
  return weight;
}

std::string decode_tile(const HeaderModel& model, const Weight& weight, ElementRange tile, uint64_t step,
                        const KernelTable& kernels, DType to) {
  PartRanges ranges;
  weight.decoder->reads(weight, tile, ranges);
  REQUIRE(ranges.size() == weight.reads);
  std::vector<std::string> held;
  for (const PartRange& range : ranges) {
    REQUIRE(range.part < weight.parts.size());
    const std::string data = model.bytes_of(weight.parts[range.part].tensor);
    std::string bytes;
    for (uint64_t row = 0; row < range.rows; ++row) {
      const uint64_t begin = range.offset + row * range.stride;
      REQUIRE(begin + range.row_bytes <= data.size());
      bytes += data.substr(static_cast<size_t>(begin), static_cast<size_t>(range.row_bytes));
    }
    held.push_back(bytes);
  }
  // Aligned as a host's buffers are, and not a byte longer.
  std::vector<std::vector<std::max_align_t>> aligned;
  std::vector<const std::byte*> bytes;
  for (const std::string& part : held) {
    aligned.emplace_back(part.size() / sizeof(std::max_align_t) + 1);
    std::memcpy(aligned.back().data(), part.data(), part.size());
    bytes.push_back(reinterpret_cast<const std::byte*>(aligned.back().data()));
  }
  const uint64_t size = weight.decoder->scratch == nullptr ? 0 : weight.decoder->scratch(weight, tile.count);
  std::vector<std::max_align_t> scratch(static_cast<size_t>(size / sizeof(std::max_align_t) + 1));
  const DecodeTask task{kernels, tile, bytes, reinterpret_cast<std::byte*>(scratch.data())};
  if (weight.decoder->begin != nullptr && !weight.decoder->begin(weight, task)) return {};
  const uint64_t width = dtype_bits(to) / 8;
  std::string out(static_cast<size_t>(tile.count * width), '\0');
  for (uint64_t at = 0; at < tile.count; at += step) {
    const ElementRange piece{tile.first + at, std::min(step, tile.count - at)};
    weight.decoder->decode(weight, task, piece, to,
                           reinterpret_cast<std::byte*>(out.data()) + static_cast<size_t>(at * width));
  }
  return out;
}

std::vector<float> tile_values(const HeaderModel& model, const Weight& weight, ElementRange tile,
                               uint64_t step, const KernelTable& kernels) {
  const std::string bytes = decode_tile(model, weight, tile, step, kernels);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> module_values(const HeaderModel& model, std::string_view layout) {
  const Result<Weight> weight = open_module(model, layout);
  INFO(layout << ": " << (weight.ok() ? std::string() : weight.error().message));
  REQUIRE(weight.ok());
  return tile_values(model, *weight, {0, weight->elements}, weight->elements, scalar_kernels());
}

}  // namespace tftf::test
