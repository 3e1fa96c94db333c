#include "layout_codecs.h"

#include <algorithm>

#include "codec_stages.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/write_gate.h"
#include "tftf/quant/fp8_weight.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

Error module_refusal(ErrorCode code, const DecodeRequest& request, const std::string& what) {
  const QuantMatch& match = request.match;
  return {.code = code,
          .message = "Module " + quote_name(match.module) + " of " +
                     quote_name(request.stream.file_of(match.weight)) + " (" + std::string(match.layout) +
                     ") " + what + ".",
          .file = request.stream.file_of(match.weight),
          .tensor = match.module};
}

Result<Stage> decode_fp8_block(const DecodeRequest& request) {
  const auto weight = fp8_weight(*request.stream.checkpoint, request.config, request.match);
  if (!weight) {
    return module_refusal(ErrorCode::kRefusedUnsupported, request,
                          "has scales that do not multiply blocks of its weight");
  }
  return fp8_decoder(*weight, request.to);
}

Result<Stage> decode_nvfp4(const DecodeRequest& request) {
  const QuantMatch& match = request.match;
  const Checkpoint& checkpoint = *request.stream.checkpoint;
  const TensorRef* scales = match.find("weight_scale");
  const TensorRef* global = match.find("weight_scale_2");
  if (scales == nullptr || global == nullptr || !match.logical_shape || match.logical_shape->size() < 2)
    return module_refusal(ErrorCode::kRefusedMissing, request, "lacks a scale");
  if (match.find("pre_quant_scale") != nullptr) {
    return module_refusal(ErrorCode::kRefusedUnsupported, request,
                          "has a pre_quant_scale, which is not folded into NVFP4 weights");
  }
  const Shape& shape = *match.logical_shape;
  Shape grid = shape;
  grid.back() = ceil_div(shape.back(), 16);
  const TensorInfo &block = checkpoint.info(*scales), &second = checkpoint.info(*global);
  if (block.shape != grid) {
    return module_refusal(ErrorCode::kRefusedShape, request,
                          "has scales of shape " + shape_text(block.shape) + ", not " + shape_text(grid));
  }
  uint64_t matrices = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) matrices *= shape[i];
  const uint64_t rows = shape[shape.size() - 2], count = element_count(second.shape).value_or(0);
  if (second.dtype != DType::F32 || (count != 1 && count != matrices)) {
    return module_refusal(ErrorCode::kRefusedShape, request,
                          "has a weight_scale_2 that is " + std::string(dtype_name(second.dtype)) + " " +
                              shape_text(second.shape) + ", not one F32 per matrix");
  }
  const uint64_t all = matrices * rows;
  return nvfp4_decoder({.rows = all,
                        .columns = shape.back(),
                        .rows_per_scale = std::max<uint64_t>(1, count == 1 ? all : rows)},
                       *scales, *global);
}

// Of a layout id: "colibri-int4-row".
std::optional<colibri::Format> format_of_id(std::string_view id) {
  for (const colibri::FormatInfo& info : colibri::all_formats())
    if (info.id == id) return info.format;
  return std::nullopt;
}

Result<Stage> decode_colibri(const DecodeRequest& request) {
  const QuantMatch& match = request.match;
  const TensorRef* scales = match.find("qs");
  const auto format = format_of_id(match.layout);
  if (scales == nullptr || !format || !match.logical_shape || match.logical_shape->size() != 2)
    return module_refusal(ErrorCode::kRefusedMissing, request, "lacks its .qs or its shape");
  const uint64_t rows = (*match.logical_shape)[0], columns = (*match.logical_shape)[1];
  const auto codes = colibri::weight_bytes(*format, rows, columns);
  const auto count = colibri::scale_count(*format, rows, columns, std::max<uint64_t>(match.group_size, 1));
  const Checkpoint& checkpoint = *request.stream.checkpoint;
  const TensorInfo &stored = checkpoint.info(match.weight), &values = checkpoint.info(*scales);
  if (!codes || !count || stored.bytes() != *codes || values.bytes() / sizeof(float) != *count ||
      values.dtype != DType::F32) {
    return module_refusal(ErrorCode::kRefusedShape, request,
                          "has " + std::to_string(stored.bytes()) + " bytes of codes and " +
                              std::to_string(values.bytes()) + " of scales, not those of [" +
                              std::to_string(rows) + "," + std::to_string(columns) + "]");
  }
  if (*format == colibri::Format::kE8Lattice && columns % colibri::kE8Block != 0) {
    return module_refusal(ErrorCode::kRefusedShape, request,
                          "has rows of " + std::to_string(columns) + ", not a multiple of 256");
  }
  return colibri_decoder({*format, rows, columns, match.group_size, 0}, *scales);
}

