#include "border.h"

#include <cmath>

#include "tftf/base/error_json.h"
#include "tftf/base/size_text.h"
#include "tftf/base/version.h"
#include "tftf/plan/plan.h"

namespace tftf::wasm {
namespace {

constexpr uint64_t kLargestNumber = uint64_t{1} << 53;
// Of an argument: the listing of a folder has four for each file.
constexpr uint64_t kMaxArgumentValues = 4'000'000;

std::string last_error;

std::string take_error() { return std::exchange(last_error, {}); }

// Memory that JavaScript fills and reads; 0 when there is none left.
uintptr_t allocate(uint32_t bytes) {
  return reinterpret_cast<uintptr_t>(
      ::operator new[](bytes == 0 ? 1 : bytes, std::align_val_t(kSlotAlign), std::nothrow));
}
void release(uintptr_t memory) {
  ::operator delete[](reinterpret_cast<void*>(memory), std::align_val_t(kSlotAlign));
}

// An error made by JavaScript, as the core prints one.
std::string error_text(const std::string& json) {
  const JsonValue given = parse_argument(json);
  Error error;
  error.message = text_of(given, "message");
  error.file = text_of(given, "file");
  error.tensor = text_of(given, "tensor");
  error.expected = text_of(given, "expected");
  error.found = text_of(given, "found");
  OrderedJson document = error_json(error);
  document["error"]["code"] = text_of(given, "code");
  return json_text(document);
}

// "20GiB" and the like.
double size_of_text(const std::string& text) { return to_number(need(parse_size(text))); }

[[noreturn]] void refuse_argument(std::string_view key, const char* kind) {
  throw Failure{{.code = ErrorCode::kUsage, .message = "\"" + std::string(key) + "\" is not " + kind + "."}};
}

std::string version_text() { return std::string(version()); }

}  // namespace

void set_error(const Error& error) {
  try {
    last_error = json_text(error_json(error));
  } catch (...) {
    last_error = R"({"error": {"code": "internal", "message": "There was not enough memory."}})";
  }
}

double to_number(uint64_t value) {
  if (value > kLargestNumber)
    throw Failure{
        {.code = ErrorCode::kRefusedInput,
         .message = "A size of " + std::to_string(value) + " bytes is beyond what can be handled here.",
         .found = std::to_string(value)}};
  return static_cast<double>(value);
}

uint64_t from_number(double value) {
  if (!(value >= 0) || value > static_cast<double>(kLargestNumber) || std::floor(value) != value)
    throw Failure{{.code = ErrorCode::kInternal, .message = "A position is no whole number."}};
  return static_cast<uint64_t>(value);
}

JsonValue parse_argument(const std::string& json) {
  JsonDocument document = parse_json(json, JsonDialect::kPython, kMaxArgumentValues);
  if (document.error)
    throw Failure{
        {.code = ErrorCode::kInternal, .message = "An argument is no JSON: " + document.error->detail}};
  return std::move(document.root);
}

std::string text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.get(key);
  if (value == nullptr) return {};
  if (!value->is_string()) refuse_argument(key, "a text");
  return value->text;
}

bool flag_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.get(key);
  if (value != nullptr && value->kind != JsonKind::kBoolean) refuse_argument(key, "true or false");
  return value != nullptr && value->is_true();
}

uint64_t number_of(const JsonValue& object, std::string_view key, uint64_t fallback) {
  const JsonValue* value = object.get(key);
  if (value == nullptr) return fallback;
  const double number = value->as_double().value_or(-1);
  if (!(number >= 0) || number > static_cast<double>(kLargestNumber) || std::floor(number) != number)
    refuse_argument(key, "a whole number from 0 on");
  return static_cast<uint64_t>(number);
}

double real_of(const JsonValue& object, std::string_view key, double fallback) {
  const JsonValue* value = object.get(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) refuse_argument(key, "a number");
  return value->as_double().value_or(fallback);
}

std::vector<std::string> texts_of(const JsonValue& object, std::string_view key) {
  std::vector<std::string> texts;
  const JsonValue* list = object.get(key);
  if (list == nullptr) return texts;
  if (!list->is_array()) refuse_argument(key, "a list of texts");
  for (const JsonValue& one : list->elements) {
    if (!one.is_string()) refuse_argument(key, "a list of texts");
    texts.push_back(one.text);
  }
  return texts;
}

OrderedJson range_line(const std::string& file, uint64_t offset, uint64_t length) {
  OrderedJson line;
  line["file"] = file;
  line["offset"] = to_number(offset);
  line["length"] = to_number(length);
  return line;
}

EMSCRIPTEN_BINDINGS(tftf_border) {
  emscripten::function("takeError", &take_error);
  emscripten::function("allocate", &allocate);
  emscripten::function("release", &release);
  emscripten::function("errorText", guard<&error_text>);
  emscripten::function("parseSize", guard<&size_of_text>);
  emscripten::function("version", &version_text);
}

}  // namespace tftf::wasm
