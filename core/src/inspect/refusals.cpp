#include "tftf/base/escape.h"
#include "tftf/inspect/info.h"

namespace tftf {

std::optional<Error> nothing_to_inspect(const Checkpoint& checkpoint) {
  if (!checkpoint.shards.empty() || checkpoint.index || !checkpoint.side_files.empty()) return std::nullopt;
  const std::string& given = checkpoint.listing.given;
  return Error{.code = ErrorCode::kRefusedInput,
               .message = quote_name(given) + " holds no weights, index or configuration.",
               .file = given};
}

std::optional<Error> broken_model(const ModelInfo& info) {
  if (info.kind != ModelKind::kBroken) return std::nullopt;
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.file = info.checkpoint->listing.given;
  error.message = quote_name(error.file) + " holds no sound weight file";
  for (const Shard& shard : info.checkpoint->shards)
    for (const Diagnostic& finding : shard.findings)
      if (rule_info(finding.rule).severity == Severity::kError) {
        error.message += ": " + message(finding);
        return error;
      }
  error.message += ".";
  return error;
}

}  // namespace tftf
