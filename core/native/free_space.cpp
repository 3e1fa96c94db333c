#include <algorithm>

#include "output_target.h"
#include "tftf/base/escape.h"
#include "tftf_native/executor.h"

namespace tftf {

Result<void> check_free_space(const Plan& plan, const OutputTarget& target) {
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  auto folder = open_output_folder(resolved->existing);
  if (!folder.ok()) return std::move(folder).error();
  const auto free = (*folder)->free_bytes();
  if (!free) return {};
  const TargetNames names = target_names(plan, target);
  uint64_t needed = 0;
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const Output& output = plan.outputs()[i];
    if (!output.known) continue;
    uint64_t has = 0;
    if (resolved->missing.empty()) {
      auto part = (*folder)->look(part_name(names.finals[i]));
      if (part.ok() && *part) has = (*part)->allocated;
    }
    needed += output.size - std::min(output.size, has);
  }
  for (const SideOutput& side : plan.sides()) needed += side.bytes.size();
  if (needed <= *free) return {};
  return Error{.code = ErrorCode::kIoSpace,
               .message = "The destination " + quote_name(target.path) +
                          " is too small: " + std::to_string(needed - *free) + " more bytes are needed (" +
                          std::to_string(needed) + " to write, " + std::to_string(*free) + " free).",
               .file = target.path,
               .expected = std::to_string(needed),
               .found = std::to_string(*free)};
}

}  // namespace tftf
