// config.json against the stored tensors: the CF rules of one folder (spec lint-rules 5 and 7).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/json_value.h"
#include "tftf/container/header.h"
#include "tftf/quant/config.h"

namespace tftf {

// A tensor of the folder's checked files. The views and pointers of this header live as long as the caller's
// headers and texts.
struct ConfigTensor {
  std::string_view name;
  DType dtype{};
  const Shape* shape = nullptr;
  uint64_t bytes = 0;
};

// A checked weight file whose header could be read.
struct ConfigWeightFile {
  std::string path;           // relative to the linted PATH
  bool has_metadata = false;  // `__metadata__` is an object
  std::optional<std::string_view> format;
};

// A folder as the CF rules see it. "Checked" files: the shards that the index
// (`model.safetensors.index.json`, else the first usable one) names, without one all .safetensors files but
// `consolidated*`.
struct ConfigInput {
  bool is_colibri = false;  // containers that transformers does not read, whatever their metadata
  std::string folder;       // "" for the linted folder itself, else "SUB/": `file` is this + "config.json"
  // config.json; nothing when the folder has none, and then `unreadable` is why it could not be read, if so.
  std::optional<std::string_view> config_text;
  // parse_json(config_text, kPython), the one that `quant` was read from; null: it is parsed here
  const JsonDocument* config = nullptr;
  std::string unreadable;
  std::optional<std::string_view> tokenizer_text;  // tokenizer.json

  bool adapter_folder = false;   // adapter_config.json or adapter_model.safetensors: no CF rule runs
  bool has_model_index = false;  // model_index.json
  bool has_model_file = false;   // a file model*.safetensors, checked or not
  bool has_checked_file =
      false;                // at least one checked file exists (readable or not) or is named by the index
  bool incomplete = false;  // a checked file is missing, unreadable, broken or unsafely named
  bool unsound = false;     // or has an error of its own (bytes cut off …)

  // What `config` and the files beside it say about quantisation; null: `config_text` alone is asked.
  const QuantConfig* quant = nullptr;
  bool has_sentence_files = false;  // modules.json or config_sentence_transformers.json: an embedding model
  std::span<const std::string_view> other_names;  // of tensors in files that the index leaves out

  std::span<const ConfigWeightFile> files;
  std::span<const ConfigTensor> tensors;  // of all checked files, any order; equal names: the last counts
};

// An output head stored although the embeddings are tied (CF021), shapes equal: positions in
// ConfigInput::tensors. The data pass compares their bytes (CF031).
struct TiedTensors {
  size_t head = 0;
  size_t embedding = 0;
};

// All findings of the CF rules but CF031, unordered. `tied`, when given, receives the pair to compare. Time
// is linear in the number of tensors, whatever the configuration declares.
Diagnostics check_config(const ConfigInput& input, std::optional<TiedTensors>* tied = nullptr);

// The finding CF031 for `config` (path of the config.json).
Diagnostic tied_head_differs(std::string config, std::string_view head, std::string_view embedding);

// The model types that have a family table, in the order of the specification.
std::vector<std::string_view> config_families();

}  // namespace tftf
