// Surgery on configuration texts: after any edits the text is a document still, the member that was meant has its new
// value or is gone, and all others have theirs. Format: one byte edits, a byte each, then the text.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "input.h"
#include "tftf/transform/config_edit.h"

using namespace tftf;
using tftf::fuzz::Input;
using tftf::fuzz::require;

namespace {

using Path = std::vector<std::string_view>;

// What a key means: its last value.
std::set<std::string_view> keys_of(const JsonValue& object) {
  std::set<std::string_view> keys;
  for (const JsonValue::Member& member : object.members) keys.insert(member.first);
  return keys;
}

// Whether both documents mean the same everywhere but at `path` (null: everywhere).
bool same(const JsonValue& a, const JsonValue& b, const Path* path, size_t depth) {
  if (a.kind != b.kind) return false;
  if (a.is_array()) {
    if (a.elements.size() != b.elements.size()) return false;
    for (size_t i = 0; i < a.elements.size(); ++i)
      if (!same(a.elements[i], b.elements[i], nullptr, 0)) return false;
    return true;
  }
  if (!a.is_object()) return a.text == b.text && a.boolean == b.boolean;
  const bool inside = path != nullptr && depth < path->size();
  const std::string_view edited = inside ? (*path)[depth] : std::string_view();
  const bool here = inside && depth + 1 == path->size();
  std::set<std::string_view> left = keys_of(a), right = keys_of(b);
  if (here) {
    left.erase(edited);
    right.erase(edited);
  }
  if (left != right) return false;
  for (const std::string_view key : left) {
    const bool on_path = inside && key == edited;
    if (!same(*a.find(key), *b.find(key), on_path ? path : nullptr, depth + 1)) return false;
  }
  return true;
}

const JsonValue* at(const JsonValue& root, const Path& path) {
  const JsonValue* value = &root;
  for (const std::string_view key : path) {
    value = value->is_object() ? value->find(key) : nullptr;
    if (value == nullptr) return nullptr;
  }
  return value;
}

constexpr const char* kValues[] = {"null", "\"bfloat16\"", "7", "{\"bits\": 4}", "[1, 2]", "{}"};

// A path to something that is there, or nearly.
Path any_path(Input& input, const JsonValue& root) {
  Path path;
  const JsonValue* value = &root;
  for (int depth = input.byte() % 3; depth >= 0; --depth) {
    const uint8_t pick = input.byte();
    if (!value->is_object() || value->members.empty() || pick == 255) {
      path.push_back(pick % 2 == 0 ? "a" : "quantization_config");
      break;
    }
    const JsonValue::Member& member = value->members[pick % value->members.size()];
    path.push_back(member.first);
    value = value->find(member.first);
  }
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) return 0;
  Input input(data, size);
  const int edits = 1 + input.byte() % 3;
  const std::string choices = input.text(24);
  const std::string text = input.text(size);
  if (parse_json(text, JsonDialect::kPython).error) return 0;
  ConfigText config("config.json", text);
  require(config.text() == text && config.changes().empty());
  Input how(choices);
  for (int edit = 0; edit < edits; ++edit) {
    const JsonValue before = config.root();
    const Path path = any_path(how, before);
    const JsonValue* old = at(before, path);
    const size_t changes = config.changes().size();
    const std::string unchanged = config.text();
    const uint8_t kind = how.byte() % 3;
    const std::string value = how.pick(kValues);
    if (kind == 0) config.cut(path);
    if (kind == 1) config.set(path, value);
    if (kind == 2) config.replace_string(path, "other");
    const JsonDocument after = parse_json(config.text(), JsonDialect::kPython);
    require(!after.error);
    require(same(before, after.root, &path, 0));
    const JsonValue* now = at(after.root, path);
    if (config.changes().size() == changes) {
      require(config.text() == unchanged);
      continue;
    }
    if (kind == 0) require(old != nullptr && now == nullptr);
    if (kind == 1)
      require(now != nullptr && same(*now, parse_json(value, JsonDialect::kPython).root, nullptr, 0));
    if (kind == 2) require(now != nullptr && now->is_string() && now->text == "other");
  }
  return 0;
}
