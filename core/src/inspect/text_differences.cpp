#include "inspect/text_differences.h"

#include <unordered_map>
#include <unordered_set>

namespace tftf {
namespace {

Metadata merged_metadata(const Checkpoint& checkpoint) {
  Metadata out;
  std::unordered_set<std::string_view> known;
  for (const Shard& shard : checkpoint.shards)
    for (const auto& [key, value] : shard.header.metadata)
      if (known.insert(key).second) out.emplace_back(key, value);
  return out;
}

// The last of equal keys counts, as for Python.
std::unordered_map<std::string_view, const JsonValue*> members_of(const JsonValue& object) {
  std::unordered_map<std::string_view, const JsonValue*> out;
  for (const JsonValue::Member& member : object.members) out[member.first] = &member.second;
  return out;
}

bool same_json(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case JsonKind::kNull:
      return true;
    case JsonKind::kBoolean:
      return a.boolean == b.boolean;
    case JsonKind::kString:
      return a.text == b.text;
    case JsonKind::kNumber: {
      if (a.text == b.text) return true;
      const auto x = a.as_integer(), y = b.as_integer();
      if (x && y) return *x == *y;
      const auto v = a.as_double(), w = b.as_double();
      return v && w && *v == *w;
    }
    case JsonKind::kArray:
      if (a.elements.size() != b.elements.size()) return false;
      for (size_t i = 0; i < a.elements.size(); ++i)
        if (!same_json(a.elements[i], b.elements[i])) return false;
      return true;
    case JsonKind::kObject: {
      const auto left = members_of(a), right = members_of(b);
      if (left.size() != right.size()) return false;
      for (const auto& [key, value] : left) {
        const auto other = right.find(key);
        if (other == right.end() || !same_json(*value, *other->second)) return false;
      }
      return true;
    }
  }
  return false;
}

// RFC 6901.
std::string pointer_step(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

class FileDifferences {
 public:
  FileDifferences(const SideFile& left, const SideFile& right, std::vector<TextDifference>& out)
      : left_(left), right_(right), out_(out) {}

  void compare(const JsonValue& a, const JsonValue& b, const std::string& pointer) {
    if (!a.is_object() || !b.is_object()) {
      if (!same_json(a, b)) add(pointer, &a, &b);
      return;
    }
    const auto left = members_of(a), right = members_of(b);
    std::unordered_set<std::string_view> done;
    for (const JsonValue::Member& member : a.members) {
      if (!done.insert(member.first).second) continue;
      const auto other = right.find(member.first);
      const std::string place = pointer + pointer_step(member.first);
      if (other == right.end())
        add(place, left.at(member.first), nullptr);
      else
        compare(*left.at(member.first), *other->second, place);
    }
    for (const JsonValue::Member& member : b.members)
      if (done.insert(member.first).second)
        add(pointer + pointer_step(member.first), nullptr, right.at(member.first));
  }

 private:
  static std::optional<std::string> text(const SideFile& file, const JsonValue* value) {
    if (value == nullptr) return std::nullopt;
    return file.text.substr(static_cast<size_t>(value->begin),
                            static_cast<size_t>(value->end - value->begin));
  }
  void add(const std::string& pointer, const JsonValue* a, const JsonValue* b) {
    out_.push_back({left_.name, pointer, text(left_, a), text(right_, b)});
  }

  const SideFile& left_;
  const SideFile& right_;
  std::vector<TextDifference>& out_;
};

}  // namespace

std::vector<TextDifference> metadata_differences(const Checkpoint& left, const Checkpoint& right) {
  const Metadata a = merged_metadata(left), b = merged_metadata(right);
  std::unordered_map<std::string_view, const std::string*> of_left, of_right;
  for (const auto& [key, value] : a) of_left.emplace(key, &value);
  for (const auto& [key, value] : b) of_right.emplace(key, &value);
  std::vector<TextDifference> out;
  for (const auto& [key, value] : a) {
    const auto other = of_right.find(key);
    if (other == of_right.end())
      out.push_back({"", key, value, std::nullopt});
    else if (*other->second != value)
      out.push_back({"", key, value, *other->second});
  }
  for (const auto& [key, value] : b)
    if (of_left.count(key) == 0) out.push_back({"", key, std::nullopt, value});
  return out;
}

std::vector<TextDifference> config_differences(const Checkpoint& left, const Checkpoint& right) {
  std::vector<TextDifference> out;
  for (std::string_view name : side_file_names()) {
    const SideFile *a = left.side_file(name), *b = right.side_file(name);
    if (a == nullptr && b == nullptr) continue;
    if (a == nullptr || b == nullptr) {
      out.push_back({std::string(name), "", a != nullptr ? std::optional(a->text) : std::nullopt,
                     b != nullptr ? std::optional(b->text) : std::nullopt});
    } else if (a->document.error || b->document.error) {
      if (a->text != b->text) out.push_back({std::string(name), "", a->text, b->text});
    } else {
      FileDifferences(*a, *b, out).compare(a->document.root, b->document.root, "");
    }
  }
  return out;
}

}  // namespace tftf
