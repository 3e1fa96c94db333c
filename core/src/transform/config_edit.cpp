#include "tftf/transform/config_edit.h"

#include <string_view>

#include "tftf/base/checked.h"
#include "tftf/diagnostic/diagnostic.h"

namespace tftf {

ConfigText::ConfigText(std::string file, std::string text)
    : file_(std::move(file)), text_(std::move(text)), document_(parse_json(text_, JsonDialect::kPython)) {}

const JsonValue* ConfigText::object_at(const std::vector<std::string_view>& path) const {
  const JsonValue* at = &document_.root;
  for (size_t i = 0; i + 1 < path.size() && at != nullptr; ++i)
    at = at->is_object() ? at->find(path[i]) : nullptr;
  return at != nullptr && at->is_object() ? at : nullptr;
}

void ConfigText::splice(uint64_t begin, uint64_t end, std::string_view with) {
  text_.replace(to_size(begin), to_size(end - begin), with);
  document_ = parse_json(text_, JsonDialect::kPython);
}

void ConfigText::record(const std::vector<std::string_view>& path, OrderedJson before, OrderedJson after) {
  changes_.push_back({file_, json_pointer(path), std::move(before), std::move(after)});
}

void ConfigText::cut(const std::vector<std::string_view>& path) {
  while (true) {
    const JsonValue* object = object_at(path);
    if (object == nullptr) return;
    size_t i = object->members.size();
    while (i > 0 && object->members[i - 1].first != path.back()) --i;
    if (i == 0) return;
    --i;  // the last of that key, the one that counts
    const bool last = i + 1 == object->members.size();
    const uint64_t begin = last && i > 0 ? object->members[i - 1].second.end : object->key_offsets[i];
    const uint64_t end = last ? object->members[i].second.end : object->key_offsets[i + 1];
    record(path, to_ordered_json(object->members[i].second), nullptr);
    splice(begin, end, "");
  }
}

void ConfigText::set(const std::vector<std::string_view>& path, const std::string& json) {
  const JsonValue* object = object_at(path);
  if (object == nullptr) return;
  const JsonValue* member = object->find(path.back());
  const OrderedJson after = to_ordered_json(parse_json(json, JsonDialect::kPython).root);
  if (member != nullptr) {
    record(path, to_ordered_json(*member), after);
    splice(member->begin, member->end, json);
    return;
  }
  record(path, nullptr, after);
  const std::string text = json_ascii_string(path.back()) + ": " + json;
  if (object->members.empty()) {
    splice(object->begin + 1, object->begin + 1, text);
    return;
  }
  // What stands between two members, or before the first one, is the document's own way to break lines.
  const uint64_t last = object->members.back().second.end, first_key = object->key_offsets.front();
  const std::string gap = text_.substr(to_size(object->begin + 1), to_size(first_key - object->begin - 1));
  splice(last, last, "," + (gap.empty() ? " " : gap) + text);
}

void ConfigText::replace_string(const std::vector<std::string_view>& path, std::string_view value) {
  const JsonValue* object = object_at(path);
  const JsonValue* member = object != nullptr ? object->find(path.back()) : nullptr;
  if (member == nullptr || !member->is_string() || member->text == value) return;
  record(path, member->text, std::string(value));
  splice(member->begin, member->end, json_ascii_string(value));
}

}  // namespace tftf
