// Plans outputs shard by shard: a tool opens an output for a source shard, says what each tensor becomes, and
// closes it; what stays empty is no output and takes no number.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/container/header.h"
#include "tftf/plan/plan.h"
#include "tftf/quant/colibri/write_gate.h"
#include "transform/colibri/folder_tool.h"
#include "transform/colibri/output_check.h"

namespace tftf::colibri {

// "out-00003.safetensors": outputs are counted from 0 as they are emitted.
std::string numbered_name(std::string_view prefix, uint64_t number);

// `__metadata__` of an output made from `input`: every key but those under "colibri." and hashes of the data, then
// `own`; sorted by key.
Metadata shard_metadata(const Metadata& input, const Metadata& own);

// What makes one tensor of an output, or several that the same steps write.
struct MadeTensors {
  std::vector<OutputEntry> tensors{};  // at most three, in the order of Item::out
  std::vector<TensorRef> from{};       // read by the steps, the data first
  std::string word{};                  // in the plan's text: "cast float32"
  // Gives the items: `from` and `to` are the whole extents, in the orders above. Items carry no entry yet.
  std::function<std::vector<Item>(std::span<const Extent> from, std::span<const Extent> to)> items{};
  // Looks at the merged value of each item after the run; may refuse. Null: nothing to see.
  std::function<Result<void>(const Value& value)> check{};
};

class ShardPlanner {
 public:
  // `work`: the plan's first line, with every option that decides about the output.
  ShardPlanner(const FolderContext& context, std::string work);
  ~ShardPlanner();
  ShardPlanner(const ShardPlanner&) = delete;
  ShardPlanner& operator=(const ShardPlanner&) = delete;

  // Opens an output for a source shard.
  void begin_shard(uint32_t shard);
  // The tensor's bytes as they are, under another name, dtype or shape if need be.
  void copy(TensorRef from, OutputEntry to);
  void literal(OutputEntry to, std::string bytes);
  void make(MadeTensors made);
  // Consumed with another tensor ("companion"), or left out; `reason` for the account.
  void drop(TensorRef tensor, std::string reason);
  // A stamp of the open output (spec colibri 3.1), and a declared format (3.3).
  void stamp(const std::string& weight, Format format);
  void declare(Format format);
  // `__metadata__` of the open output in place of shard_metadata() with the stamps and the declaration.
  void metadata(Metadata all);
  // The write gate (spec colibri 2.4). Errors: kRefusedUnsupported for what must not be written; what a reader
  // misreads and may be written all the same becomes a warning, and so does a shape that is not the one that
  // config.json implies. Counts the pair among those that are quantised in the output.
  Result<void> check(const WrittenPair& pair);
  // Closes the output; `name` is its file's. False when it holds nothing and is no output.
  bool end_shard(std::string name);
  // A whole shard under another name, byte for byte.
  void copy_file(uint32_t shard, std::string name);
  // Outputs closed so far.
  uint64_t emitted() const;

  // A file of the source to copy beside the outputs. kRefusedMissing when it is not there and `required`.
  Result<bool> side(std::string_view name, bool required);
  // Made by the tool.
  void side_text(std::string name, std::string text);
  void warn(std::string sentence);
  void note(std::string sentence);

  // Lays out, checks against the output folder, builds. Warnings of detection and the account are filled in.
  Result<FolderPlan> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf::colibri
