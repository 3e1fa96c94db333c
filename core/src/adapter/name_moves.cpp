#include "adapter/name_moves.h"

#include <algorithm>

#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

constexpr size_t kLooked = 64;    // modules: enough to see a habit, and no work for a hostile list
constexpr size_t kMostMoves = 4;  // an adapter of a text model and a vision tower has two or three

// Characters that two paths have in common at their ends, in whole components.
size_t common_end(std::string_view a, std::string_view b) {
  size_t common = 0, whole = 0;
  while (common < a.size() && common < b.size() && a[a.size() - common - 1] == b[b.size() - common - 1]) {
    ++common;
    const bool a_ends = common == a.size() || a[a.size() - common - 1] == '.';
    const bool b_ends = common == b.size() || b[b.size() - common - 1] == '.';
    if (a_ends && b_ends) whole = common;
  }
  return whole;
}

}  // namespace

std::vector<std::string_view> modules_of(const std::vector<std::string_view>& names) {
  std::vector<std::string_view> modules;
  for (const std::string_view name : names) {
    const size_t dot = name.rfind('.');
    if (dot != std::string_view::npos) modules.push_back(name.substr(0, dot));
  }
  std::sort(modules.begin(), modules.end());
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  return modules;
}

std::vector<NameMove> find_moves(const std::vector<std::string>& modules,
                                 const std::vector<std::string_view>& base_modules,
                                 const std::function<bool(const std::string&)>& lands) {
  std::vector<NameMove> moves;
  for (size_t m = 0; m < std::min(modules.size(), kLooked); ++m) {
    const std::string& module = modules[m];
    if (lands(module) || (!moves.empty() && lands(moved(module, moves)))) continue;
    size_t longest = 0;
    const std::string_view* only = nullptr;  // null again where two agree as well
    for (const std::string_view& base : base_modules) {
      const size_t common = common_end(module, base);
      if (common == 0 || common < longest) continue;
      only = common > longest ? &base : nullptr;
      longest = common;
    }
    if (only == nullptr) continue;
    NameMove move{module.substr(0, module.size() - longest),
                  std::string(only->substr(0, only->size() - longest))};
    if (std::find(moves.begin(), moves.end(), move) == moves.end()) moves.push_back(std::move(move));
    if (moves.size() > kMostMoves) return {};
  }
  const bool all =
      !moves.empty() && std::all_of(modules.begin(), modules.end(), [&](const std::string& module) {
        return lands(module) || lands(moved(module, moves));
      });
  return all ? moves : std::vector<NameMove>{};
}

std::string moved(const std::string& module, const std::vector<NameMove>& moves) {
  const NameMove* best = nullptr;
  for (const NameMove& move : moves)
    if (module.starts_with(move.from) && (best == nullptr || move.from.size() > best->from.size()))
      best = &move;
  return best == nullptr ? module : best->to + module.substr(best->from.size());
}

std::string moves_as_options(const std::vector<NameMove>& moves) {
  std::vector<NameMove> ordered = moves;  // what is longer first: the rules apply one after the other
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const NameMove& a, const NameMove& b) { return a.from.size() > b.from.size(); });
  std::string text;
  for (const NameMove& move : ordered) {
    std::string pattern = "^";
    for (const char c : move.from) {
      const bool plain =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      pattern += plain ? std::string(1, c) : std::string("\\") + c;
    }
    text += (text.empty() ? "" : " ") + std::string("--rename-adapter '") + escape_text(pattern) + "' '" +
            escape_text(move.to) + "'";
  }
  return text;
}

}  // namespace tftf::merging
