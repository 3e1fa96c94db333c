// A checkpoint for JavaScript: the reader's pump, what the headers tell, the inspector's pump.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "border.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/inspect/info.h"
#include "tftf/transform/planner.h"

namespace tftf::wasm {

class Model {
 public:
  explicit Model(Checkpoint checkpoint) : checkpoint_(std::make_shared<Checkpoint>(std::move(checkpoint))) {}

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Once, before anything is planned with it: what operations take from others becomes part of it.
  void join(std::span<const Operation> operations) { join_others(*checkpoint_, operations); }
  // Its checkpoint goes elsewhere; nothing else may be asked of it then.
  Checkpoint release() { return std::move(*checkpoint_); }
  // For what may outlive the model: JavaScript closes it whenever it likes.
  std::shared_ptr<const Checkpoint> shared() const { return checkpoint_; }

  // The inspector's reads; after they are answered, info.
  std::string want();
  void supply(uint32_t id, uintptr_t data, uint32_t length);
  void fail(uint32_t id, const std::string& reason);
  // The error of a model that holds nothing to look at; empty when it does.
  std::string refusal() const;
  // Why a model whose info is complete is broken; empty when it is not.
  std::string broken();
  std::string info(const std::string& filter);
  // {"names", "file", "dtype", …}: the rows of info as columns, see TensorTable in src/checkpoint.ts.
  std::string table();
  std::string info_text(const std::string& options);
  std::string adapter_info(bool text);
  std::string no_adapter();
  bool matches(const std::string& filter);
  std::string operations() const;
  // [{"name", "text"}]
  std::string side_files() const;
  // {"name", "dtype", "shape", "bits", "file", "offset", "bytes"} of a row of info.
  std::string tensor(uint32_t row);
  // kUsage when there is none.
  TensorRef tensor_ref(uint32_t row);
  // kRefusedMissing when there is none.
  TensorRef tensor_named(const std::string& name) const;

 private:
  const ModelInfo& inspected();

  std::shared_ptr<Checkpoint> checkpoint_;
  std::optional<Inspector> inspector_;
  Requests<ReadRequest> requests_;
  std::optional<ModelInfo> info_;
};

class ModelReader {
 public:
  ModelReader(ModelListing listing, ReaderOptions options) : reader_(std::move(listing), options) {}

  std::string want_files();                                          // ["NAME"]
  void add_file(const std::string& name, const std::string& entry);  // entry: JSON, empty: there is none
  std::string want();                                                // [{"file", "offset", "length", "id"}]
  void supply(uint32_t id, uintptr_t data, uint32_t length);
  void fail(uint32_t id, const std::string& reason);
  bool done() const { return reader_.done(); }
  Model* take();

 private:
  CheckpointReader reader_;
  Requests<ReadRequest> requests_;
};

// {"path", "folder", "size", "unreadable"}, as a source lists it.
FileEntry file_entry(const JsonValue& value);

}  // namespace tftf::wasm
