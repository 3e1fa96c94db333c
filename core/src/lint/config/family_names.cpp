#include "lint/config/family_names.h"

#include <optional>
#include <string>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

// Takes "12." from the front.
std::optional<uint32_t> take_number(std::string_view& text) {
  constexpr size_t kMaxDigits = 9;
  uint32_t value = 0;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (digits == kMaxDigits) return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(text[digits++] - '0');
  }
  if (digits == 0 || (digits > 1 && text[0] == '0') || text.substr(digits, 1) != ".") return std::nullopt;
  text.remove_prefix(digits + 1);
  return value;
}

// Looks `name` up; sets entry and exact.
bool find_in(const FamilyNames& names, std::string_view name, bool companions, FamilyPlace& place) {
  if (const auto found = names.by_name.find(name); found != names.by_name.end()) {
    place.entry = found->second;
    return true;
  }
  if (!companions) return false;
  // No module of the tables is longer: names from files may be.
  constexpr size_t kLongestModule = 128;
  const std::string_view head = name.substr(0, kLongestModule);
  for (size_t dot = head.find('.'); dot != std::string_view::npos; dot = head.find('.', dot + 1)) {
    if (const auto found = names.by_module.find(name.substr(0, dot)); found != names.by_module.end()) {
      place.entry = found->second;
      place.exact = false;
      return true;
    }
  }
  return false;
}

FamilyPlace find_unprefixed(const Family& family, std::string_view name, bool companions) {
  FamilyPlace place;
  for (uint32_t i = 0; i < family.stacks.size(); ++i) {
    const FamilyStack& stack = family.stacks[i];
    std::string_view rest = name;
    if (!starts_with(rest, stack.prefix)) continue;
    rest.remove_prefix(stack.prefix.size());
    const auto layer = take_number(rest);
    if (!layer) continue;
    place.stack = i;
    place.layer = *layer;
    place.kind = FamilyPlace::Kind::kInLayer;
    std::string released;
    if (!stack.later.empty() && starts_with(rest, stack.later)) {
      released = std::string(stack.released) + std::string(rest.substr(stack.later.size()));
      rest = released;
    }
    if (find_in(stack.names, rest, companions, place)) {
      place.kind = FamilyPlace::Kind::kLayer;
    } else if (!stack.expert_prefix.empty() && starts_with(rest, stack.expert_prefix)) {
      rest.remove_prefix(stack.expert_prefix.size());
      const auto expert = take_number(rest);
      if (expert && find_in(stack.experts, rest, companions, place)) {
        place.expert = *expert;
        place.kind = FamilyPlace::Kind::kExpert;
      }
    }
    return place;
  }
  if (find_in(family.top, name, companions, place)) place.kind = FamilyPlace::Kind::kTop;
  return place;
}

}  // namespace

FamilyPlace find_place(const Family& family, std::string_view name, bool companions) {
  FamilyPlace place = find_unprefixed(family, name, companions);
  if (place.kind != FamilyPlace::Kind::kUnknown || family.optional_prefix.empty() ||
      !starts_with(name, family.optional_prefix))
    return place;
  place = find_unprefixed(family, name.substr(family.optional_prefix.size()), companions);
  place.prefixed = place.kind != FamilyPlace::Kind::kUnknown;
  return place;
}

bool is_legacy_buffer(std::string_view name) {
  for (std::string_view end :
       {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".position_ids"})
    if (name.size() >= end.size() && name.substr(name.size() - end.size()) == end) return true;
  return false;
}

}  // namespace tftf
