// The checks of quantised layouts over all checkpoints of a tree: a pump that reads the few values that decide.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/layout/checkpoint_view.h"
#include "lint/layout/scale_reads.h"
#include "tftf/checkpoint/small_values.h"
#include "tftf/lint/linter.h"

namespace tftf {

class LayoutChecks {
 public:
  // The tree was read. Its headers are lent to this until finish().
  explicit LayoutChecks(Tree& tree);
  ~LayoutChecks();

  // JSON values of configurations that are kept at a time. What lies in folders beyond is not checked for its layouts.
  static constexpr uint64_t kMostValues = 4'000'000;

  // Linter's pump, but want() only while nothing is unanswered.
  std::vector<LintRequest> want();
  void supply(const LintRequest& request, Bytes bytes);
  void fail(const LintRequest& request);
  // Judges what was read, and gives the headers back.
  void finish();

  // After finish(). What the configuration files of a folder say; null when it has no config.json that could be read.
  // Pointers live as long as this.
  struct Configuration {
    const JsonDocument* document = nullptr;
    QuantConfig quant;
  };
  const Configuration* configuration(uint32_t folder) const;
  // Moves findings and checks into the result. `weight_number`: a file of the tree as a position in its files.
  void take(LintResult& result, const std::function<uint32_t(const TreeFile&)>& weight_number);

 private:
  struct Unit;
  void add_folder(uint32_t number, std::vector<bool>& claimed);
  void add_alone(uint32_t file);
  void judge(Unit& unit);

  Unit& add(std::vector<uint32_t> files, const TreeFolder* folder);

  Tree& tree_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<uint32_t, std::pair<Unit*, uint32_t>> by_entry_;  // of a lent file: its unit and shard
  uint64_t values_left_ = kMostValues;
  std::vector<const Configuration*> by_folder_;
  FileFindings findings_;
  LintResult checks_;  // places hold numbers of the tree's files until take()
};

}  // namespace tftf
