// Containers of experts in a stream: which tensors belong to each, in which form (spec experts 4.1 to 4.3).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layout_change.h"

namespace tftf::transform {

using ExpertPart = ExpertName::Part;

// The experts of one layer.
struct ExpertSet {
  const ExpertKind* kind = nullptr;
  NameLayout under{};
  InLayouts<bool> at{};
  std::string prefix{};
  struct Split {
    size_t tensor = 0;
    std::string_view number{};  // as written, of the tensor's name
    ExpertPart part{};
    uint32_t suffix = 0;  // in ExpertSurvey::suffixes
  };
  struct Fused {
    size_t tensor = 0;
    ExpertPart part{};
    std::string tail{};
  };
  std::vector<Split> split{};
  std::vector<Fused> fused{};
  std::optional<size_t> stray{};  // below a number, and no part of an expert
  std::string stray_name{};       // from the number on

  std::string fused_path() const { return prefix + std::string(kind->path[under]); }
  std::string split_path() const { return prefix + std::string(kind->split_at(under)); }
  const std::string& name(const Stream& stream) const {
    return stream.tensors[split.empty() ? fused.front().tensor : split.front().tensor].name;
  }
  const Fused* find(ExpertPart part, std::string_view tail) const {
    for (const Fused& one : fused)
      if (one.part == part && one.tail == tail) return &one;
    return nullptr;
  }
};

struct ExpertSurvey {
  std::vector<ExpertSet> sets{};        // in the order in which they come up
  std::vector<std::string> suffixes{};  // of split forms
  std::optional<size_t> above_tail{};   // a tensor CONTAINER.FUSED.MORE, which nobody looks for
};
ExpertSurvey survey_experts(const Stream& stream, std::span<const ExpertKind> kinds,
                            const LayoutNames& names);

// A split set by suffix, part and number, complete: every expert has every tensor, all alike.
struct SplitTable {
  uint64_t experts = 0;
  // Tensors by part (gate, up, down) and number; a set without gates has none.
  using Column = std::array<std::vector<size_t>, 3>;
  std::vector<std::pair<std::string, Column>> suffixes{};  // in the order in which they come up
};
Result<SplitTable> split_table(const Stream& stream, const ExpertSurvey& survey, const ExpertSet& set);

// Which axes the fused weights have, by their shapes; for ungated ones `assumed`. kRefusedShape where they fit neither.
struct FusedShapes {
  uint64_t experts = 0, inner = 0;  // F, in rows or columns as stored
  ExpertAxes axes{};
};
Result<FusedShapes> fused_shapes(const Stream& stream, const ExpertSet& set, size_t up, size_t down,
                                 ExpertAxes assumed);

// "Experts PREFIX…: WHAT." about one of their tensors.
Error expert_refusal(const Stream& stream, const ExpertSet& set, size_t tensor, ErrorCode code,
                     const std::string& what);

// The stored tensors that hold codes or scales of quantised modules.
class CodedTensors {
 public:
  explicit CodedTensors(const Stream& stream);
  bool has(const StreamTensor& tensor) const;

 private:
  std::vector<uint64_t> keys_;  // sorted
};

// Makes the tensors of the other form.
struct ExpertWork {
  Stream& stream;
  StreamRebuild& rebuild;
  const CodedTensors& coded;
  std::string type{};
  std::optional<std::array<uint64_t, 2>> block{};  // weight_block_size
  std::optional<uint64_t> experts{};               // that config.json tells of
  bool pending = false;                            // small values are not there yet
  uint64_t fused_codes = 0;                        // fused containers of codes that were written
};
Result<void> fuse_experts(ExpertWork& work, const ExpertSurvey& survey, const ExpertSet& set,
                          ExpertAxes axes);
Result<void> split_experts(ExpertWork& work, const ExpertSet& set, const FusedShapes& shapes);
Result<void> turn_experts(ExpertWork& work, const ExpertSet& set, const FusedShapes& shapes);

// How a tensor beside a weight of `rows` rows goes along with it (spec experts 4.5).
enum class ScaleKind : uint8_t { kRows, kGrid, kOne, kNone };
// `shape`: without the dimension of experts.
ScaleKind scale_kind(const ExpertWork& work, std::string_view suffix, const Shape& shape, uint64_t rows);

}  // namespace tftf::transform