Result<Stage> decode_rans_record(const DecodeRequest& request) {
  const QuantMatch& match = request.match;
  const TensorRef* scales = match.find("qs");
  const auto table = request.stream.rans_tables.find(match.weight.shard);
  if (table == request.stream.rans_tables.end())
    return module_refusal(ErrorCode::kRefusedMissing, request,
                          "has no sound " + std::string(colibri::kRansTableKey) + " in its file's metadata");
  if (scales == nullptr || !match.logical_shape || match.logical_shape->size() != 2)
    return module_refusal(ErrorCode::kRefusedMissing, request,
                          "has its rows and columns in no config.json; --rows and --columns tell them");
  const uint64_t rows = (*match.logical_shape)[0], columns = (*match.logical_shape)[1];
  const TensorInfo& values = request.stream.checkpoint->info(*scales);
  const auto elements = checked_mul(rows, columns);
  if (rows == 0 || columns == 0 || !elements || values.dtype != DType::F32 ||
      values.bytes() / sizeof(float) != rows)
    return module_refusal(ErrorCode::kRefusedShape, request,
                          "has " + std::to_string(values.bytes()) +
                              " bytes of scales, not one F32 for each of " + std::to_string(rows) + " rows");
  return rans_decoder(rows, columns, *scales, table->second);
}

Error cannot_encode(const EncodeRequest& request, const std::string& what) {
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = "Tensor " + quote_name(request.name) + " of shape " +
                     shape_text({request.rows, request.columns}) + " " + what + ".",
          .tensor = request.name};
}

Result<void> check_unit(const EncodeRequest& request, uint64_t rows_at_once) {
  const auto bytes = checked_mul(request.columns, rows_at_once * sizeof(float));
  if (bytes && *bytes <= kLargestUnitBytes) return {};
  return cannot_encode(request, "has rows too long to be quantised, which takes " +
                                    std::to_string(rows_at_once) + " at a time in memory");
}

Result<Encoding> encode_fp8_block(const EncodeRequest& request) {
  TFTF_TRY(check_unit(request, 128));
  Encoding encoding;
  encoding.stage = fp8_encoder(request.rows, request.columns, request.from);
  encoding.parts = {{request.name, DType::F8_E4M3, {request.rows, request.columns}},
                    {request.name + "_scale_inv",
                     DType::F32,
                     {ceil_div(request.rows, 128), ceil_div(request.columns, 128)}}};
  return encoding;
}

Result<void> check_no_options(std::string_view id, const EncodeOptions& options) {
  if (options.bits == 0 && options.group_size == 0) return {};
  return Error{.code = ErrorCode::kUsage,
               .message = std::string("--") + (options.bits != 0 ? "bits" : "group-size") +
                          " does not go with " + std::string(id) + "."};
}

// As transformers writes it; the modules that were left plain would be looked for as FP8 otherwise.
std::string fp8_block_config(const std::vector<std::string>& plain_modules) {
  std::string text =
      "{\"activation_scheme\": \"dynamic\", \"fmt\": \"e4m3\", \"quant_method\": \"fp8\", "
      "\"weight_block_size\": [128, 128]";
  for (size_t i = 0; i < plain_modules.size(); ++i) {
    text += i == 0 ? ", \"modules_to_not_convert\": [" : ", ";
    text += json_ascii_string(plain_modules[i]);
  }
  return text + (plain_modules.empty() ? "}" : "]}");
}

struct BitRange {
  uint32_t least = 0, most = 0;
};
BitRange bit_range(colibri::Format format) {
  switch (format) {
    case colibri::Format::kInt8Row:
      return {2, 8};
    case colibri::Format::kInt4Row:
    case colibri::Format::kInt4Grouped:
      return {2, 4};
    case colibri::Format::kInt3G64:
      return {3, 3};
    case colibri::Format::kInt2Row:
      return {2, 2};
    default:
      return {};
  }
}

Result<void> check_colibri(std::string_view id, const EncodeOptions& options) {
  const colibri::Format format = *format_of_id(id);
  const auto usage = [&](const std::string& what) {
    return Error{.code = ErrorCode::kUsage, .message = what + " does not go with " + std::string(id) + "."};
  };
  const BitRange range = bit_range(format);
  if (options.bits != 0 && (options.bits < range.least || options.bits > range.most))
    return usage("--bits " + std::to_string(options.bits));
  const bool grouped = format == colibri::Format::kInt4Grouped;
  if (options.group_size != 0 && !grouped &&
      !(format == colibri::Format::kInt3G64 && options.group_size == 64))
    return usage("--group-size " + std::to_string(options.group_size));
  return {};
}

