// The working state of layout detection, handed from family to family.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/checkpoint/small_values.h"
#include "tftf/quant/config.h"
#include "tftf/quant/format.h"

namespace tftf {

class LayoutScan {
 public:
  LayoutScan(const Checkpoint& checkpoint, SmallValues& values);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const QuantConfig& config() const { return config_; }
  SmallValues& values() { return values_; }
  const TensorInfo& info(TensorRef tensor) const { return checkpoint_.info(tensor); }

  // Neither claimed nor part of a broken module.
  bool is_free(TensorRef tensor) const { return !taken_[tensor.shard][tensor.tensor]; }
  // The free tensor of that name.
  std::optional<TensorRef> find(std::string_view name) const;
  // The free tensor `module` + `suffix`.
  std::optional<TensorRef> sibling(std::string_view module, std::string_view suffix) const;
  // Free tensors in reading order whose name ends in `suffix` and is longer.
  std::vector<TensorRef> ending(std::string_view suffix) const;
  // A tensor's name without `suffix`.
  std::string_view stem(TensorRef tensor, std::string_view suffix) const;

  // Adds the free tensor `module` + `suffix` as a companion when its dtype is one of `dtypes` (any when
  // empty). Returns whether it did.
  bool add_companion(QuantMatch& match, std::string_view role, std::string_view module,
                     std::string_view suffix, std::initializer_list<DType> dtypes = {}) const;

  void claim(QuantMatch match);
  void claim_extra(std::string_view layout, TensorRef tensor);
  // Whether a module of the layout was claimed.
  bool has_found(std::string_view layout) const { return finding_by_id_.count(layout) > 0; }
  // A broken module: `parts` are not offered to later families.
  void problem(std::string_view layout, std::string_view module, std::string what,
               std::initializer_list<std::optional<TensorRef>> parts, Rule rule = Rule::QT300);
  // The same for a module all of whose tensors are known.
  void problem(const QuantMatch& match, std::string what, Rule rule = Rule::QT300);
  // What a configuration says of a module that was claimed: "4-bit int, group 128". For the evidence.
  void count_scheme(std::string_view layout, std::string text);
  // A warning; equal ones are kept once.
  void note(std::string text);

  // Whether any module has been claimed.
  bool has_matches() const;

  LayoutReport take();

 private:
  QuantFinding& finding(std::string_view layout);
  void take_tensor(TensorRef tensor) { taken_[tensor.shard][tensor.tensor] = true; }
  std::string evidence(const QuantFinding& finding) const;
  std::string schemes_text(std::string_view layout) const;

  const Checkpoint& checkpoint_;
  SmallValues& values_;
  QuantConfig config_;
  std::vector<std::vector<bool>> taken_;
  std::unordered_map<std::string_view, size_t> finding_by_id_;
  LayoutReport report_;
  std::map<std::string_view, std::vector<std::pair<std::string, uint64_t>>> schemes_;  // by layout
};

// F16, BF16 and F32: the dtypes of scales that a dequantised weight takes over.
bool is_scale_float(DType dtype);
// The layout's own result dtype from that of its scales (spec other-quant-layouts 12).
DType native_dtype(DType scale);
// One element: shapes [], [1], [1,1], …
bool is_scalar(const Shape& shape);
// The shape without its dimensions of length 1.
Shape squeezed(const Shape& shape);
// Rows and columns that one entry of `grid` covers: `declared` when given (a grid may then be larger than
// needed), else the one of 128, 64, 256, 32 that fits both dimensions exactly. Nothing when none fits.
struct BlockSize {
  uint64_t rows = 0;
  uint64_t columns = 0;
};
std::optional<BlockSize> fit_blocks(uint64_t rows, uint64_t columns, uint64_t grid_rows,
                                    uint64_t grid_columns, std::optional<BlockSize> declared);
// `weight_block_size` of the configuration.
std::optional<BlockSize> declared_blocks(const QuantConfig& config);

}  // namespace tftf
