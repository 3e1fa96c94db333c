// What the output folder holds already, and what comes to it: tensors of equal names, and the stamps of all
// passes together (spec colibri 2.4, 3.1).
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf::colibri {

// An output file as far as this matters.
struct PlannedFile {
  std::string name;
  std::vector<std::string> tensors;
  std::map<std::string, std::string, std::less<>> stamps;  // weight name to format name
};

// Refuses `duplicate-tensor` (kRefusedCollision) when a name would stand in two files, files of the folder that
// have the name of a planned one not counted; `stamp-cap`, `stamp-conflict` … (kRefusedOutput) when a reader of
// the whole folder would refuse the stamps; a file of the folder that cannot be read (kRefusedOutput). Gives the
// number of distinct stamps.
Result<uint64_t> check_outputs(const Checkpoint* existing, const std::vector<PlannedFile>& files);

}  // namespace tftf::colibri
