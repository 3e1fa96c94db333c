// Tensors that a chain of stages makes: codes with their scales, or plain floats.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "quant/colibri/weights.h"
#include "transform/colibri/shard_planner.h"
#include "transform/stage.h"

namespace tftf::colibri {

// Chains by what they do, so that ten thousand equal tensors share one (with its sign streams).
class ChainCache {
 public:
  std::shared_ptr<const transform::Chain> get(DType in, std::vector<transform::Stage> stages);
  // OpenContext::kept of the tool.
  std::map<std::string, std::shared_ptr<const void>>& kept() { return kept_; }

 private:
  std::map<std::string, std::shared_ptr<const void>> kept_;
  std::unordered_map<std::string, std::shared_ptr<const transform::Chain>> chains_;
};

struct RecodedSource {
  TensorRef data;
  DType dtype{};  // as stored
  uint64_t elements = 0;
  std::vector<transform::Stage> stages{};  // with their companions
};

// `to`: the outputs of the last stage, in its order. Values without a code are refused after the run.
MadeTensors recoded(ChainCache& cache, RecodedSource source, std::vector<OutputEntry> to,
                    uint64_t tile_bytes);

// A weight of [rows, columns] in `matrix.format` made by `source` (whose stages give `from` elements): gated, then the
// pair NAME and NAME.qs. No stamp.
Result<void> write_pair(ShardPlanner& planner, ChainCache& cache, const std::string& name,
                        RecodedSource source, const ColibriMatrix& matrix, DType from, uint64_t tile_bytes,
                        std::optional<std::string> stamp = std::nullopt);

}  // namespace tftf::colibri
