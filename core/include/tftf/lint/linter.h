// The lint runner: one PATH (a file or a folder) in, findings and facts out, as a pump without I/O (spec
// lint-rules).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/container/header.h"
#include "tftf/diagnostic/diagnostic.h"
#include "tftf/lint/colibri_check.h"
#include "tftf/lint/quant_check.h"

namespace tftf {

// A file or folder below PATH, as the host's walk reports it. Symbolic links that the walk does not follow
// (spec lint-rules 2) are left out as if absent.
struct LintEntry {
  std::string path;  // relative to PATH, '/' separators, no final '/'; the base name when PATH is a file
  bool is_folder = false;
  uint64_t size = 0;       // of a file
  std::string unreadable;  // why it cannot be read (also "not a regular file"), empty when it can
};

// What the host found at one PATH: a folder with everything below it, a file with nothing beside it, or an
// index file (is_index_name) with everything below its folder, since its shards lie there.
struct LintInput {
  std::string given;               // as the user wrote it
  std::string main;                // PATH is a file: its path in `entries`; empty for a folder
  std::vector<LintEntry> entries;  // in any order; the folder itself left out
};

// A file name (without folders) that names an index: *.safetensors.index.json,
// *.safetensors.index.VARIANT.json.
bool is_index_name(std::string_view name);

struct LintOptions {
  uint64_t max_header = kDefaultMaxHeader;
  std::optional<LintInput> base;  // --base: the model that adapters belong to
};

// Which of the two trees a request reads.
enum class LintSource : uint8_t { kInput, kBase };

struct LintRequest {
  LintSource source = LintSource::kInput;
  uint32_t entry = 0;  // position in `entries` as given
  std::string file;    // its path
  ByteRange range;
};

// A .safetensors file (or the one file PATH names), by path bytes.
struct LintedFile {
  uint32_t entry = 0;
  std::string path;
  HeaderScan scan;       // its findings moved to LintResult::findings
  bool adapter = false;  // LO007 and LO014 apply to its values
};

struct AdapterFacts {
  std::string peft_type;  // as written; "MLX" for MLX's adapters; empty without a usable configuration
  std::optional<int64_t> rank;
  std::string alpha;  // as written, empty when absent
  std::string base_model;
  uint64_t modules = 0;
};

// A folder that holds weights or any of the side files, by path bytes.
struct LintedFolder {
  std::string folder;               // "." or "SUB/"
  std::vector<std::string> shards;  // its .safetensors files, base names by bytes
  std::vector<std::string> indexes;
  std::string model_type;  // empty when config.json has none
  std::optional<AdapterFacts> adapter;
};

// An output head stored although the embeddings are tied (CF021), shapes equal: the data pass compares them
// (CF031).
struct TiedHead {
  std::string config;  // path of the config.json
  TensorPlace head;
  TensorPlace embedding;
};

// Findings of one rule and file that were counted and not kept (a hostile input could make millions).
struct OmittedFindings {
  std::string file;
  Rule rule{};
  uint64_t count = 0;
};

struct LintResult {
  Diagnostics findings;  // in the order of spec lint-rules 2; JSON files: with line and column
  std::vector<OmittedFindings> omitted;
  std::vector<LintedFile> files;
  std::vector<LintedFolder> folders;
  std::vector<TiedHead> tied_heads;
  std::vector<ColibriCheck> colibri_checks;
  std::vector<ScaleCheck> scale_checks;
  std::vector<TensorPlace> code_checks;     // F8 codes of quantised modules
  std::vector<TensorPlace> ternary_checks;  // packed ternary codes
  std::vector<ExpertStack> expert_stacks;
  std::vector<RansCheck> rans_checks;
  std::vector<colibri::RansTable> rans_tables;
  std::optional<std::string> base_problem;  // why --base cannot serve: no readable weights or index in it
};

// kRefusedMissing when there was nothing that any rule looks at: no report would be the truth, and "passed" least of all.
// `given`: the input as the user named it.
Result<void> check_linted(const LintResult& result, const std::string& given);

// The order of messages: file, offset (none first), rule id, subject (null first); stable.
void sort_findings(Diagnostics& findings);

// Runs every rule that needs no tensor data. Memory: the headers, and the side files until take() is done.
class Linter {
 public:
  Linter(LintInput input, LintOptions options);
  ~Linter();
  Linter(Linter&&) noexcept;
  Linter& operator=(Linter&&) noexcept;
  // Requests not given before, each to be answered once by supply() or fail(), in any order. More may come
  // after each answer: done when it gives nothing while none is unanswered.
  std::vector<LintRequest> want();
  // Exactly the bytes of the request's range.
  void supply(const LintRequest& request, Bytes bytes);
  // It could not be read: `reason` is an English phrase such as "permission denied".
  void fail(const LintRequest& request, std::string reason);
  // The result; call once, when done.
  LintResult take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What the data pass found in one tensor (spec lint-rules 3.9). Indexes count elements from 0; C64 elements
// count once. Fields that do not apply to a dtype stay as they are here.
struct TensorStatistics {
  uint64_t nan_count = 0;
  uint64_t first_nan = 0;
  uint64_t infinity_count = 0;
  uint64_t first_infinity = 0;
  uint64_t subnormal_count = 0;  // exponent field 0, fraction not 0
  uint64_t extreme_count = 0;    // finite |x| >= 2^64
  double largest = 0;            // largest finite magnitude
  uint64_t bool_count = 0;       // BOOL bytes other than 0 and 1
  uint64_t first_bool = 0;
  bool all_zero = false;               // every element is 0 of either sign
  bool zero_bytes = false;             // every byte is 0
  bool constant = false;               // all elements bit-identical
  uint64_t hash[2] = {};               // of the bytes: equal hashes of equal lengths count as equal bytes
  double first = 0;                    // value of element 0 (real part)
  ScaleSeen scales;                    // of a ScaleCheck
  std::vector<uint64_t> zero_experts;  // of an ExpertStack; empty when all are zero
};

// One file's data pass: `tensors` parallel to its header's; empty for files not sound. `unreadable`: why the
// reading failed.
struct FileStatistics {
  std::vector<TensorStatistics> tensors;
  std::string unreadable;
};

// The rules that need values: ST080..ST088, CF031, CF050, QT350, QT352, QT353, QT355, QT356, LO007 (alpha tensors),
// LO014, LO033; ST009 for what could not be read. `statistics` is parallel to result.files. Append them to result.findings and sort again. `omitted`, when
// given, receives what was counted and not kept.
Diagnostics check_data(const LintResult& result, const std::vector<FileStatistics>& statistics,
                       std::vector<OmittedFindings>* omitted = nullptr);

}  // namespace tftf
