#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/base/utf8.h"
#include "tftf/container/header.h"

namespace tftf {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";
constexpr uint64_t kAlignment = 8;

// A JSON string: ASCII with \uXXXX escapes (kTftf), or UTF-8 as it is (kReference).
void append_string(std::string& to, std::string_view text, HeaderForm form) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
  if (plain) {
    to += '"';
    to += text;
    to += '"';
  } else if (form == HeaderForm::kTftf) {
    to += json_ascii_string(text);
  } else {
    to += nlohmann::json(std::string(text)).dump();
  }
}

Error refuse(ErrorCode code, std::string message, std::string tensor = {}) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  error.tensor = std::move(tensor);
  return error;
}

Error refuse(ErrorCode code, const OutputEntry& tensor, const std::string& what) {
  return refuse(code, "Tensor " + quote_name(tensor.name) + " " + what + ".", tensor.name);
}

Result<void> check_names(const std::vector<OutputEntry>& tensors) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const OutputEntry& tensor : tensors) {
    if (tensor.name.empty())
      return refuse(ErrorCode::kRefusedCollision, "A tensor would get the empty name.");
    if (tensor.name == kMetadataName)
      return refuse(ErrorCode::kRefusedCollision, tensor, "cannot be written: the name is reserved");
    if (find_invalid_utf8(tensor.name))
      return refuse(ErrorCode::kRefusedCollision, tensor, "cannot be written: the name is not valid UTF-8");
    if (!names.insert(tensor.name).second)
      return refuse(ErrorCode::kRefusedCollision, tensor, "would be written twice");
  }
  return {};
}

Result<uint64_t> size_of(const OutputEntry& tensor) {
  const auto elements = element_count(tensor.shape);
  const auto bits = elements ? checked_mul(*elements, dtype_bits(tensor.dtype)) : std::nullopt;
  const std::string what = std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape);
  if (!bits) return refuse(ErrorCode::kRefusedShape, tensor, "(" + what + ") is too large for 64-bit sizes");
  if (*bits % 8 != 0)
    return refuse(ErrorCode::kRefusedShape, tensor, "(" + what + ") does not fill whole bytes");
  return *bits / 8;
}

void append_entry(std::string& text, const OutputEntry& tensor, uint64_t begin, uint64_t end,
                  HeaderForm form) {
  append_string(text, tensor.name, form);
  text += ":{\"dtype\":\"";
  text += dtype_name(tensor.dtype);
  text += "\",\"shape\":";
  text += shape_text(tensor.shape);
  text += ",\"data_offsets\":[";
  text += std::to_string(begin);
  text += ',';
  text += std::to_string(end);
  text += "]}";
}

}  // namespace

Result<std::string> write_header(const std::vector<OutputEntry>& tensors, const Metadata& metadata,
                                 HeaderForm form, std::vector<uint64_t>* begins) {
  TFTF_TRY(check_names(tensors));
  std::string text(kAlignment, '\0');
  text += '{';
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      for (const std::string* part : {&key, &value})
        if (find_invalid_utf8(*part))
          return refuse(ErrorCode::kRefusedInput,
                        "Metadata " + quote_name(key) + " cannot be written: it is not valid UTF-8.");
      append_string(text, key, form);
      text += ':';
      append_string(text, value, form);
    }
    text += '}';
  }
  if (begins) {
    begins->clear();
    begins->reserve(tensors.size() + 1);
  }
  uint64_t begin = 0;
  for (const OutputEntry& tensor : tensors) {
    const Result<uint64_t> size = size_of(tensor);
    if (!size) return size.error();
    const auto end = checked_add(begin, *size);
    if (!end) return refuse(ErrorCode::kRefusedShape, tensor, "makes the file too large for 64-bit sizes");
    if (text.back() != '{') text += ',';
    append_entry(text, tensor, begin, *end, form);
    if (begins) begins->push_back(begin);
    begin = *end;
  }
  if (begins) begins->push_back(begin);
  text += '}';
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size() - kAlignment;
  if (length > kDefaultMaxHeader)
    return refuse(ErrorCode::kRefusedUnsupported, "The header of " + std::to_string(tensors.size()) +
                                                      " tensors would be " + std::to_string(length) +
                                                      " bytes; readers stop at " +
                                                      std::to_string(kDefaultMaxHeader) + ".");
  store_le(reinterpret_cast<std::byte*>(text.data()), length);
  return text;
}

void sort_in_reference_order(std::vector<OutputEntry>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const OutputEntry& a, const OutputEntry& b) {
    const uint32_t rank_a = dtype_info(a.dtype).rank;
    const uint32_t rank_b = dtype_info(b.dtype).rank;
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
}

}  // namespace tftf
