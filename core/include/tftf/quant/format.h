// Quantised layouts: which tensors together make one logical weight (docs/architecture.md, "Quantised
// layouts").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

struct CodeLayout;   // quant/code_form.h
struct Encoder;      // quant/encoder.h
struct OpenContext;  // quant/weight.h
struct QuantMatch;
struct Weight;

// A layout of the registry (spec other-quant-layouts 12, cli 6). One constant each, listed in registry.cpp: this is the
// table behind `tftf formats` and docs/formats.md.
struct QuantFormat {
  std::string_view id;     // "fp8-block"
  std::string_view title;  // "FP8 with block scales (DeepSeek V3 and others)"
  bool refused = false;    // recognised by name only: nothing will read its weights
  // Checks the geometry of a module that detection has found, once. What does not fit is refused by weight_fault().
  // Null: the layout is only recognised.
  Result<Weight> (*open)(OpenContext& context, const QuantMatch& match) = nullptr;
  const Encoder* encoder = nullptr;   // null: not written by `quantize`
  const CodeLayout* codes = nullptr;  // null: `repack` neither takes nor makes it
  bool by_scheme = false;  // written by `quantize --to compressed-tensors`, where a scheme calls for it

  bool read() const { return open != nullptr; }
  bool written() const { return encoder != nullptr || by_scheme; }
};

// A tensor consumed with a weight. Roles are the words of the layouts' specification: "scales", "qzeros",
// "g_idx", "weight_scale", "absmax", …
struct QuantCompanion {
  std::string_view role;
  TensorRef tensor;
};

// One module found in a checkpoint in one layout. What the header does not tell stays empty or 0.
struct QuantMatch {
  std::string_view layout;  // id of the registry
  std::string module;       // the logical weight's name, e.g. "model.layers.0.mlp.up_proj.weight"
  TensorRef weight;         // the tensor that holds the codes
  std::string_view role;    // of that tensor: "weight", "qweight", "weight_packed", …
  std::vector<QuantCompanion> companions;  // consumed with it
  DType logical_dtype = DType::BF16;       // the layout's own result dtype (`--dtype native`)
  std::optional<Shape> logical_shape;
  uint32_t bits = 0;                     // per code
  uint64_t group_size = 0;               // elements of one scale along a row; 0: not by groups, or not known
  uint64_t block[2] = {};                // rows and columns of one scale; 0: not by blocks
  std::shared_ptr<const void> detail{};  // what detection has read of small tensors, for QuantFormat::open

  const TensorRef* find(std::string_view companion_role) const {
    for (const QuantCompanion& one : companions)
      if (one.role == companion_role) return &one.tensor;
    return nullptr;
  }
};

// What a whole checkpoint shows of one layout.
struct QuantFinding {
  std::string_view layout;
  std::vector<QuantMatch> matches;  // in reading order of the weights
  std::vector<TensorRef> extras;  // belong to the layout but to no module (markers, scales of plain weights)
  std::string evidence;           // one sentence with counts, dtypes and shapes seen
};

// A module that a layout's names announce and whose tensors do not fit it: `dequant` refuses, `info` notes.
struct QuantProblem {
  std::string_view layout;  // id, or a layout's common name without one
  std::string module;
  std::string what;  // "absmax is missing", "the scale grid [1,1] is smaller than the weight [256,256] needs"
  Rule rule = Rule::QT300;  // what `lint` reports it as
};

// What the rules of a layout say beside its problems: `lint` reports it, nothing refuses with it.
struct QuantRemark {
  Rule rule{};
  std::string subject;  // a module, or what the configuration calls a thing
  std::string what;
};

struct LayoutReport {
  std::vector<QuantFinding> findings;  // in the order of the registry
  std::vector<QuantProblem> problems;
  std::vector<std::string> notes;  // warnings: the configuration against the values, names only recognised
};

}  // namespace tftf
