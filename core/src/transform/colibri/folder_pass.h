// A pass of a tool over a folder: outputs are placed shard by shard. The tool opens an output for a source shard, says
// what each tensor becomes, and closes it; what stays empty is no output and takes no number (spec colibri 4 and 10).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tftf/quant/colibri/write_gate.h"
#include "transform/colibri/folder_source.h"
#include "transform/colibri/output_check.h"
#include "transform/pipe.h"

namespace tftf::colibri {

inline constexpr std::string_view kCompanionReason = "companion";

// "out-00003.safetensors": outputs are counted from 0 as they are emitted.
std::string numbered_name(std::string_view prefix, uint64_t number);

// `__metadata__` of an output made from `input`: every key but those under "colibri." and hashes of the data, then
// `own`; sorted by key.
Metadata shard_metadata(const Metadata& input, const Metadata& own);

struct CodeLayout {
  Format format{};
  uint32_t bits = 0;        // of codes in the int8 and int4 containers
  uint64_t group_size = 0;  // kInt4Grouped
};

class FolderPass {
 public:
  // Empties the stream: every tensor is placed by hand.
  FolderPass(FolderSource folder, transform::Stream& into, bool strict);

  const FolderSource source;
  transform::Stream& stream;

  void begin_shard(uint32_t shard);
  // The tensor's bytes as they are, as another name, dtype or shape if need be; a caller may add stages.
  transform::StreamTensor& copy(TensorRef from, OutputEntry to);
  // A matrix on its way to codes, gated, as the pair NAME and NAME.qs. `stamp`: what the reader will find.
  Result<void> encode(transform::StreamTensor matrix, const CodeLayout& layout,
                      std::optional<std::string> stamp = std::nullopt);
  // Consumed with another tensor (kCompanionReason), or left out. What is left out and is not in the output folder
  // either is still needed: its shard is no consumed one.
  void drop(TensorRef tensor, std::string_view reason);
  // A stamp of the open output (spec colibri 3.1), and a format that all declare (3.3).
  void stamp(const std::string& weight, Format format);
  void declare(Format format);
  // The write gate (spec colibri 2.4). Errors: kRefusedUnsupported for what must not be written; what a reader
  // misreads and may be written all the same becomes a warning, and so does a shape that is not the one that
  // config.json implies. Counts the pair among those that are quantised in the output.
  Result<void> check(const WrittenPair& pair);
  // Closes the output; `name` is its file's. `metadata`: in place of shard_metadata() with stamps and declaration.
  void end_shard(std::string name, std::optional<Metadata> metadata = std::nullopt);
  // A whole shard under its name, byte for byte.
  void copy_file(uint32_t shard);
  // Outputs closed so far.
  uint64_t emitted() const { return placed_.files.size(); }

  // A file of the source to copy beside the outputs; false when it is not there. kRefusedMissing when it is `required`
  // then, kIoRead when it cannot be read.
  Result<bool> side(std::string_view name, bool required);
  // One warning of all that are not there.
  Result<void> wanted_sides(std::span<const std::string_view> names);
  void warn(std::string sentence) { stream.warnings.push_back(std::move(sentence)); }
  void note(std::string sentence) { placed_.notes.push_back(std::move(sentence)); }

  // What has no call of its own here.
  transform::Placement& placed() { return placed_; }

  // Checks the outputs against what the output folder holds, and hands all to the stream.
  Result<void> finish();
  // Without the check.
  void hand_over();

 private:
  void warn_of_missing_shards();
  void warn_of_other_converters();

  bool strict_;
  transform::Placement placed_;
  std::vector<PlannedFile> files_;  // as placed_.files
  uint32_t shard_ = 0;              // open
  size_t begin_ = 0;                // of its tensors
  std::map<std::string, std::string, std::less<>> stamps_;
  std::set<std::string> declared_;
  std::unordered_set<std::string_view> existing_;  // names in the output folder
};

class FolderTool : public transform::Pipe {
 public:
  explicit FolderTool(bool strict) : strict_(strict) {}
  Result<void> apply(transform::Stream& stream) const final;

 private:
  // Places what becomes of the source, to its finish().
  virtual Result<void> place(FolderPass& pass) const = 0;

  bool strict_;
};

}  // namespace tftf::colibri