template <colibri::Format kFormat>
Result<Encoding> encode_colibri(const EncodeRequest& request) {
  const bool is_fp8 = kFormat == colibri::Format::kFp8Block128;
  TFTF_TRY(check_unit(request, is_fp8 ? 128 : 1));
  const bool is_e8 = kFormat == colibri::Format::kE8Lattice;
  if (is_e8 && request.columns % colibri::kE8Block != 0) {
    return cannot_encode(request, "cannot be coded: e8: input dim " + std::to_string(request.columns) +
                                      " is not a multiple of 256");
  }
  ColibriMatrix matrix{kFormat, request.rows, request.columns, 0, request.options.bits};
  if (matrix.bits == 0) matrix.bits = bit_range(kFormat).most;
  if (kFormat == colibri::Format::kInt4Grouped)
    matrix.group_size = request.options.group_size == 0 ? 64 : request.options.group_size;
  const auto bytes = colibri::weight_bytes(kFormat, request.rows, request.columns);
  const auto count = colibri::scale_count(kFormat, request.rows, request.columns, matrix.group_size);
  if (!bytes || !count) return cannot_encode(request, "is too large");
  const colibri::WriteCheck verdict = colibri::check_written({.name = request.name,
                                                              .rows = request.rows,
                                                              .columns = request.columns,
                                                              .weight_bytes = *bytes,
                                                              .scale_bytes = *count * sizeof(float),
                                                              .format = kFormat,
                                                              .group_size = matrix.group_size,
                                                              .stamp = request.stamp},
                                                             request.options.strict);
  if (verdict.refused) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = verdict.sentence,
                 .tensor = request.name,
                 .found = std::string(verdict.reason)};
  }
  Encoding encoding;
  encoding.warning = verdict.sentence;
  encoding.stage = colibri_encoder(matrix, request.from);
  const Shape shape = is_fp8 ? Shape{request.rows, request.columns} : Shape{*bytes};
  encoding.parts = {{request.name, DType::U8, shape}, {request.name + ".qs", DType::F32, {*count}}};
  if (is_e8) {
    std::byte tag[sizeof(float)];
    store_le(tag, colibri::kE8Tag);
    encoding.parts[1].literal = std::string(reinterpret_cast<const char*>(tag), sizeof tag);
  }
  return encoding;
}

template <colibri::Format kFormat>
constexpr LayoutCodec colibri_codec(std::string_view id) {
  return {.id = id,
          .decode = decode_colibri,
          .encode = encode_colibri<kFormat>,
          .check = check_colibri,
          .config = nullptr,
          .stamped = true};
}

constexpr LayoutCodec kCodecs[] = {
    colibri_codec<colibri::Format::kInt8Row>("colibri-int8-row"),
    colibri_codec<colibri::Format::kInt4Row>("colibri-int4-row"),
    colibri_codec<colibri::Format::kInt2Row>("colibri-int2-row"),
    colibri_codec<colibri::Format::kInt4Grouped>("colibri-int4-grouped"),
    colibri_codec<colibri::Format::kInt3G64>("colibri-int3-g64"),
    colibri_codec<colibri::Format::kE8Lattice>("colibri-e8-iq3-lattice"),
    colibri_codec<colibri::Format::kFp8Block128>("colibri-fp8-e4m3-b128"),
    {"colibri-int4-rans256-g0", decode_rans_record, nullptr, nullptr, nullptr, true},
    {"fp8-block", decode_fp8_block, encode_fp8_block, check_no_options, fp8_block_config},
    {"deepseek-v4-fp8", decode_fp8_block, nullptr, nullptr, nullptr},
    {"modelopt-nvfp4", decode_nvfp4, nullptr, nullptr, nullptr},
};

}  // namespace

std::span<const LayoutCodec> layout_codecs() { return kCodecs; }

const LayoutCodec* find_codec(std::string_view id) {
  if (const QuantFormat* format = find_quant_format(id)) id = format->id;
  for (const LayoutCodec& codec : kCodecs)
    if (codec.id == id) return &codec;
  return nullptr;
}

Result<void> decode_weight(const Stream& stream, const QuantConfig& config, const QuantMatch& match, DType to,
                           StreamTensor& weight) {
  const DecodeRequest request{stream, config, match, to};
  const LayoutCodec* codec = find_codec(match.layout);
  if (codec == nullptr || codec->decode == nullptr)
    return module_refusal(ErrorCode::kRefusedUnsupported, request,
                          "is recognised, but this layout is not read");
  if (!weight.stages.empty() || weight.provided != nullptr)
    return module_refusal(ErrorCode::kRefusedUnsupported, request,
                          "was changed before it could be dequantised; dequantise first");
  Result<Stage> stage = codec->decode(request);
  if (!stage) return std::move(stage).error();
  const DType made = stage->to;
  weight.stages.push_back(*std::move(stage));
  if (made != to) weight.stages.push_back({.op = &kCastStage, .from = made, .to = to});
  weight.dtype = to;
  weight.shape = *match.logical_shape;
  return {};
}

}  // namespace tftf::transform
