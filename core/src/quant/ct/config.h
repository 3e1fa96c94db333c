// The configuration of compressed-tensors: groups of modules with their arguments (spec compressed-tensors 1.2 to 1.6).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/dtype.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf::ct {

enum class Strategy : uint8_t { kTensor, kChannel, kGroup, kBlock, kToken, kTensorGroup, kHead };
std::string_view strategy_name(Strategy strategy);

enum class ActOrder : uint8_t { kNone, kGroup, kWeight };

// How weights, or activations, are quantised.
struct Args {
  uint64_t bits = 8;
  bool is_float = false;
  bool symmetric = true;
  Strategy strategy = Strategy::kTensor;
  int64_t group_size = 0;  // 0: none given
  uint64_t block[2] = {};
  bool dynamic = false;  // "local" too
  ActOrder actorder = ActOrder::kNone;
  std::optional<DType> scale_dtype{};
  // What only a written configuration shows.
  bool local = false;        // dynamic "local"
  bool group_given = false;  // group_size has a value
  std::optional<DType> zp_dtype{};
  std::string actorder_word{};            // as given; empty: null
  std::optional<std::string> observer{};  // nothing: null
  std::string observer_kwargs = "{}";     // JSON
  bool grouped() const { return strategy == Strategy::kGroup || strategy == Strategy::kTensorGroup; }
};

// "4-bit int, group 32, asymmetric".
std::string args_text(const Args& args);

struct Group {
  std::string name;
  std::vector<std::string> targets{};
  std::optional<Args> weights{}, inputs{}, outputs{};
  std::string format{};  // its own, else the one that its arguments stand for
  bool format_given = false;
};

struct Config {
  std::vector<Group> groups{};
  std::vector<std::string> ignore{};
  std::string format{};
  std::optional<uint64_t> version{};  // major * 10^6 + minor * 10^3 + patch
  std::string version_text{};
  std::string status = "initialized";
  std::string method = "compressed-tensors";
  std::optional<Args> cache{};             // kv_cache_scheme
  std::string compression_ratio = "null";  // JSON
};

// What codes of so many bits are stored as: F8_E4M3, I8, I16 or I32.
DType storage_dtype(const Args& args);
// Arguments as pydantic reads them; the error's message continues "config_groups.NAME.weights ".
Result<Args> parse_args(const JsonValue& value);
// The scheme of a preset's name, in any case, without targets; nothing for an unknown one. (presets.cpp)
std::optional<Group> find_preset(std::string_view name);
std::vector<std::string_view> preset_names();
// `section`: the object with config_groups. The error's message is a sentence that names the field.
Result<Config> parse_config(const JsonValue& section);
// As the library writes it: every field with its value, null where it has none, keys in order (config_text.cpp). Formats of
// groups only where they are given; nothing beside the fields of the quantisation itself.
OrderedJson config_json(const Config& config);
OrderedJson args_json(const Args& args);
// transform_config: kRefusedConfig naming the field (transform_config.cpp); its normal form.
Result<OrderedJson> parse_transforms(const JsonValue& section);
// "0.17.1": what the first three numbers are worth; nothing without two of them.
std::optional<uint64_t> version_number(std::string_view text);
// The format that weights take under these arguments when none is given.
std::string_view inferred_format(const std::optional<Args>& weights, const std::optional<Args>& inputs);

}  // namespace tftf::ct
