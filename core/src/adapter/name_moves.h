// Modules of an adapter that the base has under another prefix: text models inside of wrappers, and the like.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tftf::merging {

// A module `from`... of the adapter is `to`... in the base.
struct NameMove {
  std::string from, to;
  friend bool operator==(const NameMove&, const NameMove&) = default;
};

// The modules that `names` (of tensors, any order) belong to, sorted, each once.
std::vector<std::string_view> modules_of(const std::vector<std::string_view>& names);

// The moves that put every one of `modules` on the base, each told by names that agree in their ends with exactly one
// module of the base; empty: there are none. `lands`: whether the base has a module of that name.
std::vector<NameMove> find_moves(const std::vector<std::string>& modules,
                                 const std::vector<std::string_view>& base_modules,
                                 const std::function<bool(const std::string&)>& lands);
// By the longest `from` that fits; unchanged where none does.
std::string moved(const std::string& module, const std::vector<NameMove>& moves);
// As options: --rename-adapter '^model\.' 'model.language_model.'.
std::string moves_as_options(const std::vector<NameMove>& moves);

}  // namespace tftf::merging
