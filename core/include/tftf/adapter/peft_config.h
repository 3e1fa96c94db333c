// adapter_config.json of PEFT, read strictly: what changes a merge is understood or refused, never ignored
// (spec tftf 2.6 and 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf {

// Ways of changing a weight that can be merged. Names in files are upper-case ("LORA").
enum class PeftMethod : uint8_t {
  kLora,
  kLoha,
  kLokr,
  kIa3,
  kVera,
  kOft,
  kBoft,
  kAdaLora,
  kHra,
  kMiss,
  kLnTuning,
  kTrainableTokens,
};

// Which modules an entry list names: nothing, one regular expression for the whole path, or a list of
// suffixes.
struct ModuleSelector {
  enum class Kind : uint8_t { kNone, kPattern, kList };
  Kind kind = Kind::kNone;
  std::string pattern;
  std::vector<std::string> list;
  bool empty() const { return kind == Kind::kNone || (kind == Kind::kList && list.empty()); }
  bool all_linear() const { return kind == Kind::kPattern && pattern == "all-linear"; }
};

struct TokenIndices {
  std::string module;  // empty: the input embeddings
  std::vector<uint64_t> rows;
};

struct PeftConfig {
  std::string file;      // for messages
  bool present = false;  // false: there was no file, defaults below
  PeftMethod method = PeftMethod::kLora;
  std::optional<int64_t> rank;  // r; absent in configurations without one
  double alpha = 8;             // lora_alpha, or alpha for LoHa and LoKr
  bool has_alpha = false;
  ModuleSelector target_modules;
  ModuleSelector exclude_modules;
  std::vector<std::string> target_parameters;
  std::vector<std::pair<std::string, int64_t>>
      rank_pattern;  // file order: the first key that matches decides
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool use_rslora = false;
  bool use_dora = false;
  bool fan_in_fan_out = false;
  bool lora_bias = false;
  std::string bias = "none";
  std::vector<std::string> modules_to_save;
  std::optional<std::vector<int64_t>> layers_to_transform;
  std::vector<std::string> layers_pattern;
  std::vector<TokenIndices> trainable_tokens;
  std::vector<std::string> feedforward_modules;    // IA3
  std::optional<std::string> feedforward_pattern;  // IA3, when a string
  bool save_projection = true;                     // VeRA
  bool use_effective_conv2d = false;               // LoHa, LoKr
  bool block_share = false;                        // OFT
  bool coft = false;
  double eps = 6e-5;
  bool use_cayley_neumann = true;
  int64_t cayley_neumann_terms = 5;
  int64_t oft_block_size = 0;
  bool apply_gs = false;  // HRA
  enum class Miss : uint8_t { kPlain, kMini, kBat };
  Miss miss = Miss::kPlain;
  std::optional<int64_t> mini_r;  // MiSS
  std::vector<std::pair<std::string, int64_t>>
      adalora_ranks;  // what is left of each module: "<module>.lora_E"
  bool ensure_weight_tying = false;
  std::string peft_version;  // that wrote it; empty: it does not say
  std::string task_type;
  std::string base_model;
  std::string residual_init;  // pissa, olora …: the adapter belongs to a modified base; empty otherwise
};

// Defaults of a missing configuration: LoRA, everything targeted; the rank and alpha are the tensors' own
// (scale 1).
PeftConfig default_peft_config();

// Reads the document of `file`. Refused (kRefusedConfig): a wrong JSON type, r that is no positive integer (a
// boolean is none), a non-finite alpha. Refused (kRefusedUnsupported): unknown peft_type, aLoRA, QALoRA,
// Arrow, KaSA, BD-LoRA, layer_replication, Megatron, prompt methods. A key that is null, false, 0 or {} sets
// nothing.
Result<PeftConfig> read_peft_config(std::string_view file, const JsonValue& root);

// "LORA" …
std::string_view peft_method_name(PeftMethod method);

}  // namespace tftf
