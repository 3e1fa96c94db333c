// An adapter as a whole: its tensors in memory and its configuration, whatever files they came from. What a merge
// is given (spec tftf 1.6, 2.6 to 2.8).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/peft_config.h"
#include "tftf/adapter/torch_tensor.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// A file of the tokenizer that lies beside an adapter; without `text` when it has not been asked for.
struct AdapterSideFile {
  std::string name;
  std::optional<std::string> text{};
};

struct Adapter {
  std::string given;                 // as the user named it
  std::string file;                  // what was read, for messages
  PeftConfig config;                 // present: false when there was none
  std::vector<NamedTensor> tensors;  // sorted by name, names unique
  // By tensor, when its pieces were the same on all ranks (spec tftf 2.8): one of them. Empty otherwise.
  std::vector<std::shared_ptr<const TensorData>> replicated;
  std::vector<std::string> notices;        // sentences about how it was found and read
  std::vector<AdapterSideFile> tokenizer;  // its own, by name; of an adapter that is a folder
  // Of another family than PEFT's: names, scale and layout are brought to the base's when that is known. Then `config` is
  // the default one, and these are the file's.
  bool foreign = false;
  Metadata metadata;
  std::string config_text;
  std::string fingerprint;  // hexadecimal hash of names, dtypes, shapes and bytes

  const TensorData* find(std::string_view name) const;
};

// Configuration of an adapter as text; `file` for messages.
struct AdapterConfigText {
  std::string file;
  std::string text;
};

// Puts an adapter together. Refused: a configuration that is not valid or that asks for what cannot be merged
// (peft_config.h), names of a family that cannot be brought to a base (kRefusedUnsupported), two tensors of one name, no
// tensor at all. `metadata`: of the file, where another family may have its scale. `tokenizer`: what lies beside it.
Result<std::shared_ptr<const Adapter>> make_adapter(std::string given, std::string file,
                                                    std::vector<NamedTensor> tensors,
                                                    const std::optional<AdapterConfigText>& config,
                                                    std::vector<std::string> notices, Metadata metadata = {},
                                                    std::vector<AdapterSideFile> tokenizer = {});

// Ranks of a sharded training run, in their order: each tensor is put together along `dim` (spec tftf 2.8), its name
// stripped of wrappers. Refused: a tensor that some rank lacks, other dtypes or shapes between ranks, flattened
// parameters, file names that count or number the ranks otherwise.
Result<std::shared_ptr<const Adapter>> make_sharded_adapter(std::string given, std::vector<std::string> files,
                                                            std::vector<std::vector<NamedTensor>> ranks,
                                                            uint32_t dim,
                                                            const std::optional<AdapterConfigText>& config,
                                                            std::vector<std::string> notices);

// All tensors of a checkpoint, read whole: a pump like CheckpointReader. `checkpoint` must outlive it.
class TensorLoader {
 public:
  explicit TensorLoader(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}
  // One tensor at a time; nothing when all are there.
  std::optional<ReadRequest> want() const;
  void supply(Bytes bytes);
  std::vector<NamedTensor> take() { return std::move(tensors_); }
  // Of the first file.
  Metadata metadata() const;

 private:
  const Checkpoint* checkpoint_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace tftf
