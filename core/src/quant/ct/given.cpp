// Scales and zero points that a user brings along: read, checked, and in the form in which they are stored.
#include <cmath>

#include "quant/ct/coding.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {

Error bad_given(const CodingRequest& request, const std::string& what) {
  return {.code = ErrorCode::kRefusedShape,
          .message = "Of module " + quote_name(request.module) + " " + what + ".",
          .tensor = request.module + ".weight"};
}

std::string literal_bytes(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Result<EncodedPart> scale_part(const CodingRequest& request, const Coding& coding) {
  const TensorFile::Tensor& scale = *request.given.scale;
  EncodedPart part{request.module + ".weight_scale", coding.scale_dtype, scale.shape};
  if (coding.rule.form == ScaleForm::kPlain) {
    part.literal = literal_bytes(scale.bytes);
    return part;
  }
  std::string codes;
  for (const float s : coding.given.scales) {
    if (coding.rule.form == ScaleForm::kE4m3) {
      const uint8_t code = f8_from_f32(DType::F8_E4M3, s, Overflow::kSpecial);
      if (!(f8_values(DType::F8_E4M3)[code] > 0))
        return bad_given(request,
                         "a scale that is given is " + json_float(s).dump() + ", which E4M3 has no code for");
      codes += static_cast<char>(code);
      continue;
    }
    const std::optional<uint8_t> exponent = exponent_of(s);
    if (!exponent)
      return bad_given(request, "a scale that is given is " + json_float(s).dump() +
                                    ", expected a power of two, which is all that " + request.format +
                                    " stores");
    codes += static_cast<char>(*exponent);
  }
  part.literal = std::move(codes);
  return part;
}

std::string packed_zeros(const Coding& coding, const std::vector<float>& zeros) {
  const uint64_t groups = coding.grid_columns, words = packed_words(coding.rows, coding.bits, coding.padded);
  std::string out(to_size(words * groups * 4), '\0');
  auto* const bytes = reinterpret_cast<std::byte*>(out.data());
  const uint32_t mask = (1u << coding.bits) - 1, fields = 32 / coding.bits;
  for (uint64_t r = 0; r < coding.rows; ++r)
    for (uint64_t g = 0; g < groups; ++g) {
      const auto zero = static_cast<int32_t>(zeros[to_size(r * groups + g)]);
      const uint32_t field = (static_cast<uint32_t>(zero) + (1u << (coding.bits - 1))) & mask;
      const uint64_t word = coding.padded ? r / fields : r * coding.bits / 32;
      const auto shift =
          static_cast<uint32_t>(coding.padded ? r % fields * coding.bits : r * coding.bits % 32);
      std::byte* const at = bytes + to_size((word * groups + g) * 4);
      store_le(at, load_le<uint32_t>(at) | field << shift);
      if (shift + coding.bits <= 32) continue;
      std::byte* const next = at + to_size(groups * 4);
      store_le(next, load_le<uint32_t>(next) | field >> (32 - shift));
    }
  return out;
}

std::string plain_zeros(const Coding& coding, const std::vector<float>& zeros) {
  std::string out;
  for (const float zero : zeros) {
    if (coding.zero_dtype == DType::F8_E4M3) {
      out += static_cast<char>(f8_from_f32(DType::F8_E4M3, zero, Overflow::kSaturate));
    } else {
      const auto code = static_cast<int32_t>(zero);
      const uint64_t bytes = dtype_bits(coding.zero_dtype) / 8;
      for (uint64_t i = 0; i < bytes; ++i) out += static_cast<char>(static_cast<uint32_t>(code) >> 8 * i);
    }
  }
  return out;
}

Result<GivenGrid> read_given(const CodingRequest& request, const Layout& shape) {
  const TensorFile::Tensor& scale = *request.given.scale;
  Layout layout = shape;
  bool agrees = true;
  std::string fault;
  if (!is_floating(scale.dtype) || !can_cast(scale.dtype, DType::F32) || is_fp8(scale.dtype))
    fault = "weight_scale is " + std::string(dtype_name(scale.dtype)) + ", expected F16, BF16 or F32";
  if (fault.empty()) fault = fit_scales(layout, scale.shape, request.args, agrees).what;
  if (fault.empty() && !agrees)
    fault = "weight_scale is " + shape_text(scale.shape) + ", expected " +
            shape_text(expected_scales(*request.args, layout)) + " for " + args_text(*request.args);
  const uint64_t count = element_count(scale.shape).value_or(0);
  GivenGrid grid;
  for (uint64_t i = 0; fault.empty() && i < count; ++i) {
    const auto value = static_cast<float>(element_as_f64(scale.dtype, scale.bytes.data(), i));
    if (!(value > 0 && std::isfinite(value)))
      fault = "weight_scale holds " + json_float(value).dump() + ", expected positive numbers";
    grid.scales.push_back(value);
  }
  if (fault.empty() && request.given.zero) {
    const TensorFile::Tensor& zero = *request.given.zero;
    const CodeRange range = code_range(*request.args);
    bool any = false;
    if (!can_cast(zero.dtype, DType::F32) || element_count(zero.shape) != count)
      fault = "weight_zero_point is " + std::string(dtype_name(zero.dtype)) + " " + shape_text(zero.shape) +
              ", expected one for each scale of " + shape_text(scale.shape);
    for (uint64_t i = 0; fault.empty() && i < count; ++i) {
      const auto value = static_cast<float>(element_as_f64(zero.dtype, zero.bytes.data(), i));
      any = any || value != 0;
      if (!(value >= range.lowest && value <= range.highest))
        fault = "weight_zero_point holds " + json_float(value).dump() + ", expected " +
                json_float(range.lowest).dump() + " to " + json_float(range.highest).dump();
      grid.zeros.push_back(value);
    }
    if (fault.empty() && any && request.args->symmetric)
      fault = "weight_zero_point is not zero, and its scheme is symmetric";
    if (request.args->symmetric) grid.zeros.clear();
  } else if (fault.empty() && !request.args->symmetric) {
    fault = "weight_zero_point is not given, and its scheme is asymmetric";
  }
  if (!fault.empty()) return bad_given(request, fault);
  return grid;
}

}  // namespace tftf::ct
