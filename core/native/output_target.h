// Where an output may go (spec of the command line, "General"), and what lies there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tftf/plan/journal.h"
#include "tftf_native/executor.h"

namespace tftf {

inline constexpr std::string_view kPartSuffix = ".tftf-part";
inline constexpr uint64_t kMaxJournal = 256 << 20;

// The names of one run inside its folder.
struct TargetNames {
  std::vector<std::string> finals;  // of Plan::outputs()
  std::vector<std::string> sides;   // of Plan::sides()
  std::vector<std::string> copied;  // those of them that are copies of the input's
  std::string journal;
};
TargetNames target_names(const Plan& plan, const OutputTarget& target, const ExecuteOptions& options);
std::string journal_name(const OutputTarget& target);
inline std::string part_name(const std::string& final) { return final + std::string(kPartSuffix); }
inline bool is_part_name(std::string_view name) {
  return name.size() > kPartSuffix.size() && name.substr(name.size() - kPartSuffix.size()) == kPartSuffix;
}

// The folder that holds the output; "." for a bare file name.
std::string target_folder(const OutputTarget& target);

// A path without links, as far as it exists, and what would have to be made below that. kRefusedOutput when it
// cannot be (a loop of links, a link to nothing, something on the way that is no folder).
struct ResolvedFolder {
  std::string existing;
  std::vector<std::string> missing;
  std::string path() const;
};
Result<ResolvedFolder> resolve_folder(const std::string& path);

// Where a copied side file comes from.
std::string side_path(const ExecuteOptions& options, const SideOutput& side);

// A journal, when there is a whole one.
Result<std::optional<Journal>> read_journal(OutputFolder& folder, const std::string& name);

// Path rules: not an input, not in the input folder, a folder where a folder is meant. Looks at paths only.
Result<void> check_place(const OutputTarget& target, const TargetNames& names,
                         const std::vector<Fingerprint>& inputs, const ExecuteOptions& options);
// Content rules for an existing folder: empty, overwritten, or continued (`journal`).
Result<void> check_contents(OutputFolder& folder, const OutputTarget& target, const TargetNames& names,
                            bool journal, const ExecuteOptions& options);

}  // namespace tftf
