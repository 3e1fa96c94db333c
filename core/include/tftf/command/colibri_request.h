// What command lines of `tftf colibri` ask of the core: converters of folders, and answers about names and byte counts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/command/command_line.h"
#include "tftf/transform/colibri/folder_tools.h"

namespace tftf::colibri {

// The converter that a checked line of convert, repack-fp8, fmt4-to-fmt2 or rans-repack means.
std::shared_ptr<const transform::Pipe> folder_tool(const CommandLine& line);

// A document to print, and the sentence of a refusal.
struct Answer {
  OrderedJson document;
  std::optional<std::string> refusal{};  // for a warning: "a reader refuses …"
};

// Longest file of a batch.
inline constexpr uint64_t kMaxBatchFile = uint64_t{256} << 20;
// The document of such a file, RFC 8259. kRefusedInput when it is none.
Result<JsonValue> read_batch(std::string_view text, const std::string& file);

// One pair of `resolve`, from the line's options.
Answer resolve_pair(const CommandLine& line);
// `file`: where `rows` was read, for errors. kRefusedInput for what is no array of pairs.
Result<OrderedJson> resolve_batch(const JsonValue& rows, const std::string& file);
// kRefusedInput for what is no array of [name, layers, mtp, indexer].
Result<OrderedJson> classify_batch(const JsonValue& rows, const std::string& file);
// What the stamps of a checkpoint read by kInspect claim of `names`. kRefusedInput when a header cannot be read.
Result<Answer> query_stamps(const Checkpoint& checkpoint, const std::string& path,
                            const std::vector<std::string>& names);

}  // namespace tftf::colibri
