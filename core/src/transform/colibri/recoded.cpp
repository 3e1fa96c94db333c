#include "transform/colibri/recoded.h"

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/e8.h"

namespace tftf::colibri {

using transform::Chain;
using transform::Stage;

std::shared_ptr<const Chain> ChainCache::get(DType in, std::vector<Stage> stages) {
  std::string key(dtype_name(in));
  for (const Stage& stage : stages) {
    key += ' ' + stage.op->word(stage) + ' ' + std::string(dtype_name(stage.from)) + ' ' +
           std::string(dtype_name(stage.to));
    if (stage.weight != nullptr) key += ' ' + stage.weight->key;
    if (stage.encoded != nullptr) key += ' ' + stage.encoded->key;
  }
  std::shared_ptr<const Chain>& chain = chains_[key];
  if (chain == nullptr) {
    auto fresh = std::make_shared<Chain>();
    fresh->in = in;
    fresh->out = stages.back().to;
    fresh->stages = std::move(stages);
    chain = std::move(fresh);
  }
  return chain;
}

MadeTensors recoded(ChainCache& cache, RecodedSource source, std::vector<OutputEntry> to,
                    uint64_t tile_bytes) {
  MadeTensors made;
  if (const auto& weight = source.stages.front().weight; weight != nullptr) {
    for (const WeightPart& part : weight->parts) made.from.push_back(part.tensor);
  } else {
    made.from = {source.data};
  }
  const std::shared_ptr<const Chain> chain = cache.get(source.dtype, std::move(source.stages));
  made.word = chain->word();
  made.tensors = std::move(to);
  made.items = [chain, elements = source.elements, tile_bytes](std::span<const Extent> in,
                                                               std::span<const Extent> out) {
    Item item{.op = &transform::kConvertOp, .in_dtype = chain->in, .out_dtype = chain->out, .context = chain};
    item.units = elements;
    item.units_per_tile = chain->units_per_tile(tile_bytes);
    item.in.assign(in.begin(), in.end());
    item.out.assign(out.begin(), out.end());
    item.arg[1] = 1;
    return std::vector<Item>{std::move(item)};
  };
  if (chain->encodes()) {
    made.check = [name = made.tensors[0].name, word = made.word](const Value& value) -> Result<void> {
      if (value.n[3] == 0) return {};
      return Error{.code = ErrorCode::kRefusedValues,
                   .message = "Tensor " + quote_name(name) + " holds " + grouped_digits(value.n[3]) +
                              (value.n[3] == 1 ? " value that is" : " values that are") +
                              " NaN, infinite or too large to be quantised (" + word + ").",
                   .tensor = name};
    };
  }
  return made;
}

Result<void> write_pair(ShardPlanner& planner, ChainCache& cache, const std::string& name,
                        RecodedSource source, const ColibriMatrix& matrix, DType from, uint64_t tile_bytes,
                        std::optional<std::string> stamp) {
  const auto refuse = [&](const std::string& why) {
    return Error{.code = ErrorCode::kRefusedShape,
                 .message = "Tensor " + quote_name(name) + " of shape [" + std::to_string(matrix.rows) + "," +
                            std::to_string(matrix.columns) + "] " + why + ".",
                 .tensor = name};
  };
  if (matrix.rows == 0 || matrix.columns == 0) return refuse("has no elements (write-unreadable)");
  if (matrix.format == Format::kE8Lattice && matrix.columns % kE8Block != 0) {
    return refuse("cannot be coded: e8: input dim " + std::to_string(matrix.columns) +
                  " is not a multiple of 256");
  }
  const auto row = checked_mul(matrix.columns, sizeof(float));
  if (!row || *row > kLargestUnitBytes) return refuse("has rows too long to be held in memory");
  const auto bytes = weight_bytes(matrix.format, matrix.rows, matrix.columns);
  const auto count = scale_count(matrix.format, matrix.rows, matrix.columns, matrix.group_size);
  if (!bytes || !count) return refuse("is too large");
  TFTF_TRY(planner.check({.name = name,
                          .rows = matrix.rows,
                          .columns = matrix.columns,
                          .weight_bytes = *bytes,
                          .scale_bytes = *count * sizeof(float),
                          .format = matrix.format,
                          .group_size = matrix.group_size,
                          .stamp = std::move(stamp)}));
  source.stages.push_back(
      transform::encode_stage(std::make_shared<const Encoded>(colibri_encoded(matrix)), from));
  std::vector<OutputEntry> to{{name, DType::U8, {*bytes}}};
  OutputEntry scales{name + ".qs", DType::F32, {*count}};
  if (matrix.format == Format::kE8Lattice) {
    std::byte tag[sizeof(float)];
    store_le(tag, kE8Tag);
    planner.literal(std::move(scales), std::string(reinterpret_cast<const char*>(tag), sizeof tag));
  } else {
    to.push_back(std::move(scales));
  }
  planner.make(recoded(cache, std::move(source), std::move(to), tile_bytes));
  return {};
}

}  // namespace tftf::colibri
