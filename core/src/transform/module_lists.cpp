#include "module_lists.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kSections[] = {"quantization_config", "compression_config"};
constexpr std::string_view kLists[] = {"ignore",
                                       "modules_to_not_convert",
                                       "exclude_modules",
                                       "llm_int8_skip_modules",
                                       "modules_in_block_to_quantize",
                                       "block_name_to_quantize"};
constexpr std::string_view kTables[] = {"extra_config", "dynamic", "layer_config"};  // by module

// Stored names and what has become of them, by stored name.
class MovedModules {
 public:
  explicit MovedModules(const Stream& stream) {
    for (const StreamTensor& tensor : stream.tensors)
      // Tensors of other models are called there as nothing here is.
      if (!tensor.added && !tensor.literal && tensor.source.shard < stream.checkpoint->shards.size())
        names_.emplace_back(listed(stream, tensor), tensor.name);
    std::sort(names_.begin(), names_.end());
  }

  struct Answer {
    std::string name;
    bool told = true;  // false: its tensors went different ways
  };
  Answer of(const std::string& module) const {
    // The tensors below the module tell; else those below its nearest parent that has some.
    for (size_t end = module.size();;) {
      const std::string parent = module.substr(0, end);
      if (const auto [known, answer] = direct(parent); known)
        return answer.told ? Answer{answer.name + module.substr(end)} : Answer{module, end != module.size()};
      const size_t dot = end == 0 ? std::string::npos : module.rfind('.', end - 1);
      if (dot == std::string::npos) return {module};
      end = dot;
    }
  }

 private:
  // What the lists call it.
  static const std::string& listed(const Stream& stream, const StreamTensor& tensor) {
    if (tensor.listed_name) return *tensor.listed_name;
    return stream.lists_current ? tensor.name : stream.checkpoint->info(tensor.source).name;
  }

  std::pair<bool, Answer> direct(const std::string& module) const {
    const std::string below = module + ".";
    auto at = std::lower_bound(names_.begin(), names_.end(), std::pair<std::string, std::string>(below, ""));
    std::optional<std::string> name;
    for (; at != names_.end() && at->first.starts_with(below); ++at) {
      const std::string_view rest = std::string_view(at->first).substr(module.size());
      if (!at->second.ends_with(rest)) return {true, {module, false}};
      std::string now = at->second.substr(0, at->second.size() - rest.size());
      if (name && *name != now) return {true, {module, false}};
      name = std::move(now);
    }
    return name ? std::pair(true, Answer{*std::move(name)}) : std::pair(false, Answer{module});
  }

  std::vector<std::pair<std::string, std::string>> names_;
};

bool is_module_pattern(const std::string& entry) {
  return entry.find_first_of("*?[^$\\+") != std::string::npos || entry.find(':') != std::string::npos;
}

class ListEdit {
 public:
  ListEdit(const ModuleMoves& moves, std::string_view since, ConfigText& config,
           std::vector<std::string>& warnings)
      : moves_(moves), since_(since), config_(config), warnings_(warnings) {}

  void edit(std::vector<std::string_view> path) {
    const JsonValue* value = &config_.root();
    for (const std::string_view key : path) {
      value = value->is_object() ? value->find(key) : nullptr;
      if (value == nullptr) return;
    }
    // From the end on, so that the places before stay.
    text_ = config_.text().substr(to_size(value->begin), to_size(value->end - value->begin));
    origin_ = value->begin;
    changed_ = false;
    where_ = path;
    if (value->is_string()) {
      replace(value->begin, value->end, value->text);
    } else if (value->is_array()) {
      edit_elements(*value);
    } else if (value->is_object()) {
      for (size_t i = value->members.size(); i-- > 0;) {
        const uint64_t begin = value->key_offsets[i];
        replace(begin, begin + literal_length(begin), value->members[i].first);
      }
    }
    if (changed_) config_.set(path, text_);
  }

 private:
  // Of the string that begins there, quotes included.
  uint64_t literal_length(uint64_t begin) const {
    size_t at = to_size(begin - origin_) + 1;
    while (at < text_.size() && text_[at] != '"') at += text_[at] == '\\' ? 2 : 1;
    return at + 1 - to_size(begin - origin_);
  }

  // From the end on. An element that goes takes the comma behind it along; where nothing stays behind it, the one before.
  void edit_elements(const JsonValue& list) {
    bool stays_behind = false;
    for (size_t i = list.elements.size(); i-- > 0;) {
      const JsonValue& element = list.elements[i];
      if (!element.is_string() || !replace(element.begin, element.end, element.text)) {
        stays_behind = true;
        continue;
      }
      const uint64_t begin = stays_behind || i == 0 ? element.begin : list.elements[i - 1].end;
      const uint64_t end = stays_behind ? list.elements[i + 1].begin : element.end;
      text_.erase(to_size(begin - origin_), to_size(end - begin));
      changed_ = true;
    }
  }

  // Whether the entry has to go.
  bool replace(uint64_t begin, uint64_t end, const std::string& entry) {
    const auto left = [&](const std::string& why) {
      std::string key;
      for (const std::string_view part : where_) key += (key.empty() ? "" : ".") + std::string(part);
      warnings_.push_back(std::string(since_) + ", and " + quote_name(entry) + " of " + key +
                          " in config.json stays as it is: " + why + ".");
      return false;
    };
    if (is_module_pattern(entry)) return left("it is a pattern");
    const ModuleMove move = moves_(entry);
    if (!move.why_left.empty()) return left(move.why_left);
    if (move.gone || move.name == entry) return move.gone;
    text_.replace(to_size(begin - origin_), to_size(end - begin), json_ascii_string(move.name));
    changed_ = true;
    return false;
  }

  const ModuleMoves& moves_;
  std::string_view since_;
  ConfigText& config_;
  std::vector<std::string>& warnings_;
  std::string text_;
  uint64_t origin_ = 0;
  bool changed_ = false;
  std::vector<std::string_view> where_;
};

}  // namespace

void move_module_lists(const ModuleMoves& moves, std::string_view since, ConfigText& config,
                       std::vector<std::string>& warnings) {
  ListEdit edit(moves, since, config, warnings);
  for (const bool nested : {false, true})
    for (const std::string_view section : kSections) {
      const auto path = [&](std::string_view key) {
        return nested ? std::vector<std::string_view>{"text_config", section, key}
                      : std::vector<std::string_view>{section, key};
      };
      for (const std::string_view key : kLists) edit.edit(path(key));
      for (const std::string_view key : kTables) edit.edit(path(key));
    }
}

void rename_module_lists(const Stream& stream, ConfigText& config, std::vector<std::string>& warnings) {
  const MovedModules moved(stream);
  const auto move = [&moved](const std::string& entry) {
    MovedModules::Answer answer = moved.of(entry);
    if (!answer.told) return ModuleMove{entry, "its tensors were renamed in different ways"};
    return ModuleMove{std::move(answer.name)};
  };
  move_module_lists(move, "Tensors are renamed", config, warnings);
}

}  // namespace tftf::transform
