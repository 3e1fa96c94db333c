#include "value_host.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace tftf::test {
namespace {

// A copy that ends where the range ends, so that a byte too many is found by the sanitizers.
std::vector<std::byte> bytes_of(const std::string& file, const ByteRange& range) {
  REQUIRE(range.length > 0);
  REQUIRE(range.offset <= file.size());
  REQUIRE(range.length <= file.size() - range.offset);
  const auto* data = reinterpret_cast<const std::byte*>(file.data()) + static_cast<size_t>(range.offset);
  return {data, data + static_cast<size_t>(range.length)};
}

}  // namespace

Result<void> run_in_memory(ValuePass& pass, std::vector<const MemoryModel*> models,
                           std::vector<const Checkpoint*> checkpoints, ValueHostOptions options) {
  for (auto wanted = pass.want(); !wanted.empty(); wanted = pass.want())
    for (const ValuePass::SmallRead& read : wanted) {
      const std::string& file = models.at(read.model)->files.at(read.request.file);
      pass.supply(read, bytes_of(file, read.request.range));
    }
  TFTF_TRY(pass.start());
  std::mt19937 random(options.seed);
  do {
    std::vector<uint64_t> order(static_cast<size_t>(pass.piece_count()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (options.seed != 0) std::shuffle(order.begin(), order.end(), random);
    uint64_t total = 0;
    for (const uint64_t index : order) {
      const ValuePass::Piece piece = pass.piece(index);
      REQUIRE(!piece.empty());
      std::vector<std::vector<std::byte>> held;
      uint64_t size = 0;
      for (const auto& [m, range] : piece) {
        const std::string& name = checkpoints.at(m)->shards.at(range.shard).name;
        std::vector<std::byte> part;
        for (uint32_t row = 0; row < range.rows; ++row) {
          const auto run =
              bytes_of(models[m]->files.at(name), {range.offset + row * range.stride, range.row_bytes});
          part.insert(part.end(), run.begin(), run.end());
        }
        size += part.size();
        held.push_back(std::move(part));
      }
      CHECK(size <= pass.piece_bytes());
      total += size;
      const std::vector<Bytes> bytes(held.begin(), held.end());
      pass.add(index, pass.run(index, bytes, options.kernels != nullptr ? *options.kernels : best_kernels()));
    }
    CHECK(total == pass.bytes());
  } while (pass.next_stage());
  return {};
}

}  // namespace tftf::test
