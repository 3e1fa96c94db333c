// Encodes matrices as bitsandbytes does on a processor: blocks of the flat order under their largest magnitude, and those
// magnitudes, if asked for, in blocks of their own.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/bitsandbytes.h"
#include "quant/bnb_tables.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kDefaultBlock = 64, kSmallestBlock = 64, kLargestBlock = 4096;
constexpr uint64_t kNestedBlock = 256;
constexpr uint32_t kBnbNotFinite = 0x7F800000;
// Magnitudes are summed in whole multiples of 2^-60, as three digits of 30 bits.
constexpr int kDigitBits = 30;
constexpr uint64_t kDigitMask = (uint64_t{1} << kDigitBits) - 1;
constexpr float kSumStep = 0x1p-60f, kSumLimit = 0x1p30f;
constexpr uint64_t kMostBlocks = uint64_t{1} << 33;
// Bytes that measured() leaves for the offset: the longest text of a number.
constexpr size_t kOffsetText = 24;

struct BnbEncoding {
  bool is_fp4 = false;
  bool nested = false;
  uint64_t block = 0;
  uint64_t elements = 0;
  std::string json_begin{}, json_end{};  // around the offset's digits
};

const BnbSteps& steps_of(bool is_fp4) {
  static const BnbSteps nf4{kBnbNf4Map}, fp4{kBnbFp4Map};
  return is_fp4 ? fp4 : nf4;
}
const BnbSteps& dynamic_steps() {
  static const BnbSteps steps{bnb_dynamic_map()};
  return steps;
}

Result<void> check_bnb(std::string_view layout, const EncodeOptions& options) {
  const auto usage = [&](const std::string& what) {
    return Error{.code = ErrorCode::kUsage,
                 .message = what + " does not go with " + std::string(layout) + "."};
  };
  if (options.bits != 0 && options.bits != 4) return usage("--bits " + std::to_string(options.bits));
  const uint64_t size = options.group_size;
  if (size != 0 && (size < kSmallestBlock || size > kLargestBlock || (size & (size - 1)) != 0))
    return Error{.code = ErrorCode::kUsage,
                 .message = "--group-size " + std::to_string(size) + " does not go with " +
                            std::string(layout) +
                            ": its readers know 64, 128, 256, 512, 1024, 2048 and 4096."};
  return {};
}

