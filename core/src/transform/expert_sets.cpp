// Finds the containers of experts, and checks that they are complete.
#include "expert_sets.h"

#include <algorithm>
#include <unordered_map>

#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kPartWords[] = {"gate", "up", "down"};

std::string part_name(const ExpertKind& kind, ExpertPart part) {
  return std::string(part == ExpertPart::kGate ? kind.gate : part == ExpertPart::kUp ? kind.up : kind.down);
}

std::string described_as(const StreamTensor& tensor) {
  return std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape);
}

// What is alike for all experts of a set.
class TableMaker {
 public:
  TableMaker(const Stream& stream, const ExpertSurvey& survey, const ExpertSet& set)
      : stream_(stream), survey_(survey), set_(set) {}

  Result<SplitTable> make() {
    TFTF_TRY(count());
    for (const ExpertSet::Split& one : set_.split) {
      SplitTable::Column& column = column_of(one.suffix);
      std::vector<size_t>& list = column[static_cast<size_t>(one.part)];
      if (list.empty()) list.assign(to_size(table_.experts), std::string::npos);
      list[to_size(*json_unsigned(one.number))] = one.tensor;
    }
    for (auto& [suffix, column] : table_.suffixes) TFTF_TRY(check(suffix, column));
    return std::move(table_);
  }

 private:
  Result<void> count() {
    uint64_t highest = 0;
    size_t last = 0;
    for (const ExpertSet::Split& one : set_.split) {
      const auto number = json_unsigned(one.number);
      if (!number || *number > UINT32_MAX || (one.number.size() > 1 && one.number[0] == '0'))
        return expert_refusal(
            stream_, set_, one.tensor, ErrorCode::kRefusedInput,
            "the number " + std::string(one.number) + " of an expert is not written as one");
      if (*number >= highest) last = one.tensor;
      highest = std::max(highest, *number);
    }
    // A hole is found by counting: hostile numbers may be large.
    table_.experts = highest + 1;
    if (table_.experts <= set_.split.size()) return {};
    std::vector<uint64_t> numbers;
    for (const ExpertSet::Split& one : set_.split) numbers.push_back(*json_unsigned(one.number));
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    uint64_t hole = 0;
    while (hole < numbers.size() && numbers[to_size(hole)] == hole) ++hole;
    return expert_refusal(stream_, set_, last, ErrorCode::kRefusedMissing,
                          "expert " + std::to_string(hole) + " is missing, and there is one of number " +
                              std::to_string(highest));
  }

  SplitTable::Column& column_of(uint32_t suffix) {
    const std::string& name = survey_.suffixes[suffix];
    for (auto& [known, column] : table_.suffixes)
      if (known == name) return column;
    table_.suffixes.emplace_back(name, SplitTable::Column{});
    return table_.suffixes.back().second;
  }

  Result<void> check(const std::string& suffix, const SplitTable::Column& column) const {
    const StreamTensor* of_gate = nullptr;
    for (const ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp, ExpertPart::kDown}) {
      const std::vector<size_t>& list = column[static_cast<size_t>(part)];
      if (list.empty()) continue;
      const size_t there =
          *std::find_if(list.begin(), list.end(), [](size_t i) { return i != std::string::npos; });
      for (uint64_t e = 0; e < list.size(); ++e) {
        const size_t tensor = list[to_size(e)];
        const std::string where =
            "expert " + std::to_string(e) + " has no " + part_name(*set_.kind, part) + "." + suffix;
        if (tensor == std::string::npos)
          return expert_refusal(stream_, set_, there, ErrorCode::kRefusedMissing, where);
        TFTF_TRY(check_alike(tensor, stream_.tensors[there]));
      }
      if (part == ExpertPart::kGate) of_gate = &stream_.tensors[there];
      if (part == ExpertPart::kUp && of_gate != nullptr) TFTF_TRY(check_alike(there, *of_gate));
    }
    const bool gate = !column[0].empty(), up = !column[1].empty();
    if (!set_.kind->gated() || gate == up) return {};
    const size_t there = (gate ? column[0] : column[1]).front();
    return expert_refusal(stream_, set_, there, ErrorCode::kRefusedMissing,
                          "there is a " + std::string(kPartWords[gate ? 0 : 1]) + " and no " +
                              std::string(kPartWords[gate ? 1 : 0]) + " of suffix " + suffix);
  }

  Result<void> check_alike(size_t tensor, const StreamTensor& other) const {
    const StreamTensor& one = stream_.tensors[tensor];
    if (one.dtype == other.dtype && one.shape == other.shape) return {};
    return expert_refusal(stream_, set_, tensor, ErrorCode::kRefusedShape,
                          quote_name(one.name) + " is " + described_as(one) + " and " +
                              quote_name(other.name) + " is " + described_as(other) +
                              "; experts are fused only where they are alike");
  }

  const Stream& stream_;
  const ExpertSurvey& survey_;
  const ExpertSet& set_;
  SplitTable table_;
};

uint64_t place_key(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }

}  // namespace

CodedTensors::CodedTensors(const Stream& stream) {
  for (const QuantFinding& finding : stream.layouts->findings)
    for (const QuantMatch& match : finding.matches) {
      keys_.push_back(place_key(match.weight));
      for (const QuantCompanion& companion : match.companions) keys_.push_back(place_key(companion.tensor));
    }
  std::sort(keys_.begin(), keys_.end());
}

