// Items of tensors that pass through stages: what is shared among them, and what has to be ready before their tiles.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gather.h"
#include "stage.h"

namespace tftf::transform {

struct Conversion {
  const std::string& name;  // of the result
  const std::vector<Stage>& stages;
  std::shared_ptr<const TensorData> provided{};
  DType in{};                  // of the data
  DType out{};                 // of the result
  std::vector<Extent> from{};  // the data, or the parts of the weight that is decoded
  uint64_t elements = 0;
  uint32_t table = 0;  // of what was measured
  // Of what is gathered: `from` are the lanes when it is plain, else `ways` are the conversions of its sources.
  std::shared_ptr<const Gather> gather{};
  std::vector<Conversion> ways{};
  // All that is read, and what is done, in words.
  std::vector<Extent> reads() const;
  std::string word() const;
  uint64_t matrices() const;
};

class ConversionItems {
 public:
  ConversionItems(PlanBuilder& builder, uint64_t tile_bytes) : builder_(builder), tile_bytes_(tile_bytes) {}

  // Adds the entry (with `from` and the word), the notes behind it, and its items with `op`. `outputs`: none while
  // measuring. Returns how many items there are: none without elements.
  size_t add(Conversion conversion, PlanEntry entry, const TileOp* op, std::vector<Extent> outputs,
             std::vector<PlanEntry> also = {});

  // Tensors with equal ways share one object: there may be a hundred thousand of them.
  std::shared_ptr<const Chain> shared_chain(const Conversion& conversion);

 private:
  std::shared_ptr<const Chain> chain_of_ways(const Conversion& conversion, uint64_t first, uint64_t matrices,
                                             std::vector<uint32_t>& residents);
  GatherStep::Way way_of(const Conversion& way, uint64_t base, const GatherForm& form, uint64_t tile_units,
                         std::vector<uint32_t>& residents);
  void add_resident(Item& item, const std::shared_ptr<const Chain>& chain);
  void add_gatherings(Item& item, const Chain& chain);

  PlanBuilder& builder_;
  uint64_t tile_bytes_;
  std::unordered_map<std::string, std::shared_ptr<const Chain>> chains_;
};

}  // namespace tftf::transform
