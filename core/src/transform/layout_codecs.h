// What `dequant` and `quantize` do with each layout: one row per layout that is read or written. The rows must agree
// with the registry's columns (quant/format.h); a test compares them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stage.h"
#include "stream.h"
#include "tftf/base/result.h"
#include "tftf/quant/config.h"
#include "tftf/quant/format.h"

namespace tftf::transform {

struct DecodeRequest {
  const Stream& stream;
  const QuantConfig& config;
  const QuantMatch& match;
  DType to = DType::F32;  // of the result: F32, BF16 or F16
};

// What the user chose beside the layout; 0: nothing.
struct EncodeOptions {
  uint32_t bits = 0;
  uint64_t group_size = 0;
  bool strict = false;  // warnings about what a reader would misread are refusals
};

struct EncodeRequest {
  const std::string& name;  // of the weight
  uint64_t rows = 0;        // at least 1, as columns
  uint64_t columns = 0;
  DType from = DType::F32;  // of the elements: F32, BF16 or F16
  const EncodeOptions& options;
  std::optional<std::string> stamp{};  // what a reader of colibri containers will find
};

// The tensors that stand for one weight.
struct Encoding {
  struct Part {
    std::string name;
    DType dtype{};
    Shape shape;
    std::optional<std::string> literal{};  // else it is the next output of the stage
  };
  Stage stage;
  std::vector<Part> parts;  // the codes first
  std::string warning{};
};

struct LayoutCodec {
  std::string_view id;
  // The stage that makes elements of the stored codes: F32, or `to` when it can round by itself. Null: not read.
  Result<Stage> (*decode)(const DecodeRequest& request);
  // Null: not written.
  Result<Encoding> (*encode)(const EncodeRequest& request);
  // kUsage for options that the layout has not, or not with such values.
  Result<void> (*check)(std::string_view id, const EncodeOptions& options);
  // The quantisation section of config.json for a model of this layout, given the modules that stay plain; null: none.
  std::string (*config)(const std::vector<std::string>& plain_modules);
  bool stamped = false;  // a colibri container, whose metadata names its formats
};

std::span<const LayoutCodec> layout_codecs();
// Null for layouts that are neither read nor written. "colibri-fp8" is "colibri-fp8-e4m3-b128".
const LayoutCodec* find_codec(std::string_view id);

// The way of a module's codes to elements of `to`, put into `weight`. Refusals name module and layout.
Result<void> decode_weight(const Stream& stream, const QuantConfig& config, const QuantMatch& match, DType to,
                           StreamTensor& weight);

}  // namespace tftf::transform