bool CodedTensors::has(const StreamTensor& tensor) const {
  return tensor.moved_codes || (tensor.is_copy() && !tensor.added && tensor.provided == nullptr &&
                                std::binary_search(keys_.begin(), keys_.end(), place_key(tensor.source)));
}

ExpertSurvey survey_experts(const Stream& stream, std::span<const ExpertKind> kinds,
                            const LayoutNames& names) {
  ExpertSurvey survey;
  std::unordered_map<std::string, size_t> sets;
  std::unordered_map<std::string_view, uint32_t> suffixes;
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const std::string& name = stream.tensors[i].name;
    const std::optional<ExpertName> found = parse_expert_name(kinds, name);
    if (!found || names.keeps(name)) continue;
    if (found->what == ExpertName::What::kAboveTail) {
      if (!survey.above_tail) survey.above_tail = i;
      continue;
    }
    const std::string path = std::string(found->prefix) + std::string(found->kind->path[found->under]);
    const auto [at, fresh] = sets.emplace(path, survey.sets.size());
    if (fresh) survey.sets.push_back({found->kind, found->under, found->at, std::string(found->prefix)});
    ExpertSet& set = survey.sets[at->second];
    if (found->what == ExpertName::What::kFused) {
      set.fused.push_back({i, found->part, std::string(found->rest)});
    } else if (found->what == ExpertName::What::kSplit) {
      const auto [suffix, other] =
          suffixes.emplace(found->rest, static_cast<uint32_t>(survey.suffixes.size()));
      if (other) survey.suffixes.emplace_back(found->rest);
      set.split.push_back({i, found->number, found->part, suffix->second});
    } else if (!set.stray) {
      set.stray = i;
      set.stray_name = std::string(found->number) + "." + std::string(found->rest);
    }
  }
  return survey;
}

Result<SplitTable> split_table(const Stream& stream, const ExpertSurvey& survey, const ExpertSet& set) {
  return TableMaker(stream, survey, set).make();
}

Error expert_refusal(const Stream& stream, const ExpertSet& set, size_t tensor, ErrorCode code,
                     const std::string& what) {
  const StreamTensor& one = stream.tensors[tensor];
  return {.code = code,
          .message = "Experts " + quote_name(set.fused_path()) + " of " +
                     quote_name(stream.file_of(one.source)) + ": " + what + ".",
          .file = stream.file_of(one.source),
          .tensor = one.name};
}

Result<FusedShapes> fused_shapes(const Stream& stream, const ExpertSet& set, size_t up, size_t down,
                                 ExpertAxes assumed) {
  const Shape &u = stream.tensors[up].shape, &d = stream.tensors[down].shape;
  const auto wrong = [&](const std::string& why) {
    return expert_refusal(stream, set, up, ErrorCode::kRefusedShape,
                          quote_name(stream.tensors[up].name) + " " + shape_text(u) + " and " +
                              quote_name(stream.tensors[down].name) + " " + shape_text(d) + " " + why);
  };
  if (u.size() != 3 || d.size() != 3 || u[0] != d[0]) return wrong("are no matrices of equally many experts");
  const uint64_t a = u[1], b = u[2], c = d[1], e = d[2];
  if (!set.kind->gated()) {
    if (a != e || b != c) return wrong("do not fit each other: up is [E, a, b] and down [E, b, a]");
    return FusedShapes{u[0], assumed == ExpertAxes::kOutIn ? a : b, assumed};
  }
  const auto twice = [](uint64_t value, uint64_t other, uint64_t packed) {
    const auto product = checked_mul(other, 2 * packed);
    return product && *product == value;
  };
  if (c == b && twice(a, e, 1)) return FusedShapes{u[0], a / 2, ExpertAxes::kOutIn};
  if (e == a && twice(b, c, 1)) return FusedShapes{u[0], b / 2, ExpertAxes::kInOut};
  const DType dtype = stream.tensors[up].dtype;
  if (dtype == DType::U8 || dtype == DType::I8 || dtype == DType::I32) {
    for (const uint64_t packed : {2u, 4u, 8u}) {
      const auto columns = checked_mul(b, packed);
      if (columns && *columns == c && twice(a, e, packed))
        return FusedShapes{u[0], a / 2, ExpertAxes::kOutIn};
    }
  }
  return wrong("fit neither out-in, [E, 2F, H] and [E, H, F], nor in-out, [E, H, 2F] and [E, F, H]");
}

ScaleKind scale_kind(const ExpertWork& work, std::string_view suffix, const Shape& shape, uint64_t rows) {
  for (const std::string_view none : {"weight_shape", "qweight", "qzeros", "scales", "g_idx"})
    if (suffix == none) return ScaleKind::kNone;
  if (!shape.empty() && shape[0] == rows) return ScaleKind::kRows;
  if (shape.empty() || (shape.size() == 1 && shape[0] == 1)) return ScaleKind::kOne;
  if (work.block && (*work.block)[0] != 0 && shape.size() == 2 &&
      shape[0] == ceil_div(rows, (*work.block)[0]))
    return ScaleKind::kGrid;
  return ScaleKind::kNone;
}

}  // namespace tftf::transform
