// Matches names against the rules of a model type.
#include "tftf/checkpoint/layout_names.h"

#include <algorithm>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr NameLayout kLayouts[] = {NameLayout::kTransformers4, NameLayout::kTransformers5};

// The first component of a side that begins with a dot.
std::string_view first_component(std::string_view side) {
  side.remove_prefix(1);
  return side.substr(0, std::min(side.find('.'), side.size()));
}

// Whether a side that ends with a dot is a begin of `text`, one that does not is all of it.
bool stands_at(std::string_view side, std::string_view text) {
  return side.back() == '.' ? text.starts_with(side) : text == side;
}

// The longer side decides; of equal ones that of the layout one goes to.
bool decides(std::string_view side, NameLayout layout, std::string_view best, NameLayout to) {
  return side.size() > best.size() || (side.size() == best.size() && layout == to);
}

bool reads(const NameRule& rule, NameLayout to) {
  return rule.use != NameRule::Use::kTo5 || to == NameLayout::kTransformers5;
}

}  // namespace

LayoutNames::LayoutNames(const ModelEntry& entry) : entry_(entry) {
  for (const NameRule& rule : entry.type->names) {
    if (rule.inside()) continue;
    for (const NameLayout layout : kLayouts) starts_.push_back({&rule, layout});
  }
  std::stable_sort(starts_.begin(), starts_.end(),
                   [](const Side& a, const Side& b) { return a.text().size() > b.text().size(); });
  add_inside(*entry.type, false);
  if (entry.inner != nullptr) add_inside(*entry.inner, true);
}

void LayoutNames::add_inside(const ModelType& type, bool below_body) {
  for (const NameRule& rule : type.names) {
    if (!rule.inside()) continue;
    for (const NameLayout layout : kLayouts)
      inside_[first_component(rule.side[layout])].push_back({&rule, layout, below_body});
  }
}

LayoutNames::Found LayoutNames::start_of(std::string_view name, NameLayout to) const {
  Found found;
  for (const Side& side : starts_) {
    if (!reads(*side.rule, to) || !stands_at(side.text(), name)) continue;
    if (!found || decides(side.text(), side.layout, found.side.text(), to)) found.side = side;
  }
  return found;
}

LayoutNames::Found LayoutNames::inside_of(std::string_view name, NameLayout to) const {
  Found found;
  if (inside_.empty()) return found;
  const bool below = entry_.inner != nullptr && name.starts_with(entry_.type->text->body[to]);
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    const auto sides = inside_.find(first_component(name.substr(dot)));
    if (sides == inside_.end()) continue;
    for (const Side& side : sides->second) {
      if ((side.below_body && !below) || !reads(*side.rule, to)) continue;
      if (!stands_at(side.text(), name.substr(dot))) continue;
      // The first occurrence of a side counts.
      if (!found ||
          (side.text() != found.side.text() && decides(side.text(), side.layout, found.side.text(), to)))
        found = {side, dot};
    }
  }
  return found;
}

bool LayoutNames::keeps(std::string_view name) const {
  return std::any_of(starts_.begin(), starts_.end(), [name](const Side& side) {
    return side.rule->use == NameRule::Use::kKeep && stands_at(side.text(), name);
  });
}

LayoutNames::Answer LayoutNames::convert(std::string_view name, NameLayout to) const {
  bool there = false;
  Answer answer = by_rules(name, to, there);
  if (there || entry_.type->suffixes.empty()) return answer;
  // Ends come first, on names that no rule has found to be there already.
  for (const InLayouts<std::string_view>& suffix : entry_.type->suffixes) {
    const std::string_view end = suffix[other_layout(to)];
    if (!ends_with(name, end)) continue;
    const std::string other = std::string(name.substr(0, name.size() - end.size())) + std::string(suffix[to]);
    answer = by_rules(other, to, there);
    answer.moved = true;
    break;
  }
  return answer;
}

LayoutNames::Answer LayoutNames::by_rules(std::string_view name, NameLayout to, bool& there) const {
  Answer answer{.name = std::string(name)};
  const Found start = start_of(name, to);
  answer.known = starts_.empty() || start;
  if (start && start.side.rule->use == NameRule::Use::kKeep) {
    there = true;
    return answer;
  }
  const auto put = [&](const Found& found) {
    const NameRule& rule = *found.side.rule;
    if (found.side.layout == to || rule.side.in4 == rule.side.in5) return;
    answer.name.replace(found.at, found.side.text().size(), rule.side[to]);
    answer.moved = true;
    answer.one_way = answer.one_way || rule.use == NameRule::Use::kTo5;
  };
  if (start) put(start);
  const Found inside = inside_of(answer.name, to);
  if (inside) put(inside);
  there = (start && start.side.layout == to) || (inside && inside.side.layout == to);
  return answer;
}

