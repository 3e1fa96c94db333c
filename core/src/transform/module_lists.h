// Lists of modules in quantisation sections: which are left alone, which have bits of their own. They are renamed along
// with the tensors.
#pragma once

#include <string>
#include <vector>

#include "stream.h"
#include "tftf/transform/config_edit.h"

namespace tftf::transform {

// Renames the entries of the lists in `config`, each as the tensors below it are called now. What cannot follow is named
// in `warnings`: patterns, and modules whose tensors went different ways.
void rename_module_lists(const Stream& stream, ConfigText& config, std::vector<std::string>& warnings);

}  // namespace tftf::transform
