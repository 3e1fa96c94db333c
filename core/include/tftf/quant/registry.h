// The visible list of quantised layouts, and their detection (spec other-quant-layouts 10).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tftf/checkpoint/small_values.h"
#include "tftf/quant/format.h"

namespace tftf {

class LayoutScan;

// The layouts that are told apart by one function, in one file of core/src/quant.
struct QuantFamily {
  std::string_view name;
  std::span<const QuantFormat* const> formats;
  void (*detect)(LayoutScan&);  // claims modules; never one that is claimed
};

// In the order of detection: what an earlier family claims, a later one does not see.
std::span<const QuantFamily* const> quant_families();
// All layouts, in that order.
std::span<const QuantFormat* const> quant_formats();
// By id; null when unknown. "colibri-fp8" is "colibri-fp8-e4m3-b128", "gptq" is "gptq-v1", "awq" is "awq-gemm", "comfy-quant" is
// "comfy-fp8".
const QuantFormat* find_quant_format(std::string_view id);

// QuantProblem::layout of codes that nobody has claimed, in a model whose configuration names a method.
inline constexpr std::string_view kUnreadLayout = "of no known layout";
// A matrix called weight, of integers or FP8: in a model whose configuration names a quantisation method it holds codes.
bool looks_like_codes(const TensorInfo& info);
// Whether `repack` turns the one into the other, and all that it turns a layout into, in their order.
bool can_repack(const QuantFormat& from, const QuantFormat& to);
std::vector<const QuantFormat*> repack_targets(const QuantFormat& from);

// Every module of the checkpoint in at most one layout. Broken shards count with what their headers show.
// Linear in the number of tensors. When `values` wants something afterwards, supply it and call again: the
// report is final when nothing more is wanted.
LayoutReport detect_layouts(const Checkpoint& checkpoint, SmallValues& values);

// What `lint` says beside the problems of a report, of a model in compressed-tensors: its configuration against its modules.
std::vector<QuantRemark> compressed_tensors_remarks(const Checkpoint& checkpoint, const LayoutReport& report);

// Of the modules that were found: those whose tensors do not fit each other, which only opening them shows. The words are
// those that `dequant` refuses with. A module that lacks a decision or a configuration is none of these.
std::vector<QuantProblem> geometry_problems(const Checkpoint& checkpoint, const LayoutReport& report);

}  // namespace tftf
