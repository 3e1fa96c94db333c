#include "quant/layout_scan.h"

#include <algorithm>
#include <utility>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

bool ends_within(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

LayoutScan::LayoutScan(const Checkpoint& checkpoint, SmallValues& values)
    : checkpoint_(checkpoint), values_(values), config_(read_quant_config(checkpoint)) {
  for (const Shard& shard : checkpoint.shards) taken_.emplace_back(shard.header.tensors.size(), false);
}

std::optional<TensorRef> LayoutScan::find(std::string_view name) const {
  const auto found = checkpoint_.by_name.find(name);
  if (found == checkpoint_.by_name.end() || !is_free(found->second)) return std::nullopt;
  return found->second;
}

std::optional<TensorRef> LayoutScan::sibling(std::string_view module, std::string_view suffix) const {
  return find(std::string(module).append(suffix));
}

std::vector<TensorRef> LayoutScan::ending(std::string_view suffix) const {
  std::vector<TensorRef> out;
  for (TensorRef tensor : checkpoint_.order)
    if (is_free(tensor) && ends_within(info(tensor).name, suffix)) out.push_back(tensor);
  return out;
}

std::string_view LayoutScan::stem(TensorRef tensor, std::string_view suffix) const {
  const std::string_view name = info(tensor).name;
  return name.substr(0, name.size() - suffix.size());
}

bool LayoutScan::add_companion(QuantMatch& match, std::string_view role, std::string_view module,
                               std::string_view suffix, std::initializer_list<DType> dtypes) const {
  const std::optional<TensorRef> found = sibling(module, suffix);
  if (!found) return false;
  const DType dtype = info(*found).dtype;
  if (dtypes.size() > 0 && std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) return false;
  match.companions.push_back({role, *found});
  return true;
}

QuantFinding& LayoutScan::finding(std::string_view layout) {
  const auto [found, fresh] = finding_by_id_.emplace(layout, report_.findings.size());
  if (fresh) {
    report_.findings.emplace_back();
    report_.findings.back().layout = layout;
  }
  return report_.findings[found->second];
}

void LayoutScan::claim(QuantMatch match) {
  take_tensor(match.weight);
  for (const QuantCompanion& one : match.companions) take_tensor(one.tensor);
  QuantFinding& to = finding(match.layout);
  to.matches.push_back(std::move(match));
}

void LayoutScan::claim_extra(std::string_view layout, TensorRef tensor) {
  take_tensor(tensor);
  finding(layout).extras.push_back(tensor);
}

void LayoutScan::problem(std::string_view layout, std::string_view module, std::string what,
                         std::initializer_list<std::optional<TensorRef>> parts, Rule rule) {
  report_.problems.push_back({layout, std::string(module), std::move(what), rule});
  for (const std::optional<TensorRef>& part : parts)
    if (part) take_tensor(*part);
}

void LayoutScan::problem(const QuantMatch& match, std::string what, Rule rule) {
  problem(match.layout, match.module, std::move(what), {match.weight}, rule);
  for (const QuantCompanion& one : match.companions) take_tensor(one.tensor);
}

void LayoutScan::note(std::string text) {
  if (std::find(report_.notes.begin(), report_.notes.end(), text) == report_.notes.end())
    report_.notes.push_back(std::move(text));
}

// "; 200 of 4-bit int, group 128; 24 of 8-bit float, channel".
std::string LayoutScan::schemes_text(std::string_view layout) const {
  const auto found = schemes_.find(layout);
  if (found == schemes_.end()) return "";
  std::string out;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < found->second.size() && i < kShown; ++i)
    out.append("; ")
        .append(std::to_string(found->second[i].second))
        .append(" of ")
        .append(found->second[i].first);
  if (found->second.size() > kShown)
    out += "; " + std::to_string(found->second.size() - kShown) + " other schemes";
  return out;
}

void LayoutScan::count_scheme(std::string_view layout, std::string text) {
  auto& schemes = schemes_[layout];
  for (auto& [known, count] : schemes)
    if (known == text) {
      ++count;
      return;
    }
  schemes.emplace_back(std::move(text), 1);
}

