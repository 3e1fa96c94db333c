#include "transform/colibri/widened.h"

#include <memory>

#include "transform/stage.h"

namespace tftf::colibri {

bool can_widen(DType dtype) { return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16; }

MadeTensors widened(const FolderSource& source, TensorRef from, OutputEntry to) {
  using transform::Chain;
  const DType dtype = source.info(from).dtype;
  auto chain = std::make_shared<Chain>();
  chain->stages.push_back({.op = &transform::kCastStage, .from = dtype, .to = DType::F32});
  chain->in = dtype;
  chain->out = DType::F32;
  MadeTensors made;
  made.word = chain->word();
  made.from = {from};
  const uint64_t elements = source.info(from).bytes() * 8 / dtype_bits(dtype);
  made.tensors.push_back(std::move(to));
  made.items = [chain, elements](std::span<const Extent> in, std::span<const Extent> out) {
    Item item{.op = &transform::kConvertOp, .in_dtype = chain->in, .out_dtype = chain->out, .context = chain};
    item.units = elements;
    item.units_per_tile = chain->units_per_tile(kDefaultTileBytes);
    item.in = {in[0]};
    item.out = {out[0]};
    item.arg[1] = 1;
    return std::vector<Item>{std::move(item)};
  };
  return made;
}

}  // namespace tftf::colibri
