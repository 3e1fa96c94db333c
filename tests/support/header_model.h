// A checkpoint of one shard made in memory, and a host for its small values.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tftf/quant/registry.h"

namespace tftf {

struct HeaderTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::string bytes{};  // of the data; empty: zeros
};

// One shard "model.safetensors" with the given tensors and side files.
class HeaderModel {
 public:
  HeaderModel(std::vector<HeaderTensor> tensors, std::string config = {}, Metadata metadata = {}) {
    Shard& shard = checkpoint_.shards.emplace_back();
    shard.name = "model.safetensors";
    shard.readable = true;
    shard.header.metadata = std::move(metadata);
    shard.header.has_metadata = !shard.header.metadata.empty();
    uint64_t at = 0;
    for (HeaderTensor& tensor : tensors) {
      const uint64_t size = element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8;
      tensor.bytes.resize(static_cast<size_t>(size));
      shard.header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, at, at + size});
      data_ += tensor.bytes;
      at += size;
    }
    shard.size = shard.header.data_offset() + at;
    for (uint32_t i = 0; i < shard.header.tensors.size(); ++i) {
      checkpoint_.order.push_back({0, i});
      checkpoint_.by_name.emplace(shard.header.tensors[i].name, TensorRef{0, i});
    }
    if (!config.empty()) add_side_file("config.json", std::move(config));
  }

  void add_side_file(std::string name, std::string text) {
    SideFile& file = checkpoint_.side_files.emplace_back();
    file.name = std::move(name);
    file.text = std::move(text);
    file.document = parse_json(file.text, JsonDialect::kPython);
  }

  const Checkpoint& checkpoint() const { return checkpoint_; }
  std::string bytes_of(TensorRef tensor) const {
    const TensorInfo& info = checkpoint_.info(tensor);
    return data_.substr(static_cast<size_t>(info.begin), static_cast<size_t>(info.bytes()));
  }

  // Serves what `values` (small values or scans) wants; false when nothing was wanted.
  template <class Pump>
  bool serve(Pump& values) const {
    const std::vector<ReadRequest> wanted = values.want();
    for (const ReadRequest& request : wanted) {
      const uint64_t at = request.range.offset - checkpoint_.shards[0].header.data_offset();
      values.supply(request, as_bytes(data_).subspan(at, request.range.length));
    }
    return !wanted.empty();
  }

  LayoutReport detect() const {
    SmallValues values(checkpoint_);
    LayoutReport report = detect_layouts(checkpoint_, values);
    while (serve(values)) report = detect_layouts(checkpoint_, values);
    return report;
  }

  // Layout id → number of modules.
  std::map<std::string, size_t> found() const {
    std::map<std::string, size_t> out;
    for (const QuantFinding& finding : detect().findings)
      out[std::string(finding.layout)] += finding.matches.size();
    return out;
  }

 private:
  Checkpoint checkpoint_;
  std::string data_;
};

}  // namespace tftf