// "24 modules: I32 qweight with F16 scales, I32 qzeros, I32 g_idx; first model.layers.0.mlp.up_proj.weight:
// qweight [8,32], scales [2,32], …; 4 bits, groups of 32; config.json quantization_config: gptq".
std::string LayoutScan::evidence(const QuantFinding& finding) const {
  std::string out;
  std::vector<std::pair<std::string, uint64_t>> kinds;  // what a module consists of → how many do
  for (const QuantMatch& match : finding.matches) {
    std::string kind(dtype_name(info(match.weight).dtype));
    kind.append(" ").append(match.role);
    for (size_t i = 0; i < match.companions.size(); ++i) {
      const QuantCompanion& one = match.companions[i];
      kind.append(i == 0 ? " with " : ", ")
          .append(dtype_name(info(one.tensor).dtype))
          .append(" ")
          .append(one.role);
    }
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (same != kinds.end())
      ++same->second;
    else
      kinds.emplace_back(std::move(kind), 1);
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < kinds.size() && i < kShown; ++i)
    out += (i > 0 ? "; " : "") + std::to_string(kinds[i].second) + " " + kinds[i].first;
  if (kinds.size() > kShown) out += "; " + std::to_string(kinds.size() - kShown) + " other combinations";
  if (finding.matches.empty()) return out;
  const QuantMatch& first = finding.matches.front();
  out += "; first " + escape_text(first.module) + ": " + std::string(first.role) + " " +
         shape_text(info(first.weight).shape);
  constexpr size_t kShapes = 4;
  for (size_t i = 0; i < first.companions.size() && i < kShapes; ++i)
    out.append(", ")
        .append(first.companions[i].role)
        .append(" ")
        .append(shape_text(info(first.companions[i].tensor).shape));
  if (first.bits > 0) out += "; " + std::to_string(first.bits) + " bits";
  if (first.group_size > 0) out += ", groups of " + std::to_string(first.group_size);
  if (first.block[0] > 0)
    out += "; blocks of " + std::to_string(first.block[0]) + " x " + std::to_string(first.block[1]);
  out += schemes_text(finding.layout);
  if (!config_.method.empty()) out += "; " + config_.method_place + " says " + escape_text(config_.method);
  return out;
}

bool LayoutScan::has_matches() const {
  return std::any_of(report_.findings.begin(), report_.findings.end(),
                     [](const QuantFinding& one) { return !one.matches.empty(); });
}

LayoutReport LayoutScan::take() {
  for (QuantFinding& one : report_.findings) one.evidence = evidence(one);
  return std::move(report_);
}

bool is_scale_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32;
}

DType native_dtype(DType scale) { return is_scale_float(scale) ? scale : DType::BF16; }

bool is_scalar(const Shape& shape) { return element_count(shape) == 1; }

Shape squeezed(const Shape& shape) {
  Shape out;
  for (uint64_t dimension : shape)
    if (dimension != 1) out.push_back(dimension);
  return out;
}

std::optional<BlockSize> fit_blocks(uint64_t rows, uint64_t columns, uint64_t grid_rows,
                                    uint64_t grid_columns, std::optional<BlockSize> declared) {
  if (declared) {
    if (ceil_div(rows, declared->rows) > grid_rows || ceil_div(columns, declared->columns) > grid_columns)
      return std::nullopt;
    return declared;
  }
  for (uint64_t size : {128, 64, 256, 32})
    if (ceil_div(rows, size) == grid_rows && ceil_div(columns, size) == grid_columns)
      return BlockSize{size, size};
  return std::nullopt;
}

std::optional<BlockSize> declared_blocks(const QuantConfig& config) {
  const JsonValue* pair = config.get("weight_block_size");
  if (!pair || pair->elements.size() != 2) return std::nullopt;
  const int64_t rows = pair->elements[0].as_integer().value_or(0);
  const int64_t columns = pair->elements[1].as_integer().value_or(0);
  if (rows < 1 || columns < 1) return std::nullopt;
  return BlockSize{static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)};
}

}  // namespace tftf
