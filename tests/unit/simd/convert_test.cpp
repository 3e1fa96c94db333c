// Conversions of runs: every table against the element functions, and cast() against torch's rules written
// out.
#include "kernel_tables.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

#include <cmath>
#include <cstdio>

using namespace tftf;
using namespace tftf::test;

namespace {

template <class T>
Buffer filled(const std::vector<T>& values, size_t misalignment = 0) {
  Buffer buffer(values.size() * sizeof(T), misalignment);
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}

uint64_t count_overflow(DType to, const std::vector<uint32_t>& values) {
  uint64_t count = 0;
  for (uint32_t bits : values) {
    const float x = tftf::bit_cast<float>(bits);
    const float y = to == DType::BF16 ? f32_from_bf16(bf16_from_f32(x)) : f32_from_f16(f16_from_f32(x));
    count += std::isfinite(x) && std::isinf(y);
  }
  return count;
}

}  // namespace

TEST_CASE("the tables that run here") {
  std::string names;
  for (const KernelTable* table : available_kernels()) names += std::string(" ") + table->name;
  std::printf("kernel tables:%s\n", names.c_str());
  CHECK(available_kernels().front() == &scalar_kernels());
  CHECK(&best_kernels() == available_kernels().back());
  for (const KernelTable* table : available_kernels()) CHECK(find_kernels(table->name) == table);
  CHECK(find_kernels("scalar") == &scalar_kernels());
  CHECK(find_kernels("") == nullptr);
  CHECK(find_kernels("AVX2") == nullptr);
}

TEST_CASE("all BF16 and F16 codes widen alike in every table") {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  const Buffer in = filled(codes, 1);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    Buffer wide(4 * codes.size(), 3), half(4 * codes.size(), 5);
    table->bf16_to_f32(in.data(), wide.data(), codes.size());
    table->f16_to_f32(in.data(), half.data(), codes.size());
    size_t wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      wrong += load_le<uint32_t>(wide.data() + 4 * i) != tftf::bit_cast<uint32_t>(f32_from_bf16(codes[i]));
      wrong += load_le<uint32_t>(half.data() + 4 * i) != tftf::bit_cast<uint32_t>(f32_from_f16(codes[i]));
    }
    CHECK(wrong == 0);
    CHECK(wide.guards_intact());
    CHECK(half.guards_intact());
  }
}

TEST_CASE("F32 narrows alike in every table") {
  std::vector<uint32_t> values;
  // Every upper half with the lower halves where the rounding changes.
  for (uint32_t top = 0; top < 0x10000; ++top)
    for (uint32_t low :
         {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x2FFFu, 0x3000u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      values.push_back(top << 16 | low);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 100000; ++i) values.push_back(static_cast<uint32_t>(random()));
  const Buffer in = filled(values, 2);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    Buffer wide(2 * values.size(), 1), half(2 * values.size(), 7);
    CHECK(table->f32_to_bf16(in.data(), wide.data(), values.size()) == count_overflow(DType::BF16, values));
    CHECK(table->f32_to_f16(in.data(), half.data(), values.size()) == count_overflow(DType::F16, values));
    size_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float x = tftf::bit_cast<float>(values[i]);
      wrong += load_le<uint16_t>(wide.data() + 2 * i) != bf16_from_f32(x);
      wrong += load_le<uint16_t>(half.data() + 2 * i) != f16_from_f32(x);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("conversions of short and unaligned runs stay inside the run") {
  std::mt19937 random(kSeed);
  const std::vector<uint32_t> special = interesting_f32();
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name << " seed " << kSeed);
    for (size_t count = 0; count <= 70; ++count) {
      std::vector<uint32_t> values(count);
      for (uint32_t& value : values)
        value = random() % 8 == 0 ? special[random() % special.size()]
                                  : static_cast<uint32_t>(random() & 0xBFFFFFFF);
      const Buffer in = filled(values, random() % 64);
      Buffer narrow[2] = {Buffer(2 * count, random() % 64), Buffer(2 * count, random() % 64)};
      CHECK(table->f32_to_bf16(in.data(), narrow[0].data(), count) == count_overflow(DType::BF16, values));
      CHECK(table->f32_to_f16(in.data(), narrow[1].data(), count) == count_overflow(DType::F16, values));
      for (int which = 0; which < 2; ++which) {
        Buffer want(2 * count);
        (which == 0 ? scalar_kernels().f32_to_bf16 : scalar_kernels().f32_to_f16)(in.data(), want.data(),
                                                                                  count);
        CHECK(narrow[which] == want);
        CHECK(narrow[which].guards_intact());
        Buffer back(4 * count, random() % 64), back_want(4 * count);
        (which == 0 ? table->bf16_to_f32 : table->f16_to_f32)(want.data(), back.data(), count);
        (which == 0 ? scalar_kernels().bf16_to_f32 : scalar_kernels().f16_to_f32)(want.data(),
                                                                                  back_want.data(), count);
        CHECK(back == back_want);
        CHECK(back.guards_intact());
      }
    }
  }
}

