#include "tftf/base/json_value.h"

#include <charconv>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

class Builder final : public JsonHandler {
 public:
  explicit Builder(uint64_t max_values) : max_values_(max_values) {}

  JsonValue root;
  std::optional<uint64_t> too_many;  // offset of the first value that is not kept

  void on_null(uint64_t at) override { add(JsonKind::kNull, at, 4); }
  void on_boolean(bool value, uint64_t at) override {
    add(JsonKind::kBoolean, at, value ? 4 : 5).boolean = value;
  }
  void on_number(std::string_view literal, uint64_t at) override {
    add(JsonKind::kNumber, at, literal.size()).text = literal;
  }
  // The length of a string token is not known here (escapes): set_string_ends fills it in.
  void on_string(std::string_view text, uint64_t at) override { add(JsonKind::kString, at, 0).text = text; }
  void on_key(std::string_view text, uint64_t at) override {
    key_ = text;
    key_at_ = at;
  }
  void on_start_object(uint64_t at) override { push(JsonKind::kObject, at); }
  void on_start_array(uint64_t at) override { push(JsonKind::kArray, at); }
  void on_end_object(uint64_t at) override { pop(at); }
  void on_end_array(uint64_t at) override { pop(at); }

 private:
  JsonValue& add(JsonKind kind, uint64_t at, uint64_t length) {
    JsonValue* to = &root;
    if (++count_ > max_values_) {  // read on for errors, keep nothing
      if (!too_many) too_many = at;
      spare_ = JsonValue();
      return spare_;
    }
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      if (parent.kind == JsonKind::kObject) {
        parent.members.push_back({std::move(key_), JsonValue()});
        parent.key_offsets.push_back(key_at_);
        to = &parent.members.back().second;
      } else {
        parent.elements.emplace_back();
        to = &parent.elements.back();
      }
    }
    to->kind = kind;
    to->begin = at;
    to->end = at + length;
    return *to;
  }
  // The pointers on the stack stay valid: a parent's vector only grows after its open child is closed.
  void push(JsonKind kind, uint64_t at) { open_.push_back(&add(kind, at, 0)); }
  void pop(uint64_t at) {
    open_.back()->end = at + 1;
    open_.pop_back();
  }

  std::vector<JsonValue*> open_;
  JsonValue spare_;
  const uint64_t max_values_;
  uint64_t count_ = 0;
  std::string key_;
  uint64_t key_at_ = 0;
};

// Ends of string tokens: from the opening quote to its unescaped twin.
void set_string_ends(JsonValue& value, std::string_view text) {
  if (value.kind == JsonKind::kString) {
    uint64_t at = value.begin + 1;
    while (text[to_size(at)] != '"') at += text[to_size(at)] == '\\' ? 2 : 1;
    value.end = at + 1;
  }
  for (JsonValue& element : value.elements) set_string_ends(element, text);
  for (auto& member : value.members) set_string_ends(member.second, text);
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (size_t i = members.size(); i-- > 0;)
    if (members[i].first == key) return &members[i].second;
  return nullptr;
}

const JsonValue* JsonValue::get(std::string_view key) const {
  const JsonValue* value = find(key);
  return value && !value->is_null() ? value : nullptr;
}

std::optional<std::string_view> JsonValue::string(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value || !value->is_string()) return std::nullopt;
  return std::string_view(value->text);
}

std::optional<int64_t> JsonValue::as_integer() const {
  if (!is_number()) return std::nullopt;
  int64_t value = 0;
  const char* last = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || stop != last) return std::nullopt;
  return value;
}

std::optional<int64_t> JsonValue::integer(std::string_view key) const {
  const JsonValue* value = find(key);
  return value ? value->as_integer() : std::nullopt;
}

std::optional<double> JsonValue::as_double() const {
  if (!is_number()) return std::nullopt;
  return json_double(text);
}

std::optional<double> JsonValue::number(std::string_view key) const {
  const JsonValue* value = find(key);
  return value ? value->as_double() : std::nullopt;
}

std::string JsonValue::brief() const {
  constexpr size_t kLimit = 80;
  std::string out;
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return boolean ? "true" : "false";
    case JsonKind::kNumber:
      return text.size() > kLimit ? text.substr(0, kLimit) + "…" : text;
    case JsonKind::kString:
      return quote_name(text);
    case JsonKind::kArray:
      out = "[";
      for (const JsonValue& element : elements) {
        if (out.size() > kLimit) return out + ",…]";
        if (out.size() > 1) out += ',';
        out += element.brief();
      }
      return out + "]";
    case JsonKind::kObject:
      out = "{";
      for (const auto& [key, value] : members) {
        if (out.size() > kLimit) return out + ",…}";
        if (out.size() > 1) out += ',';
        out += quote_name(key) + ":" + value.brief();
      }
      return out + "}";
  }
  return out;
}

JsonDocument parse_json(std::string_view text, JsonDialect dialect, uint64_t max_values) {
  JsonDocument document;
  auto fail = [&](uint64_t at, std::string detail) {
    document.root = JsonValue();
    document.error = JsonError{JsonError::Kind::kSyntax, at, std::move(detail)};
    return document;
  };
  if (text.substr(0, 3) == "\xEF\xBB\xBF") return fail(0, "the text begins with a byte order mark");
  if (auto at = find_invalid_utf8(text)) return fail(*at, "a byte is not valid UTF-8");
  Builder builder(max_values);
  uint64_t end = 0;
  if (auto error = read_json(text, dialect, builder, end)) {
    document.error = std::move(error);
    return document;
  }
  const size_t rest = text.find_first_not_of(" \t\r\n", to_size(end));
  if (rest != std::string_view::npos) return fail(rest, "something follows the JSON value");
  if (builder.too_many)
    return fail(*builder.too_many, "it has more than " + grouped_digits(max_values) + " values");
  document.root = std::move(builder.root);
  set_string_ends(document.root, text);
  return document;
}

}  // namespace tftf
