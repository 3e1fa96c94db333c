// Findings of several files, each list bounded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "container/finding_list.h"
#include "tftf/lint/linter.h"

namespace tftf {

class FileFindings {
 public:
  static constexpr uint64_t kMaxOfRule = 10'000;  // kept, in one file

  FindingList& of(const std::string& file) {
    return lists_.try_emplace(file, file, kMaxOfRule).first->second;
  }
  // Moves them to the end of a result's.
  void take(Diagnostics& findings, std::vector<OmittedFindings>& omitted) {
    for (auto& [file, list] : lists_) {
      for (const auto& [rule, count] : list.omitted()) omitted.push_back({file, rule, count});
      for (Diagnostic& finding : list.take()) findings.push_back(std::move(finding));
    }
  }

 private:
  std::map<std::string, FindingList> lists_;
};

}  // namespace tftf