namespace {

// One element cast by the rules of the specification, as bits of the target.
uint64_t cast_element(DType from, DType to, const std::byte* data, uint64_t index) {
  const bool integer = !is_floating(from);
  float single = 0;
  double exact = 0;
  if (from == DType::F64) {
    exact = load_le<double>(data + 8 * index);
    single = f32_from_f64(exact);
  } else if (from == DType::I64) {
    exact = static_cast<double>(load_le<int64_t>(data + 8 * index));
    single = static_cast<float>(load_le<int64_t>(data + 8 * index));
  } else if (from == DType::U64) {
    exact = static_cast<double>(load_le<uint64_t>(data + 8 * index));
    single = static_cast<float>(load_le<uint64_t>(data + 8 * index));
  } else if (from == DType::F32) {
    single = load_le<float>(data + 4 * index);
    exact = f64_from_f32(single);
  } else if (from == DType::F16) {
    single = f32_from_f16(load_le<uint16_t>(data + 2 * index));
    exact = f64_from_f32(single);
  } else if (from == DType::BF16) {
    single = f32_from_bf16(load_le<uint16_t>(data + 2 * index));
    exact = f64_from_f32(single);
  } else {
    exact = element_as_f64(from, data, index);
    single = integer ? static_cast<float>(exact) : f32_from_f64(exact);
  }
  if (from == to) return element_bits(from, data, index);
  switch (to) {
    case DType::F64:
      return tftf::bit_cast<uint64_t>(exact);
    case DType::F32:
      return tftf::bit_cast<uint32_t>(single);
    case DType::F16:
      return f16_from_f32(single);
    default:
      return bf16_from_f32(single);
  }
}

bool finite_element(DType dtype, const std::byte* data, uint64_t index) {
  return std::isfinite(element_as_f64(dtype, data, index));
}

// Random elements with a good share of specials.
std::vector<std::byte> random_elements(DType dtype, size_t count, std::mt19937& random) {
  std::vector<std::byte> data((count * dtype_bits(dtype) + 7) / 8);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  if (dtype != DType::F64 && dtype != DType::F32) return data;
  for (size_t i = 0; i < count; ++i) {
    if (random() % 2 == 0) continue;
    const std::vector<uint32_t> special = {0,          0x80000000, 0x7F800000, 0xFF800000,
                                           0x7FC00001, 0x7F7FFFFF, 0x477FEFFF, 0x477FF000,
                                           0x7F7F8000, 0x00000001, 0x33000000, 0x387FFFFF};
    const uint32_t bits = special[random() % special.size()];
    if (dtype == DType::F32) {
      store_le(data.data() + 4 * i, bits);
    } else {
      double x = f64_from_f32(tftf::bit_cast<float>(bits));
      if (random() % 2 == 0) x = std::nextafter(x, random() % 2 == 0 ? 1e308 : -1e308);
      store_le(data.data() + 8 * i, x);
    }
  }
  return data;
}

}  // namespace

