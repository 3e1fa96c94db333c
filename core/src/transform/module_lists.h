// Lists of modules in quantisation sections: which are left alone, which have bits of their own. They are renamed along
// with the tensors.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stream.h"
#include "tftf/transform/config_edit.h"

namespace tftf::transform {

// What becomes of an entry of a list.
struct ModuleMove {
  std::string name{};
  std::string why_left{};  // a phrase: it stays as it is, which is warned of
  bool gone = false;       // it is taken out, of lists at least
};
using ModuleMoves = std::function<ModuleMove(const std::string& entry)>;

// Changes the entries of the lists in `config` as `moves` says. Patterns stay, and are named in `warnings`, which begin with
// `since`: "Tensors are renamed".
void move_module_lists(const ModuleMoves& moves, std::string_view since, ConfigText& config,
                       std::vector<std::string>& warnings);

// Renames the entries of the lists in `config`, each as the tensors below it are called now. What cannot follow is named
// in `warnings`: patterns, and modules whose tensors went different ways.
void rename_module_lists(const Stream& stream, ConfigText& config, std::vector<std::string>& warnings);

}  // namespace tftf::transform
