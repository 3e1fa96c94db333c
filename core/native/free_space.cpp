// What a target must offer before anything is written there: space, and the permission.
#include <algorithm>
#include <system_error>

#include "output_target.h"
#include "posix.h"
#include "tftf/base/escape.h"
#include "tftf_native/executor.h"

namespace tftf {

Result<void> check_writable(const OutputTarget& target) {
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  const std::string& folder = resolved->existing;
  // By the effective user, as when a file is created.
  if (retry([&] { return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS); }) == 0) return {};
  return Error{.code = ErrorCode::kIoWrite,
               .message = "Cannot write to " + quote_name(target.path) + ": nothing can be created in " +
                          quote_name(folder) + ": " + std::generic_category().message(errno) + ".",
               .file = target.path};
}

Result<void> check_free_space(const Plan& plan, const OutputTarget& target) {
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  auto folder = open_output_folder(resolved->existing);
  if (!folder.ok()) return std::move(folder).error();
  const auto free = (*folder)->free_bytes();
  if (!free) return {};
  const TargetNames names = target_names(plan, target, {});
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
