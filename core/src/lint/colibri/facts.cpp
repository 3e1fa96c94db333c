#include "lint/colibri/facts.h"

#include <algorithm>

#include "tftf/base/affix.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf {
namespace {

std::string_view without_scales(std::string_view name) {
  return name.substr(0, name.size() - kColibriScales.size());
}

bool is_float8(DType dtype) {
  return dtype_bits(dtype) == 8 && dtype != DType::F8_E8M0 && dtype_info(dtype).kind == DTypeClass::kFloat;
}

const std::string* text_of_key(const Header& header, std::string_view key) {
  for (const auto& [name, value] : header.metadata)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

bool ColibriContainer::is_one(const std::vector<const TreeFile*>& shards) {
  std::vector<std::string_view> scaled;
  for (const TreeFile* file : shards) {
    const Header& header = file->scan->header;
    for (const auto& [key, value] : header.metadata)
      if (starts_with(key, "colibri.")) return true;
    for (const std::string& key : header.other_metadata)
      if (starts_with(key, "colibri.")) return true;
    for (const TensorInfo& tensor : header.tensors) {
      if (!ends_with(tensor.name, kColibriScales)) continue;
      if (ends_with(tensor.name, ".weight.qs")) return true;
      scaled.push_back(without_scales(tensor.name));
    }
  }
  if (scaled.empty()) return false;
  std::sort(scaled.begin(), scaled.end());
  for (const TreeFile* file : shards)
    for (const TensorInfo& tensor : file->scan->header.tensors)
      if (std::binary_search(scaled.begin(), scaled.end(), std::string_view(tensor.name))) return true;
  return false;
}

ColibriContainer::ColibriContainer(std::vector<const TreeFile*> shards, const JsonValue* config)
    : shards_(std::move(shards)), config_(config) {
  std::sort(shards_.begin(), shards_.end(),
            [](const TreeFile* a, const TreeFile* b) { return a->path < b->path; });
  read_stamps();
  pair_up();
}

std::optional<ColibriTensor> ColibriContainer::find(std::string_view name) const {
  const auto entry = tensors_.find(name);
  if (entry == tensors_.end()) return std::nullopt;
  return entry->second;
}

void ColibriContainer::read_stamps() {
  bool stopped = false;
  for (const TreeFile* file : shards_) {
    const Header& header = file->scan->header;
    if (const std::string* text = text_of_key(header, colibri::kDeclarationKey)) {
      const JsonDocument document = parse_json(*text, JsonDialect::kPython, 1000);
      for (const JsonValue& element : document.root.elements)
        if (element.is_string() && element.text == "fp8-e4m3-b128") declares_fp8 = true;
    }
    for (uint32_t i = 0; i < header.tensors.size(); ++i) {
      const auto [entry, added] = tensors_.try_emplace(header.tensors[i].name, ColibriTensor{file, i});
      if (!added && entry->second.file != file)
        refusals.push_back({colibri::StampFault::kDuplicateTensor, std::string(file->path),
                            header.tensors[i].name, std::string(entry->second.file->path)});
    }
    if (stopped) continue;
    if (auto refusal = stamp_map_.ingest(file->path, header)) {
      refusals.push_back(*std::move(refusal));
      stopped = true;  // as a reader stops
    }
    colibri::StampMap own(UINT64_MAX);
    if (own.ingest(file->path, header)) continue;
    for (const auto& [name, format] : own.all()) stamps.push_back({file, {name, format}});
  }
}

void ColibriContainer::pair_up() {
  for (const TreeFile* file : shards_) {
    const Header& header = file->scan->header;
    for (uint32_t i = 0; i < header.tensors.size(); ++i) {
      const TensorInfo& tensor = header.tensors[i];
      const ColibriTensor here{file, i};
      if (ends_with(tensor.name, kColibriScales)) {
        if (!find(without_scales(tensor.name))) lone_scales.push_back(here);
        continue;
      }
      const auto scales = find(tensor.name + std::string(kColibriScales));
      if (!scales) {
        if (tensor.dtype == DType::U8) lone_weights.push_back(here);
        if (is_float8(tensor.dtype)) lone_f8.push_back(here);
        continue;
      }
      ColibriPair pair;
      pair.weight = here;
      pair.scales = *scales;
      if (tensor.shape.size() == 2) pair.shape = {tensor.shape[0], tensor.shape[1]};
      if (config_)
        if (const auto implied = colibri::implied_shape(tensor.name, *config_)) pair.shape = implied;
      if (const auto stamp = stamp_map_.find(tensor.name)) {
        pair.stamp = *stamp;
        pair.rans = *stamp == colibri::kRansStamp;
      }
      resolve_pair(pair);
      pairs.push_back(std::move(pair));
    }
  }
}

void ColibriContainer::resolve_pair(ColibriPair& pair) const {
  const TensorInfo& weight = pair.weight.info();
  const TensorInfo& scales = pair.scales.info();
  pair.sizes.weight_bytes = weight.bytes();
  pair.sizes.scale_bytes = scales.bytes();
  pair.sizes.routed = colibri::is_routed_expert(weight.name);
  if (pair.stamp && !pair.sizes.routed) pair.sizes.stamp = pair.stamp;
  if (!pair.shape) return;
  pair.sizes.rows = pair.shape->first;
  pair.sizes.columns = pair.shape->second;
  const bool sound = weight.dtype == DType::U8 && scales.dtype == DType::F32 && scales.shape.size() == 1 &&
                     scales.bytes() > 0 && pair.sizes.rows > 0 && pair.sizes.columns > 0;
  if (sound && !pair.rans) pair.resolution = colibri::resolve(pair.sizes);
}

}  // namespace tftf