TEST_CASE("cast follows torch's rules for every pair of dtypes in every table") {
  std::mt19937 random(kSeed);
  for (const DTypeInfo& info : all_dtypes()) {
    for (DType to : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
      const DType from = info.dtype;
      if (!can_cast(from, to)) {
        CHECK(from == DType::C64);
        continue;
      }
      for (size_t count : {size_t{0}, size_t{4}, size_t{60}, size_t{2000}}) {
        const std::vector<std::byte> data = random_elements(from, count, random);
        uint64_t overflowed = 0;
        Buffer want(count * dtype_bits(to) / 8);
        for (size_t i = 0; i < count; ++i) {
          const uint64_t bits = cast_element(from, to, data.data(), i);
          std::memcpy(want.data() + i * dtype_bits(to) / 8, &bits, dtype_bits(to) / 8);
          overflowed +=
              finite_element(from, data.data(), i) && std::isinf(element_as_f64(to, want.data(), i));
        }
        for (const KernelTable* table : available_kernels()) {
          INFO(table->name << " " << info.name << " to " << dtype_name(to) << " count " << count << " seed "
                           << kSeed);
          Buffer out(want.size(), 1);
          CHECK(cast(*table, from, to, data.data(), out.data(), count) == overflowed);
          CHECK(out == want);
          CHECK(out.guards_intact());
        }
      }
    }
  }
  CHECK_FALSE(can_cast(DType::F32, DType::F8_E4M3));
  CHECK_FALSE(can_cast(DType::F32, DType::I8));
}

TEST_CASE("known answers of casts") {
  auto one = [](DType from, DType to, auto value) {
    std::byte out[8] = {};
    std::byte in[8];
    std::memcpy(in, &value, sizeof(value));
    cast(best_kernels(), from, to, in, out, 1);
    return element_bits(to, out, 0);
  };
  CHECK(one(DType::F32, DType::F16, 65519.996f) == 0x7BFF);
  CHECK(one(DType::F32, DType::F16, 65520.0f) == 0x7C00);
  CHECK(one(DType::F64, DType::F16, 65519.99999) == 0x7C00);  // 65520 in F32 first
  CHECK(one(DType::F64, DType::F32, 1.0 + std::ldexp(1.0, -24)) == 0x3F800000);
  CHECK(one(DType::F64, DType::F32, 1.0 + std::ldexp(1.0, -24) + std::ldexp(1.0, -52)) == 0x3F800001);
  CHECK(one(DType::F64, DType::BF16, 1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)) ==
        0x3F80);  // two roundings
  CHECK(one(DType::I64, DType::F32, int64_t{16777217}) == 0x4B800000);
  CHECK(one(DType::I64, DType::F16, int64_t{65519}) == 0x7BFF);
  CHECK(one(DType::I32, DType::BF16, int32_t{-257}) == 0xC380);
  CHECK(one(DType::I32, DType::BF16, int32_t{-259}) == 0xC382);
  CHECK(one(DType::U64, DType::F64, UINT64_MAX) == 0x43F0000000000000);
  CHECK(one(DType::U8, DType::F16, uint8_t{255}) == 0x5BF8);
  CHECK(one(DType::I8, DType::F32, int8_t{-128}) == 0xC3000000);
  CHECK(one(DType::BOOL, DType::F16, uint8_t{1}) == 0x3C00);
  CHECK(one(DType::BOOL, DType::F32, uint8_t{2}) == 0x3F800000);
  CHECK(one(DType::BOOL, DType::F64, uint8_t{0}) == 0);
  CHECK(one(DType::F8_E4M3, DType::BF16, uint8_t{0xFE}) == 0xC3E0);
  CHECK(one(DType::F8_E4M3, DType::F16, uint8_t{0xFF}) == 0x7E00);
  CHECK(one(DType::F8_E5M2, DType::F32, uint8_t{0xFC}) == 0xFF800000);
  CHECK(one(DType::F8_E8M0, DType::BF16, uint8_t{0}) == 0x0040);
  CHECK(one(DType::F8_E8M0, DType::F16, uint8_t{143}) == 0x7C00);
  CHECK(one(DType::F16, DType::BF16, uint16_t{0x0001}) == 0x3380);
  CHECK(one(DType::BF16, DType::F16, uint16_t{0x8000}) == 0x8000);
  CHECK(one(DType::BF16, DType::F64, uint16_t{0x7F81}) == 0x7FF8200000000000);
}
