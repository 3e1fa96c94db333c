#include "lint/config/family_table.h"

#include <charconv>
#include <tuple>
#include <utility>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Calls `use` with each part between `separator`s, trimmed, empty ones left out.
template <class Use>
void for_each_part(std::string_view text, char separator, Use use) {
  while (!text.empty()) {
    const size_t cut = text.find(separator);
    if (const std::string_view part = trim(text.substr(0, cut)); !part.empty()) use(part);
    text = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  }
}

// Cuts `end` off `text` when it is there.
bool take_end(std::string_view& text, std::string_view end) {
  if (!ends_with(text, end)) return false;
  text = trim(text.substr(0, text.size() - end.size()));
  return true;
}

// "A else B" as two parts, the second empty without "else".
std::pair<std::string_view, std::string_view> cut_else(std::string_view text) {
  constexpr std::string_view kElse = " else ";
  const size_t cut = text.find(kElse);
  if (cut == std::string_view::npos) return {trim(text), {}};
  return {trim(text.substr(0, cut)), trim(text.substr(cut + kElse.size()))};
}

FamilySymbol parse_symbol(std::string_view text) {
  const size_t equals = text.find(" = ");
  const size_t rule = text.rfind(' ');
  return {text.substr(0, equals), trim(text.substr(equals + 3, rule - equals - 3)),
          *find_rule(text.substr(rule + 1))};
}

FamilyDerived parse_derived(std::string_view text) {
  const size_t equals = text.find(" = ");
  const auto [key, otherwise] = cut_else(text.substr(equals + 3));
  return {text.substr(0, equals), key, otherwise};
}

FamilyDimension parse_dimension(std::string_view text, const Family& family) {
  FamilyDimension dimension;
  if (text[0] >= '0' && text[0] <= '9') {
    std::from_chars(text.data(), text.data() + text.size(), dimension.literal);
    return dimension;
  }
  for (uint32_t i = 0; i < family.symbols.size(); ++i)
    if (family.symbols[i].name == text) dimension.symbol = i;
  return dimension;
}

void add(FamilyNames& names, FamilyEntry entry) {
  const auto at = static_cast<uint32_t>(names.entries.size());
  names.by_name.emplace(entry.name, at);
  constexpr std::string_view kWeight = ".weight";
  if (ends_with(entry.name, kWeight))
    names.by_module.emplace(entry.name.substr(0, entry.name.size() - kWeight.size()), at);
  names.entries.push_back(std::move(entry));
}

// `stack` is null for top tensors.
void parse_entry(std::string_view text, const Family& family, FamilyNames& names, FamilyStack* stack) {
  FamilyEntry entry;
  const bool expert = take_end(text, "per expert");
  entry.optional = take_end(text, "optional");
  if (take_end(text, "(group A)")) entry.group = 'A';
  if (take_end(text, "(group B)")) entry.group = 'B';
  const size_t bracket = text.find('[');
  for_each_part(text.substr(bracket + 1, text.size() - bracket - 2), ',',
                [&](std::string_view part) { entry.shape.push_back(parse_dimension(part, family)); });
  entry.name = trim(text.substr(0, bracket));
  if (!expert) {
    if (stack && entry.group != 0) stack->has_groups = true;
    add(names, std::move(entry));
    return;
  }
  constexpr std::string_view kNumber = "{e}.";
  const size_t number = entry.name.find(kNumber);
  stack->expert_prefix = entry.name.substr(0, number);
  entry.name.remove_prefix(number + kNumber.size());
  add(stack->experts, std::move(entry));
}

Family parse_family(const FamilyText& text) {
  Family family;
  family.head = text.head;
  family.embedding = text.embedding;
  family.optional_prefix = text.optional_prefix;
  family.heads_key = text.heads_key;
  for_each_part(text.types, ' ', [&](std::string_view type) {
    const bool tied = take_end(type, "*");
    family.types.push_back(type);
    family.tied.push_back(tied);
  });
  for (std::string_view list : text.symbols)
    for_each_part(list, ';', [&](std::string_view part) { family.symbols.push_back(parse_symbol(part)); });
  for (std::string_view list : text.derived)
    for_each_part(list, ';', [&](std::string_view part) { family.derived.push_back(parse_derived(part)); });
  for (std::string_view list : text.top)
    for_each_part(list, ';', [&](std::string_view part) { parse_entry(part, family, family.top, nullptr); });
  for (const FamilyText::Layers& layers : text.stacks) {
    FamilyStack stack;
    stack.prefix = layers.prefix;
    std::tie(stack.count_key, stack.count_otherwise) = cut_else(layers.count);
    const size_t space = layers.renamed.find(' ');
    if (space != std::string_view::npos) {
      stack.later = layers.renamed.substr(0, space);
      stack.released = layers.renamed.substr(space + 1);
    }
    for (std::string_view list : layers.entries)
      for_each_part(list, ';',
                    [&](std::string_view part) { parse_entry(part, family, stack.names, &stack); });
    family.stacks.push_back(std::move(stack));
  }
  return family;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> parsed = [] {
    std::vector<Family> out;
    for (const FamilyText& text : family_texts()) out.push_back(parse_family(text));
    return out;
  }();
  return parsed;
}

FamilyChoice find_family(std::string_view model_type) {
  for (const Family& family : families())
    for (size_t i = 0; i < family.types.size(); ++i)
      if (family.types[i] == model_type) return {&family, family.tied[i]};
  return {};
}

}  // namespace tftf
