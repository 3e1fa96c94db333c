// A colibri container as its reader finds it: all shards of a folder, stamps, scales, configuration (spec colibri 2, 3).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/tree.h"
#include "tftf/base/json_value.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf {

struct ColibriTensor {
  const TreeFile* file = nullptr;
  uint32_t number = 0;  // in its header
  const TensorInfo& info() const { return file->scan->header.tensors[number]; }
};

// A weight with its scales.
struct ColibriPair {
  ColibriTensor weight;
  ColibriTensor scales;
  std::optional<std::pair<uint64_t, uint64_t>> shape;  // O, I
  std::optional<std::string> stamp;                    // as written, whether consulted or not
  bool rans = false;                                   // stamped int4-rans256-g0
  std::optional<colibri::Resolution> resolution;       // of sound pairs of known shape
  colibri::Pair sizes;                                 // what was resolved
};

class ColibriContainer {
 public:
  // `shards`: readable ones. `config`: config.json's object, or null.
  ColibriContainer(std::vector<const TreeFile*> shards, const JsonValue* config);

  // Whether these files hold anything of colibri's.
  static bool is_one(const std::vector<const TreeFile*>& shards);

  const std::vector<const TreeFile*>& shards() const { return shards_; }
  const JsonValue* config() const { return config_; }
  std::optional<ColibriTensor> find(std::string_view name) const;

  std::vector<colibri::StampRefusal> refusals;  // of stamps: at most one; of tensors: one each
  std::vector<std::pair<const TreeFile*, std::pair<std::string, std::string>>>
      stamps;  // where first, name, format
  bool declares_fp8 = false;
  std::vector<ColibriPair> pairs;           // by shard and name
  std::vector<ColibriTensor> lone_scales;   // NAME.qs without NAME
  std::vector<ColibriTensor> lone_weights;  // U8 without .qs
  std::vector<ColibriTensor> lone_f8;       // F8 without .qs

 private:
  void read_stamps();
  void pair_up();
  void resolve_pair(ColibriPair& pair) const;

  std::vector<const TreeFile*> shards_;
  const JsonValue* config_;
  colibri::StampMap stamp_map_;
  std::unordered_map<std::string_view, ColibriTensor> tensors_;
};

inline constexpr std::string_view kColibriScales = ".qs";

}  // namespace tftf