void LayoutVote::add(std::string_view name) {
  if (!names_.has_rules()) return;
  to5_ += names_.convert(name, NameLayout::kTransformers5).moved ? 1 : 0;
  to4_ += names_.convert(name, NameLayout::kTransformers4).moved ? 1 : 0;
}

namespace {

// Where `path` stands in `name` as whole components with more behind it, from `from` on: the offset of its end.
size_t end_of_path(std::string_view name, std::string_view path, size_t from) {
  for (size_t at = name.find(path, from); at != std::string_view::npos; at = name.find(path, at + 1)) {
    const size_t end = at + path.size();
    if ((at == 0 || name[at - 1] == '.') && end < name.size() && name[end] == '.') return end;
  }
  return std::string_view::npos;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

std::optional<ExpertName> below_split(const ExpertKind& kind, std::string_view behind) {
  const size_t dot = behind.find('.');
  if (dot == 0 || dot == std::string_view::npos ||
      !std::all_of(behind.begin(), behind.begin() + static_cast<ptrdiff_t>(dot), is_digit))
    return std::nullopt;
  ExpertName found{.what = ExpertName::What::kStray, .kind = &kind};
  found.number = behind.substr(0, dot);
  found.rest = behind.substr(dot + 1);
  const size_t next = found.rest.find('.');
  if (next == std::string_view::npos || !is_word(found.rest.substr(next + 1))) return found;
  const std::string_view part = found.rest.substr(0, next);
  const auto is = [&](std::string_view name, ExpertName::Part which) {
    if (name.empty() || part != name) return;
    found.what = ExpertName::What::kSplit;
    found.part = which;
  };
  is(kind.gate, ExpertName::Part::kGate);
  is(kind.up, ExpertName::Part::kUp);
  is(kind.down, ExpertName::Part::kDown);
  if (found.what == ExpertName::What::kSplit) found.rest.remove_prefix(next + 1);
  return found;
}

std::optional<ExpertName> below_fused(const ExpertKind& kind, std::string_view behind) {
  for (const auto part : {ExpertName::Part::kUp, ExpertName::Part::kDown}) {
    const std::string_view fused = part == ExpertName::Part::kUp ? kind.fused_up : kind.fused_down;
    if (!behind.starts_with(fused)) continue;
    const std::string_view tail = behind.substr(fused.size());
    ExpertName found{.what = ExpertName::What::kFused, .kind = &kind, .part = part, .rest = tail};
    if (tail.empty() || (tail.size() > 1 && tail[0] == '_' && is_word(tail))) return found;
    if (tail[0] != '.') continue;
    found.what = ExpertName::What::kAboveTail;
    found.rest.remove_prefix(1);
    return found;
  }
  return std::nullopt;
}

std::optional<ExpertName> below_kind(const ExpertKind& kind, NameLayout layout, std::string_view name) {
  const auto below = [&](std::string_view path, auto parse) -> std::optional<ExpertName> {
    for (size_t end = end_of_path(name, path, 0); end != std::string_view::npos;
         end = end_of_path(name, path, end - path.size() + 1)) {
      std::optional<ExpertName> found = parse(kind, name.substr(end + 1));
      if (!found) continue;
      found->prefix = name.substr(0, end - path.size());
      found->container = name.substr(0, end);
      return found;
    }
    return std::nullopt;
  };
  if (auto split = below(kind.split_at(layout), below_split)) return split;
  return below(kind.path[layout], below_fused);
}

}  // namespace

std::optional<ExpertName> parse_expert_name(std::span<const ExpertKind> kinds, std::string_view name) {
  for (const ExpertKind& kind : kinds) {
    const bool same = kind.path.in4 == kind.path.in5;
    for (const NameLayout layout : kLayouts) {
      if (same && layout == NameLayout::kTransformers5) break;
      std::optional<ExpertName> found = below_kind(kind, layout, name);
      if (!found) continue;
      found->under = layout;
      found->at.in4 = same || layout == NameLayout::kTransformers4;
      found->at.in5 = same || layout == NameLayout::kTransformers5;
      return found;
    }
  }
  return std::nullopt;
}

std::string tail_of_suffix(std::string_view suffix) {
  constexpr std::string_view kWeight = "weight";
  if (suffix.starts_with(kWeight)) return std::string(suffix.substr(kWeight.size()));
  return "_" + std::string(suffix);
}

std::string suffix_of_tail(std::string_view tail) {
  if (tail.empty()) return "weight";
  if (tail == "_bias" || tail.starts_with("_input_") || tail.starts_with("_output_"))
    return std::string(tail.substr(1));
  return "weight" + std::string(tail);
}

}  // namespace tftf
