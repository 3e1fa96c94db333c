// Nibbles looked up in tables, and matrices turned over: the scalar table against the definition, the others against it.
#include "kernel_tables.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Buffer random_buffer(size_t size, size_t misalignment, uint32_t seed) {
  Buffer buffer(size, misalignment);
  std::mt19937 random(seed);
  for (size_t i = 0; i < size; ++i) buffer.data()[i] = static_cast<std::byte>(random());
  return buffer;
}

}  // namespace

TEST_CASE("nibbles are looked up in the table of their group") {
  std::vector<uint16_t> tables(256 * 16);
  std::mt19937 random(kSeed);
  for (uint16_t& value : tables) value = static_cast<uint16_t>(random());
  for (const uint64_t group_bytes : {1, 2, 7, 8, 9, 15, 16, 17, 24, 32, 64})
    for (const bool high_first : {false, true})
      for (const bool by_index : {false, true}) {
        const uint64_t groups = 5, stride = group_bytes + (by_index ? 3 : 0);
        const std::vector<uint8_t> which = {3, 255, 0, 3, 200};
        const Buffer codes = random_buffer(static_cast<size_t>(groups * stride), 1, kSeed + 1);
        INFO(group_bytes << (high_first ? " high first" : "") << (by_index ? " by index" : ""));
        Buffer expected(static_cast<size_t>(groups * group_bytes * 4), 3);
        for (uint64_t g = 0; g < groups; ++g)
          for (uint64_t i = 0; i < group_bytes * 2; ++i) {
            const auto pair = static_cast<uint32_t>(codes.data()[g * stride + i / 2]);
            const uint32_t code = (i % 2 == 0) == high_first ? pair >> 4 : pair & 15;
            const uint16_t value = tables[(by_index ? which[g] : g) * 16 + code];
            store_le(expected.data() + (g * group_bytes * 2 + i) * 2, value);
          }
        for (const KernelTable* kernels : available_kernels()) {
          INFO(kernels->name);
          Buffer out(expected.size(), 3);
          kernels->look_up_nibbles({.tables = tables.data(),
                                    .which = by_index ? which.data() : nullptr,
                                    .codes = codes.data(),
                                    .groups = groups,
                                    .group_bytes = group_bytes,
                                    .stride = stride,
                                    .high_first = high_first,
                                    .out = out.data()});
          CHECK(out == expected);
          CHECK(out.guards_intact());
        }
      }
}

TEST_CASE("a matrix of 16-bit values is turned over") {
  for (const uint64_t rows : {1, 7, 8, 9, 32})
    for (const uint64_t columns : {1, 5, 8, 19, 32}) {
      const uint64_t in_stride = columns * 2 + 6, out_stride = rows * 2 + 4;
      const Buffer in = random_buffer(static_cast<size_t>(rows * in_stride), 1, kSeed + 2);
      INFO(rows << " x " << columns);
      for (const KernelTable* kernels : available_kernels()) {
        INFO(kernels->name);
        Buffer out(static_cast<size_t>((columns - 1) * out_stride + rows * 2), 5);
        kernels->transpose_16({.in = in.data(),
                               .in_stride = in_stride,
                               .rows = rows,
                               .columns = columns,
                               .out = out.data(),
                               .out_stride = out_stride});
        bool same = true;
        for (uint64_t r = 0; r < rows; ++r)
          for (uint64_t c = 0; c < columns; ++c)
            same = same && load_le<uint16_t>(out.data() + c * out_stride + r * 2) ==
                               load_le<uint16_t>(in.data() + r * in_stride + c * 2);
        CHECK(same);
        CHECK(out.guards_intact());
      }
    }
}
