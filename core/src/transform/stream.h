// The tensors on their way through the pipes of a command, as declared by headers: the first of two passes
// (spec tftf 2.1).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gather.h"
#include "placement.h"
#include "plane_ops.h"
#include "stage.h"
#include "tftf/adapter/recipe.h"
#include "tftf/checkpoint/small_values.h"
#include "tftf/checkpoint/value_scans.h"
#include "tftf/quant/format.h"
#include "tftf/transform/account.h"

namespace tftf::transform {

// A value that few tensors of half a million have: a pointer for all others.
template <class T>
class Seldom {
 public:
  Seldom() = default;
  Seldom(const Seldom& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Seldom(Seldom&&) noexcept = default;
  Seldom& operator=(Seldom&&) noexcept = default;
  Seldom& operator=(const Seldom& other) { return *this = Seldom(other); }
  Seldom& operator=(T value) {
    value_ = std::make_unique<T>(std::move(value));
    return *this;
  }
  Seldom& operator=(std::optional<T> value) {
    value_ = value ? std::make_unique<T>(*std::move(value)) : nullptr;
    return *this;
  }
  void reset() { value_.reset(); }
  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }

 private:
  std::unique_ptr<T> value_;
};

struct StreamTensor {
  std::string name{};  // as the pipes so far have made it
  DType dtype{};
  // Small members stand together: a model has hundreds of thousands of these.
  bool moved_codes =
      false;           // put together from parts of tensors that are codes or scales of a quantised module
  bool added = false;  // there is nothing stored that it replaces; `source` is any tensor
  bool left_alone = false;  // a plain weight that has come into a quantised model
  // Codes and scales that one encoding stage writes have a number in common (0: none); the tensor of output 0 has the
  // stages, the others none.
  uint32_t bundle = 0;
  uint8_t output = 0;
  uint8_t outputs = 1;  // of the stage
  Shape shape{};
  TensorRef source{};           // what is stored; its name is the one for messages
  std::vector<Stage> stages{};  // empty: copied byte for byte
  // Stands for the stored data from here on: a tensor that an adapter has saved whole. Then `stages` are those since.
  std::shared_ptr<const TensorData> provided{};
  // Likewise, put together from parts of tensors; `source` is the first of them.
  std::shared_ptr<const Gather> gather{};
  // What config.json's lists call it, when it was renamed since they were rewritten.
  Seldom<std::string> listed_name{};
  Seldom<std::string> literal{};  // its bytes, made while planning; then there are no stages
  Seldom<uint64_t>
      measured{};  // its bytes are measured: from here on in what the encoder of the bundle found

  // Of a repacked module: values of the stored tensor in another form, or words made by counting. Then there are no stages.
  std::shared_ptr<const PlaneChange> plane{};
  Seldom<CodePlane::Words> words{};
  // Put together from stored tensors; `source` is one of them. Then there are no stages.
  std::shared_ptr<const AdapterRecipe> recipe{};

  bool is_copy() const { return stages.empty() && gather == nullptr && is_single(); }
  // One tensor of the result by itself, and no codes that stand for one.
  bool is_single() const {
    return bundle == 0 && output == 0 && !literal && !measured && plane == nullptr && !words &&
           recipe == nullptr;
  }
};

struct Dropped {
  std::string name;
  std::string reason;  // "companion", "filter", …
};

// A model that operations take tensors from.
struct OtherSource {
  const OtherModel* model = nullptr;
  const LayoutReport* layouts = nullptr;  // its shards numbered as in the stream's checkpoint
};

struct Stream {
  const Checkpoint* checkpoint = nullptr;
  SmallValues* values = nullptr;
  const LayoutReport* layouts = nullptr;              // of the checkpoint, and of what was taken from others
  std::shared_ptr<const LayoutReport> own_layouts{};  // them, when something was taken
  std::vector<OtherSource> others{};                  // as the checkpoint has them
  // Whose configuration and files beside the tensors count: the checkpoint itself, or one of the others.
  const Checkpoint* home = nullptr;
  ValueScans* scans = nullptr;
  const TransformRequest* request = nullptr;
  std::vector<StreamTensor> tensors;
  std::vector<Dropped> dropped;
  std::vector<std::string> warnings;
  // Scales that divide: zero or not finite is refused once the data are seen.
  std::vector<TensorRef> divisors;
  // Planes whose values may have no place in what they are repacked to.
  std::vector<std::shared_ptr<const PlaneCheck>> checks{};
  // The dtype that the last dequantisation or cast announces, for config.json.
  std::optional<DType> result_dtype;
  std::vector<Account::Merge> merges{};
  std::optional<Account::Converted> converted{};
  uint64_t held_bytes = 0;              // of adapters, which stay in memory
  std::shared_ptr<OpenContext> open{};  // for opening the checkpoint's modules
  bool dequantises = false;             // a pipe makes plain floats of quantised layouts
  bool adds_format = false;             // `format` is added to the metadata of a single file, too
  uint32_t bundles = 0;                 // numbers given so far
  // Metadata that the result gets instead of the input's of these keys; empty: the key goes.
  std::map<std::string, std::string> metadata{};
  // What config.json says of the result's layout: a JSON object; empty: nothing new.
  std::string quantization_config{};
  bool section_goes = false;   // what it says of the input's layouts goes
  bool renamed = false;        // since config.json's lists were last rewritten
  bool lists_current = false;  // they have been, in this run
  bool relaid = false;         // names or forms were brought into another layout
  // config.json as a pipe has rewritten it, and what that changed.
  struct Config {
    std::string text{};
    JsonDocument document{};
    std::vector<ConfigChange> changes{};
  };
  std::shared_ptr<const Config> rewritten{};
  std::vector<std::string_view> sides_left{};  // files of the input that say nothing of the result
  std::optional<Account::LayoutChange> layout_change{};
  // Members of config.json that follow the tensors: their path, and the value as JSON.
  std::vector<std::pair<std::vector<std::string>, std::string>> config_members{};
  std::optional<Placement> placement{};  // nothing: packed into shards
  // Files that go along from another place than the input's folder: their name, and the name that the host knows.
  std::vector<std::pair<std::string, std::string>> more_sides{};
  // Files that stand for the input's of the same name, or beside them: name and text.
  std::vector<std::pair<std::string, std::string>> made_sides{};
  std::vector<std::string> sides_replaced{};  // files of the input that go for their sake
  std::vector<Account::Graft> grafts{};
  // Where a quantised model's configuration lists what is left alone: the file, and the way to the list in it. Modules of
  // tensors that are `left_alone` are added there.
  std::vector<std::pair<std::string, std::vector<std::string>>> plain_lists{};

  // The name and file in the input, quoted for messages.
  std::string described(const StreamTensor& tensor) const;
  // The home's config.json as the pipes so far leave it: its root, or nothing.
  const JsonValue* config() const;
  void rewrite_config(ConfigText config);
  void rename(StreamTensor& tensor, std::string name);
  const std::string& file_of(TensorRef ref) const { return checkpoint->shard(ref.shard).name; }
};

// Tensors in reading order; those of the shards that the index does not name are dropped ("not in the index").
Stream open_stream(const Checkpoint& checkpoint, SmallValues& values, const LayoutReport& layouts,
                   const TransformRequest& request);
// The tensors of others[number] as a stream of their own, with its configuration; what becomes of them may be put into
// `stream`: shards are numbered alike.
Stream open_other(const Stream& stream, size_t number);
// Numbers the shards of a report from `first_shard` on.
void renumber(LayoutReport& report, uint32_t first_shard);

}  // namespace tftf::transform
