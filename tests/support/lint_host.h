// A host of the lint runner whose files are in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tftf/lint/linter.h"

namespace tftf::test {

// Content by path relative to PATH.
using MemoryFiles = std::map<std::string, std::string>;

// A folder of these files. With `main`: that file as PATH (and what the host lists beside it).
LintInput lint_input(const MemoryFiles& files, std::string main = {});

// Runs to the end, answering requests in reverse order: no rule may depend on it.
LintResult run_lint(const MemoryFiles& files, std::string main = {}, const MemoryFiles* base = nullptr);

// Statistics of every sound file, element by element.
std::vector<FileStatistics> data_statistics(const LintResult& result, const MemoryFiles& files);

// "IX011 model.safetensors.index.json a.safetensors", "CF002 . -", … in the order of the findings; rules of
// the families in `prefixes` only ("IX", "LO", …; all when empty).
std::vector<std::string> finding_lines(const Diagnostics& findings,
                                       const std::vector<std::string>& prefixes = {});

// One tensor of a file to be made.
struct LintTensor {
  std::string name;
  std::string dtype = "F32";
  std::vector<uint64_t> shape = {};
  std::string data = {};  // zeros when empty
};
// A sound file, tensors in the order given.
std::string weights(const std::vector<LintTensor>& tensors,
                    const std::string& metadata = R"({"format":"pt"})");

}  // namespace tftf::test
