// Adapters for JavaScript: the search and the reads are pumps, what comes of them is kept by number for plans.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "border.h"
#include "model.h"
#include "tftf/adapter/adapter.h"
#include "tftf/adapter/adapter_search.h"
#include "tftf/adapter/dcp.h"

namespace tftf::wasm {

class AdapterLoad {
 public:
  explicit AdapterLoad(AdapterSearch search) : search_(std::move(search)) {}

  // {"path", "entries"}; empty when the search has ended.
  std::string ask();
  // [entries]
  void answer(const std::string& entries);
  // {"distributed", "path", "file", "config", "configFile", "notices", "tokenizer": [path]}
  std::string found();

  // The tensors of a file, which must outlive the reads, or of the distributed checkpoint that was found.
  void begin(const Model& model);
  void begin_distributed();
  std::string want();
  void supply(uint32_t id, uintptr_t data, uint32_t length);
  void fail(uint32_t id, const std::string& reason);
  // All tensors of a begun file are there: those of one rank, or of the adapter.
  void end();
  // Instead of begin() to end(): a file that torch.save has written, whole.
  void archive(uintptr_t data, uint32_t length);
  // Before make(); `file`: in the user's words.
  void configure(const std::string& file, uintptr_t text, uint32_t length);
  // Likewise: a file of its tokenizer, and its text when it has been `read`.
  void tokenizer_file(const std::string& name, bool read, uintptr_t text, uint32_t length);
  // {"given", "files", "shardDim" or null, "notices"}
  void make(const std::string& request);
  // After make(): the adapter as one safetensors file, in pieces that lie here as long as this does, and what else belongs
  // to it. {"pieces": [[address, length]], "config" (text) or null, "notices"}
  std::string content();

  const std::shared_ptr<const Adapter>& adapter() const { return adapter_; }

 private:
  AdapterSearch search_;
  std::optional<AdapterSearch::Question> question_;
  std::vector<FileEntry> files_;
  std::optional<TensorLoader> loader_;
  std::optional<DcpReader> distributed_;
  Requests<ReadRequest> requests_;
  std::vector<std::vector<NamedTensor>> ranks_;
  std::optional<AdapterConfigText> config_;
  std::vector<AdapterSideFile> tokenizer_;
  Metadata metadata_;
  std::shared_ptr<const Adapter> adapter_;
  std::string header_;
};

// The adapters and other models of a plan's operations, each by number.
class AdapterList {
 public:
  uint32_t add(const AdapterLoad& load);
  const std::shared_ptr<const Adapter>& at(uint64_t number) const;
  // `model` is empty then. `place` and `folder` ([entries]) as other_model() takes them.
  uint32_t add_model(Model& model, const std::string& place, const std::string& folder);
  const std::shared_ptr<const OtherModel>& model_at(uint64_t number) const;
  // Files that options of operations name, whole.
  uint32_t add_file(uintptr_t data, uint32_t length);
  const std::shared_ptr<const std::string>& file_at(uint64_t number) const;

 private:
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  std::vector<std::shared_ptr<const OtherModel>> models_;
  std::vector<std::shared_ptr<const std::string>> files_;
};

}  // namespace tftf::wasm