std::string bytes_of_floats(std::span<const float> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

Result<Encoded> plan_bnb(const EncodeRequest& request, bool is_fp4) {
  BnbEncoding encoding;
  encoding.is_fp4 = is_fp4;
  encoding.nested = request.options.nested;
  encoding.block = request.options.group_size == 0 ? kDefaultBlock : request.options.group_size;
  const auto elements = checked_mul(request.rows, request.columns);
  if (!elements || ceil_div(*elements, encoding.block) > kMostBlocks)
    return cannot_encode(request, "is too large");
  encoding.elements = *elements;
  const uint64_t blocks = ceil_div(*elements, encoding.block);
  const std::string type = is_fp4 ? "fp4" : "nf4";
  std::string json = "{\"quant_type\": \"" + type + "\", \"blocksize\": " + std::to_string(encoding.block) +
                     ", \"dtype\": \"" + std::string(dtype_info(request.from).torch) + "\", \"shape\": [" +
                     std::to_string(request.rows) + ", " + std::to_string(request.columns) + "]";
  Encoded encoded;
  const std::string& name = request.name;
  encoded.parts = {{name, DType::U8, {ceil_div(*elements, 2), 1}},
                   {name + ".absmax", encoding.nested ? DType::U8 : DType::F32, {blocks}}};
  if (encoding.nested) {
    json += ", \"nested_blocksize\": " + std::to_string(kNestedBlock) +
            ", \"nested_dtype\": \"float32\", \"nested_offset\": ";
    encoded.parts.push_back({name + ".nested_absmax", DType::F32, {ceil_div(blocks, kNestedBlock)}});
    encoded.parts.push_back(
        {name + ".nested_quant_map", DType::F32, {256}, bytes_of_floats(bnb_dynamic_map())});
  }
  encoded.parts.push_back(
      {name + ".quant_map", DType::F32, {16}, bytes_of_floats(is_fp4 ? kBnbFp4Map : kBnbNf4Map)});
  EncodedPart state{name + ".quant_state.bitsandbytes__" + type, DType::U8, {}};
  if (encoding.nested) {
    encoding.json_begin = json;
    encoding.json_end = "}";
    state.shape = {json.size() + kOffsetText + encoding.json_end.size()};
    state.measured = sizeof(float);
  } else {
    json += "}";
    state.shape = {json.size()};
    state.literal = json;
  }
  encoded.parts.push_back(std::move(state));
  encoded.encoder = is_fp4 ? (encoding.nested ? &kBnbFp4NestedEncoder : &kBnbFp4Encoder)
                           : (encoding.nested ? &kBnbNf4NestedEncoder : &kBnbNf4Encoder);
  encoded.word = "bnb-" + type + " b" + std::to_string(encoding.block) + (encoding.nested ? " nested" : "");
  // The text of quant_state is one of the shape.
  encoded.key = encoding.nested ? std::to_string(request.rows) + ' ' + std::to_string(request.columns)
                                : std::to_string(*elements);
  encoded.elements = *elements;
  encoded.unit = encoding.block * (encoding.nested ? kNestedBlock : 1);
  encoded.bits = 5;
  encoded.state = std::make_shared<const BnbEncoding>(std::move(encoding));
  return encoded;
}

void write_bnb(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& state = encoded.as<BnbEncoding>();
  ranges.push({.part = 0, .offset = tile.first / 2, .row_bytes = ceil_div(tile.count, 2)});
  const uint64_t first = tile.first / state.block, count = ceil_div(tile.count, state.block);
  const uint64_t size = state.nested ? 1 : sizeof(float);
  ranges.push({.part = 1, .offset = first * size, .row_bytes = count * size});
  if (!state.nested) return;
  ranges.push({.part = 2,
               .offset = first / kNestedBlock * sizeof(float),
               .row_bytes = ceil_div(count, kNestedBlock) * sizeof(float)});
}

// A block as F32, its values between -1 and 1, their codes, and the magnitudes of one nested block.
struct BnbScratch {
  float* values;
  float* scaled;
  float* magnitudes;
  uint8_t* codes;
};
BnbScratch scratch_of(const BnbEncoding& state, std::byte* at) {
  auto* floats = reinterpret_cast<float*>(at);
  const auto block = to_size(state.block);
  return {floats, floats + block, floats + 2 * block,
          reinterpret_cast<uint8_t*>(floats + 2 * block + kNestedBlock)};
}
uint64_t bnb_encode_scratch(const Encoded& encoded, uint64_t) {
  return encoded.as<BnbEncoding>().block * 9 + kNestedBlock * sizeof(float);
}

const float* block_as_floats(const EncodeTask& task, const std::byte* in, uint64_t count, float* copy) {
  if (task.from == DType::F32) return reinterpret_cast<const float*>(in);
  cast(task.kernels, task.from, DType::F32, in, reinterpret_cast<std::byte*>(copy), count);
  return copy;
}

float to_dtype_and_back(DType dtype, float x) {
  if (dtype == DType::BF16) return f32_from_bf16(bf16_from_f32(x));
  if (dtype == DType::F16) return f32_from_f16(f16_from_f32(x));
  return x;
}

// Codes of a block, a byte each. `rounds`: the scaled values are rounded to the weight's dtype, as those of a last block that
// is not full.
void encode_block(const BnbEncoding& state, const BnbScratch& scratch, const float* values, uint64_t count,
                  float magnitude, DType from, bool rounds) noexcept {
  const BnbSteps& steps = steps_of(state.is_fp4);
  const auto n = to_size(count);
  const float inverse = 1.0f / magnitude;
  if (std::isinf(inverse)) {  // 0 and next to it: 0 times infinity is NaN, whose code is 0
    for (size_t i = 0; i < n; ++i)
      scratch.codes[i] = steps.code(std::clamp(values[i] * inverse, -1.0f, 1.0f));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    const float scaled = values[i] * inverse;
    scratch.scaled[i] = scaled < -1.0f ? -1.0f : scaled > 1.0f ? 1.0f : scaled;
  }
  if (rounds)
    for (size_t i = 0; i < n; ++i) scratch.scaled[i] = to_dtype_and_back(from, scratch.scaled[i]);
  steps.codes16(scratch.scaled, n, scratch.codes);
}

// Pads an odd number with the code of 0.
void pack_high_first(const BnbSteps& steps, const uint8_t* codes, uint64_t count, std::byte* out) noexcept {
  for (uint64_t i = 0; i + 1 < count; i += 2)
    out[to_size(i / 2)] = static_cast<std::byte>(codes[to_size(i)] << 4 | codes[to_size(i + 1)]);
  if (count % 2 != 0)
    out[to_size(count / 2)] = static_cast<std::byte>(codes[to_size(count - 1)] << 4 | steps.code(0.0f));
}

float as_float(uint32_t bits) { return bit_cast<float>(bits); }

// The magnitudes of a nested block under their own largest, without the offset.
void encode_nested(const BnbScratch& scratch, uint64_t count, float offset, std::byte* codes,
                   std::byte* scale) noexcept {
  float largest = 0;
  for (size_t i = 0; i < to_size(count); ++i) {
    scratch.magnitudes[i] -= offset;
    largest = std::max(largest, std::abs(scratch.magnitudes[i]));
  }
  store_le(scale, largest);
  const float inverse = 1.0f / largest;
  for (size_t i = 0; i < to_size(count); ++i) {
    const float scaled = std::clamp(scratch.magnitudes[i] * inverse, -1.0f, 1.0f);
    codes[i] = static_cast<std::byte>(dynamic_steps().code(scaled));
  }
}

uint64_t encode_bnb(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                    const std::byte* in) noexcept {
  const auto& state = encoded.as<BnbEncoding>();
  const BnbScratch scratch = scratch_of(state, task.scratch);
  const uint64_t in_size = dtype_bits(task.from) / 8, first = task.tile.first / state.block;
  uint64_t lost = 0;
  uint64_t gathered = 0;  // magnitudes of the nested block at hand
  for (uint64_t done = 0; done < piece.count; done += state.block) {
    const uint64_t count = std::min(state.block, piece.count - done), at = piece.first + done;
    const float* values = block_as_floats(task, in + to_size(done * in_size), count, scratch.values);
    const uint32_t bits = task.kernels.largest_magnitude(values, count);
    if (bits >= kBnbNotFinite)
      for (size_t i = 0; i < to_size(count); ++i) lost += !std::isfinite(values[i]);
    const float magnitude = bits >= kBnbNotFinite ? 0.0f : as_float(bits);
    // What is not finite ends the run; its block must not make codes of NaN meanwhile.
    encode_block(state, scratch, values, count, magnitude, task.from, count < state.block);
    pack_high_first(steps_of(state.is_fp4), scratch.codes, count,
                    task.out[0] + to_size((at - task.tile.first) / 2));
    const uint64_t block = at / state.block - first;
    if (!state.nested) {
      store_le(task.out[1] + to_size(block * sizeof(float)), magnitude);
      continue;
    }
    scratch.magnitudes[to_size(gathered++)] = magnitude;
    if (gathered < kNestedBlock && done + state.block < piece.count) continue;
    const uint64_t from = block + 1 - gathered;
    encode_nested(scratch, gathered, load_le<float>(task.measured), task.out[1] + to_size(from),
                  task.out[2] + to_size(from / kNestedBlock * sizeof(float)));
    gathered = 0;
  }
  return lost;
}

void measure_bnb(const Encoded& encoded, const EncodeTask& task, ElementRange piece, const std::byte* in,
                 Measure& into) noexcept {
  const auto& state = encoded.as<BnbEncoding>();
  const BnbScratch scratch = scratch_of(state, task.scratch);
  const uint64_t in_size = dtype_bits(task.from) / 8;
  for (uint64_t done = 0; done < piece.count; done += state.block) {
    const uint64_t count = std::min(state.block, piece.count - done);
    const float* values = block_as_floats(task, in + to_size(done * in_size), count, scratch.values);
    const uint32_t bits = task.kernels.largest_magnitude(values, count);
    if (bits >= kBnbNotFinite || as_float(bits) >= kSumLimit) {
      for (size_t i = 0; i < to_size(count); ++i) into.lost += !(std::abs(values[i]) < kSumLimit);
      continue;
    }
    // The magnitude in steps has at most 90 bits: three digits, each exact.
    double rest = static_cast<double>(as_float(bits)) / kSumStep;
    const double high = std::floor(rest * 0x1p-60);
    rest -= high * 0x1p60;
    const double middle = std::floor(rest * 0x1p-30);
    rest -= middle * 0x1p30;
    into.n[2] += static_cast<uint64_t>(high);
    into.n[1] += static_cast<uint64_t>(middle);
    into.n[0] += static_cast<uint64_t>(rest);
  }
}

std::string offset_and_state(const Encoded& encoded, const Measure& all) {
  const auto& state = encoded.as<BnbEncoding>();
  const uint64_t middle = all.n[1] + (all.n[0] >> kDigitBits), high = all.n[2] + (middle >> kDigitBits);
  double sum = static_cast<double>(high) * 0x1p60;
  sum += static_cast<double>(middle & kDigitMask) * 0x1p30;
  sum += static_cast<double>(all.n[0] & kDigitMask);
  const auto blocks = static_cast<double>(ceil_div(state.elements, state.block));
  const float offset = f32_from_f64(sum / blocks * static_cast<double>(kSumStep));
  std::byte bytes[sizeof offset];
  store_le(bytes, offset);
  // Spaces, which JSON allows there, make the text as long as the plan has said.
  std::string digits = OrderedJson(static_cast<double>(offset)).dump();
  digits.resize(kOffsetText, ' ');
  return std::string(reinterpret_cast<const char*>(bytes), sizeof bytes) + state.json_begin + digits +
         state.json_end;
}

std::string bnb_config(const ConfigRequest& request, std::string_view type) {
  std::string skipped;
  for (const std::string& module : request.plain_modules)
    skipped += (skipped.empty() ? "" : ", ") + json_ascii_string(module);
  return "{\"_load_in_4bit\": true, \"_load_in_8bit\": false, \"bnb_4bit_compute_dtype\": \"" +
         std::string(dtype_info(request.dtype).torch) +
         "\", \"bnb_4bit_quant_storage\": \"uint8\", \"bnb_4bit_quant_type\": \"" + std::string(type) +
         "\", \"bnb_4bit_use_double_quant\": " + (request.options.nested ? "true" : "false") +
         ", \"llm_int8_enable_fp32_cpu_offload\": false, \"llm_int8_has_fp16_weight\": false, "
         "\"llm_int8_skip_modules\": " +
         (skipped.empty() ? "null" : "[" + skipped + "]") +
         ", \"llm_int8_threshold\": 6.0, \"load_in_4bit\": true, \"load_in_8bit\": false, "
         "\"quant_method\": \"bitsandbytes\"}";
}

Result<Encoded> plan_nf4(const EncodeRequest& request) { return plan_bnb(request, false); }
Result<Encoded> plan_fp4(const EncodeRequest& request) { return plan_bnb(request, true); }
std::string nf4_config(const ConfigRequest& request) { return bnb_config(request, "nf4"); }
std::string fp4_config(const ConfigRequest& request) { return bnb_config(request, "fp4"); }

constexpr Encoder bnb_encoder(bool is_fp4, bool nested) {
  Encoder encoder{.check = check_bnb,
                  .plan = is_fp4 ? plan_fp4 : plan_nf4,
                  .writes = write_bnb,
                  .encode = encode_bnb,
                  .scratch = bnb_encode_scratch,
                  .config = is_fp4 ? fp4_config : nf4_config,
                  .nests = true};
  if (nested) {
    encoder.measure = measure_bnb;
    encoder.measured = offset_and_state;
  }
  return encoder;
}

}  // namespace

const Encoder kBnbNf4Encoder = bnb_encoder(false, false);
const Encoder kBnbFp4Encoder = bnb_encoder(true, false);
const Encoder kBnbNf4NestedEncoder = bnb_encoder(false, true);
const Encoder kBnbFp4NestedEncoder = bnb_encoder(true, true);

}  // namespace tftf
