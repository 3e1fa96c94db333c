#include "tftf/quant/colibri/values.h"

#include "tftf/base/checked.h"

namespace tftf::colibri {

void RowDecoder::decode(std::span<const std::byte> codes, std::span<const float> scales,
                        std::span<float> row) const {
  if (spec.format != Format::kE8Lattice) return decode_row(spec, codes, scales, row);
  for (uint64_t b = 0; b < columns / kE8Block; ++b)
    decode_e8_block(codes.subspan(to_size(b * kE8BlockBytes)).first<kE8BlockBytes>(),
                    row.subspan(to_size(b * kE8Block)).first<kE8Block>());
  rotation->inverse(row);
}

std::optional<RowDecoder> row_decoder(const QuantMatch& match) {
  if (!match.logical_shape || match.logical_shape->size() != 2) return std::nullopt;
  RowDecoder decoder;
  bool found = false;
  for (const FormatInfo& info : all_formats()) {
    if (info.id != match.layout) continue;
    decoder.spec.format = info.format;
    found =
        info.format != Format::kF32 && info.format != Format::kMxfp4 && info.format != Format::kFp8Block128;
  }
  decoder.rows = (*match.logical_shape)[0];
  decoder.columns = (*match.logical_shape)[1];
  if (!found || decoder.rows == 0 || decoder.columns == 0) return std::nullopt;
  const Format format = decoder.spec.format;
  decoder.spec.group_size = match.group_size != 0 ? match.group_size : 64;
  decoder.spec.bits = format == Format::kInt8Row ? 8 : 4;
  decoder.row_bytes = weight_bytes(format, 1, decoder.columns).value_or(0);
  if (format == Format::kE8Lattice) {
    if (decoder.columns % kE8Block != 0) return std::nullopt;
    decoder.rotation = std::make_shared<const E8Rotation>(decoder.columns);
  } else {
    decoder.row_scales = scale_count(format, 1, decoder.columns, decoder.spec.group_size).value_or(0);
  }
  return decoder;
}

}  // namespace tftf::colibri
