// What can be done with a checkpoint, as one table: command line options and their help, the chains of `run`,
// docs/cli.md and the forms of the page are made from it (docs/architecture.md, "One source for all hosts").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/adapter/adapter.h"
#include "tftf/base/json_text.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

namespace transform {
class Pipe;
}

enum class OptionKind : uint8_t {
  kFlag,     // no value
  kChoice,   // one of `choices`
  kInteger,  // a positive whole number
  kSize,     // bytes, with or without a suffix (base/size_text.h)
  kGlob,     // base/glob.h
  kRule,     // two values: pattern and replacement (base/regex.h)
  kText,
  kNumber,  // finite, as Python's float() reads it
  kPath,    // a file or folder that the host reads
};
// "flag", "choice", "integer", "size", "glob", "rule", "text", "number", "path".
std::string_view option_kind_name(OptionKind kind);

struct OptionInfo {
  std::string_view name;  // "block-size", without dashes
  OptionKind kind = OptionKind::kText;
  std::string_view fallback{};  // what is taken when it is not given, empty: nothing, or decided by the input
  std::span<const std::string_view> choices{};
  std::string_view unit{};
  std::string_view help{};
  bool required = false;
  bool repeatable = false;
  bool or_all = false;    // of kInteger: -1 and 0 are taken, too, for "all of them"
  bool ignored = false;   // taken for the original's sake, without effect; no form shows it
  bool contents = false;  // names a file that the host reads whole (files_of)
  uint32_t values() const { return kind == OptionKind::kFlag ? 0 : kind == OptionKind::kRule ? 2 : 1; }
};

// A second model that an operation takes tensors from, read by the host.
struct OtherModel {
  std::shared_ptr<const Checkpoint> checkpoint;  // its shards have `place` before their names
  std::string given;                             // as the user wrote it
  std::string place;  // what the host finds its files by: ends in "//", as no name of a model's file does
  std::vector<FileEntry> folder{};  // the entries of its folder
};
// `place`: a word of the host for the model's folder, without the final "//".
std::shared_ptr<const OtherModel> other_model(Checkpoint checkpoint, const std::string& place,
                                              std::vector<FileEntry> folder);

// One operation of a command line or a form: options by name with their values as text.
struct Operation {
  std::string id;
  struct Given {
    std::string name;
    std::vector<std::string> values;  // OptionInfo::values() of them
  };
  std::vector<Given> options{};  // in the order given
  // What the options of `contents` name, by option; read by the host.
  std::map<std::string, std::shared_ptr<const std::string>> files{};
  std::shared_ptr<const Adapter> adapter{};   // merge-lora: what its options name, read by the host
  std::shared_ptr<const OtherModel> other{};  // graft: likewise

  // The last values of that name, or nothing.
  const std::vector<std::string>* find(std::string_view name) const;
};

// A file that a host has to read into Operation::files before the operation is planned.
struct OperationFile {
  std::string option;
  std::string path;
};
// Those that are not there yet. A word that stands for something of ours (a preset) is no file.
std::vector<OperationFile> files_of(const Operation& operation);

// merge-lora: the adapter is to be read with its tokenizer.
bool takes_tokenizer(const Operation& operation);

struct OperationInfo {
  std::string_view id;         // "dequant-fp8"
  std::string_view title;      // "Dequantise FP8"
  std::string_view summary;    // one line
  std::string_view activator;  // its section in a chain of `run`: "--dequant-fp8"; empty: not part of chains
  std::string_view bare;       // the option that bare values of the section go to
  std::span<const OptionInfo> options;
  std::string_view layouts;  // what it needs in the input, words; empty: anything
  std::string_view writes;   // what it leaves in the output, words
  std::string_view other{};  // the option that names a second model; empty: it needs none
  // Why it would do nothing or be refused on this checkpoint, one sentence; empty: it is applicable.
  std::string (*obstacle)(const Checkpoint& checkpoint);
  // Null: an operation of the output alone (reshard).
  Result<std::unique_ptr<transform::Pipe>> (*make)(const Operation& operation);

  const OptionInfo* option(std::string_view name) const;
};

// A number of a command line: digits with a point, an exponent, a sign. Nothing for anything else, NaN and infinity.
std::optional<double> parse_number(std::string_view text);

// All operations, in the order in which help and forms show them.
std::span<const OperationInfo> all_operations();
const OperationInfo* find_operation(std::string_view id);

// The choice that a word means, whatever its case; dtypes have short names too: "bf16", "fp16", "F32". Nothing when it is
// none of them.
std::optional<std::string_view> find_choice(const OptionInfo& option, std::string_view word);
// Puts the choices of the table in place of the words that mean them; others stay, and are refused by what checks.
void spell_out_choices(Operation& operation);

// Names, numbers of values, required ones, choices (ASCII case ignored), integers, globs and patterns.
// Errors: kUsage, naming option and value.
Result<void> check_operation(const Operation& operation);
// The same of what is given; required options may still come.
Result<void> check_options(const Operation& operation);

// The table as JSON: [{"id", "title", "summary", "options": [{"name", "kind", "default", "choices", "unit",
// "help", "required", "repeatable"}], "layouts", "writes", "applicable", "reason"}]; without a checkpoint
// `applicable` and `reason` are null.
OrderedJson operations_json(const Checkpoint* checkpoint);

// The operation that begins with this word in a chain; null: none does.
const OperationInfo* find_activator(std::string_view word);

// The chain of `run` (spec tftf 1.4): sections of an activator and its arguments. Values are checked too, and an option is
// given once unless it may be repeated. Errors: kUsage; an option of another operation is said to be one.
Result<std::vector<Operation>> parse_chain(std::span<const std::string> tokens);

}  // namespace tftf
