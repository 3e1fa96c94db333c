// Compares what is stored with what is said.
#include "quant/ct/stored_module.h"

#include <algorithm>

#include "quant/layout_scan.h"

namespace tftf::ct {

std::string stored_text(const StoredModule& module) {
  return std::to_string(module.match->bits) + "-bit " +
         (is_fp8(module.layout->code_dtype) || module.layout->codes == ct::Codes::kPairs ? "float" : "int") +
         (module.match->group_size != 0 ? ", groups of " + std::to_string(module.match->group_size) : "");
}

bool agrees(const StoredModule& module) {
  const ct::Layout& layout = *module.layout;
  const bool floats = is_fp8(layout.code_dtype) || layout.codes == ct::Codes::kPairs;
  return std::any_of(module.groups.begin(), module.groups.end(), [&](const Group* group) {
    if (!group->weights) return false;
    const Args& args = *group->weights;
    const bool plain = is_scale_float(layout.code_dtype) && layout.codes == ct::Codes::kElements;  // dense
    if (!plain && args.is_float != floats) return false;
    if (!plain && layout.codes != ct::Codes::kElements && args.bits != layout.bits) return false;
    const Shape expected = ct::expected_scales(args, layout);
    const uint64_t rows = expected.size() < 2 ? 1 : expected[0],
                   columns = expected.size() < 2 ? 1 : expected[1];
    return rows * columns == std::max<uint64_t>(layout.grid_rows, 1) * layout.grid_columns;
  });
}

bool same_scheme(const StoredModule& a, const StoredModule& b) {
  return a.match->layout == b.match->layout && a.match->bits == b.match->bits &&
         a.match->group_size == b.match->group_size && a.match->block[0] == b.match->block[0];
}

}  // namespace tftf::ct
