// The journal beside an output: which command made it from which inputs, and what is finished, so that the
// same command run again continues. Lines of JSON, only ever appended to; the host appends and syncs, the
// format is here.
//
//   {"tftf_journal":1,"plan":"SHA-256","tile":1048576,"inputs":[{"path","size","mtime_ns","header_sha256"}],
//    "outputs":[{"name","size"}]}          first line; outputs null while a later phase lays them out, then
//   {"outputs":[{"name","size"}]}          a line of their own
//   {"phase":1,"done":[[output,begin,end],…],"values":[[index,n0,n1,n2,n3,"x0","x1"],…]}
//   {"phase":0,"result":[[index,…],…]}     all values of a finished phase that are not zero
//   {"out":0,"renamed":true}
//
// One flush is one line: a line torn by a crash loses ranges and the values that belong to them together. x
// is the double's bits in 16 hexadecimal digits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/plan/plan.h"
#include "tftf/plan/ranges.h"

namespace tftf {

struct JournalInput {
  std::string path{};
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  std::string header_sha256{};
  bool operator==(const JournalInput&) const = default;
};

struct JournalOutput {
  std::string name{};
  uint64_t size = 0;
  bool operator==(const JournalOutput&) const = default;
};

struct JournalHead {
  std::string plan{};  // Plan::hash()
  uint64_t tile = 0;   // Plan::tile_bytes(): results of phases belong to it
  std::vector<JournalInput> inputs{};
  std::optional<std::vector<JournalOutput>> outputs{};
};

// What was finished since the last flush.
struct JournalBatch {
  size_t phase = 0;
  std::map<uint32_t, RangeSet> done{};  // by output
  std::map<uint64_t, Value> values{};   // by index in the phase, zero ones left out
  bool empty() const { return done.empty() && values.empty(); }
};

struct Journal {
  JournalHead head{};
  std::vector<RangeSet> done{};  // by output, as long as the last output that has any
  std::vector<bool> renamed{};   // by output, likewise
  // Values of finished phases, zero ones left out, and of the finished steps of the phase that was running
  // (the same index may come several times: Plan::merge_values()).
  std::map<size_t, std::vector<std::pair<uint64_t, Value>>> results{};
  std::map<size_t, std::vector<std::pair<uint64_t, Value>>> partial{};
  uint64_t length = 0;  // bytes of its whole lines: what follows is torn and must be cut off before appending

  bool was_done(const Extent& out) const;
};

// Each ends in a newline.
std::string journal_head_line(const JournalHead& head);
std::string journal_outputs_line(const std::vector<JournalOutput>& outputs);
std::string journal_batch_line(const JournalBatch& batch);
std::string journal_result_line(size_t phase, std::span<const Value> values);
std::string journal_renamed_line(uint32_t output);

// Nothing when not even the first line is whole (a run that ended before it wrote anything). A torn or
// malformed line and all after it are ignored: a crash may leave such lines, and what stands before them is a
// state of its own. Another version of the format is kRefusedJournal naming `file`.
Result<std::optional<Journal>> parse_journal(std::string_view text, const std::string& file);

// Names and sizes of a plan's outputs; nothing while there are none or one has no layout.
std::optional<std::vector<JournalOutput>> journal_outputs(const Plan& plan);
// What the head of this plan's journal is.
JournalHead journal_head(const Plan& plan, std::vector<JournalInput> inputs);

// May `plan`, over inputs as they are `now`, continue what the journal says? kRefusedJournal with the reason
// (a changed input by name, another command, other tiles), each naming --no-resume.
Result<void> check_journal(const Journal& journal, const JournalHead& now, const std::string& file);

// Checks results, partial values and ranges against the plan once its outputs are known as far as the journal
// knows them: indices, sizes, names.
Result<void> check_journal_state(const Journal& journal, const Plan& plan, const std::string& file);

}  // namespace tftf
