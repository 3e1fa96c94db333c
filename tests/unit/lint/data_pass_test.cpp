#include "tftf/lint/data_pass.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

namespace tftf {
namespace {

// Files in memory: tensors laid back to back behind a header of 100 bytes.
struct Memory {
  LintResult result;
  std::vector<std::vector<std::byte>> files;

  void file() {
    files.emplace_back(108);
    LintedFile linted;
    linted.path = std::to_string(files.size()) + ".safetensors";
    linted.scan.readable = linted.scan.sound = true;
    linted.scan.header.header_length = 100;
    result.files.push_back(std::move(linted));
  }
  void tensor(std::string name, DType dtype, Shape shape, const std::vector<std::byte>& bytes) {
    if (files.empty()) file();
    Header& header = result.files.back().scan.header;
    const uint64_t begin = files.back().size() - 108;
    header.tensors.push_back({std::move(name), dtype, std::move(shape), begin, begin + bytes.size()});
    files.back().insert(files.back().end(), bytes.begin(), bytes.end());
  }
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<std::byte> noise(uint64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// Runs all stages, the pieces in an order drawn from `seed`; stage 2 says `equal` when it is given.
std::vector<FileStatistics> run_pass(const Memory& memory, uint32_t seed,
                                     const KernelTable& kernels = best_kernels(),
                                     std::optional<bool> equal = {}, uint64_t* compared = nullptr) {
  DataPass pass(memory.result);
  std::mt19937 random(seed);
  bool comparing = false;
  do {
    std::vector<uint64_t> order(pass.piece_count());
    for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    uint64_t total = 0;
    for (uint64_t index : order) {
      const DataPass::Piece piece = pass.piece(index);
      CHECK(piece.count == (comparing ? 2 : 1));
      std::array<Bytes, 2> bytes;
      for (uint32_t i = 0; i < piece.count; ++i) {
        const ByteRange range = piece.parts[i].range;
        const std::vector<std::byte>& file = memory.files[piece.parts[i].file];
        REQUIRE(range.length > 0);
        REQUIRE(range.length <= DataPass::kMaxPiece);
        REQUIRE(range.offset + range.length <= file.size());
        bytes[i] = Bytes(file).subspan(range.offset, range.length);
        total += range.length;
      }
      DataPass::Found found = pass.run(index, bytes, kernels);
      if (comparing && equal) found.equal = *equal;
      pass.add(index, found);
    }
    CHECK(total == pass.bytes());
    if (comparing && compared != nullptr) *compared = total;
    comparing = true;
  } while (pass.next_stage());
  return pass.take();
}

const TensorStatistics& find(const Memory& memory, const std::vector<FileStatistics>& all,
                             const std::string& name) {
  for (size_t f = 0; f < all.size(); ++f)
    for (size_t t = 0; t < all[f].tensors.size(); ++t)
      if (memory.result.files[f].scan.header.tensors[t].name == name) return all[f].tensors[t];
  FAIL("no " << name);
  return all[0].tensors[0];
}

}  // namespace

TEST_CASE("the data pass counts what the rules ask for") {
  Memory m;
  const float nan = std::nanf("");
  const float inf = HUGE_VALF;
  m.tensor("f", DType::F32, {2, 4}, bytes_of<float>({-2, nan, inf, 1e-40f, 1e30f, -inf, nan, 3}));
  m.tensor("zero", DType::F32, {2, 2}, bytes_of<float>({0, -0.0f, 0, 0}));
  m.tensor("bool", DType::BOOL, {4}, bytes_of<uint8_t>({0, 1, 2, 255}));
  m.tensor("ones", DType::BF16, {2, 2}, bytes_of<uint16_t>({0x3F80, 0x3F80, 0x3F80, 0x3F80}));
  m.tensor("none", DType::F32, {0, 2}, {});
  m.tensor("alpha", DType::F16, {}, bytes_of<uint16_t>({0x4800}));
  m.tensor("bad", DType::F16, {}, bytes_of<uint16_t>({0xFC00}));
  m.tensor("complex", DType::C64, {2}, bytes_of<float>({5, nan, inf, nan}));
  m.tensor("e8m0", DType::F8_E8M0, {3}, bytes_of<uint8_t>({0, 255, 127}));
  m.tensor("ints", DType::I64, {1, 2}, bytes_of<int64_t>({0, 0}));
  const std::vector<FileStatistics> all = run_pass(m, 1);
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].tensors.size() == 10);

  const TensorStatistics& f = find(m, all, "f");
  CHECK(f.nan_count == 2);
  CHECK(f.first_nan == 1);
  CHECK(f.infinity_count == 2);
  CHECK(f.first_infinity == 2);
  CHECK(f.subnormal_count == 1);
  CHECK(f.extreme_count == 1);
  CHECK(f.largest == double(1e30f));
  CHECK(f.first == -2);
  CHECK_FALSE(f.all_zero);
  CHECK_FALSE(f.constant);

  CHECK(find(m, all, "zero").all_zero);
  CHECK_FALSE(find(m, all, "zero").zero_bytes);
  CHECK_FALSE(find(m, all, "zero").constant);
  CHECK(find(m, all, "bool").bool_count == 2);
  CHECK(find(m, all, "bool").first_bool == 2);
  CHECK(find(m, all, "ones").constant);
  CHECK_FALSE(find(m, all, "ones").all_zero);
  CHECK(find(m, all, "none").hash[0] == 0);
  CHECK_FALSE(find(m, all, "none").all_zero);
  CHECK(find(m, all, "alpha").first == 8);
  CHECK(find(m, all, "bad").first == -HUGE_VAL);
  CHECK(find(m, all, "complex").nan_count == 2);
  CHECK(find(m, all, "complex").infinity_count == 1);
  CHECK(find(m, all, "complex").first == 5);
  CHECK(find(m, all, "e8m0").nan_count == 1);
  CHECK(find(m, all, "ints").all_zero);
  CHECK(find(m, all, "ints").zero_bytes);
}

TEST_CASE("tensors of several pieces: whole elements, first indexes counted from the tensor's start") {
  for (DType dtype : {DType::F32, DType::F6_E2M3, DType::F4, DType::F64, DType::U8}) {
    INFO(dtype_name(dtype));
    const uint64_t bytes = 3 * 3 * (uint64_t{1} << 19) + 24;  // divisible by 3 and 8
    std::vector<std::byte> data = noise(bytes, 7);
    if (dtype == DType::F32) {
      for (uint64_t i = 0; i < bytes; i += 4) store_le<float>(&data[i], 1.0f);
      store_le<float>(&data[bytes - 8], std::nanf(""));
    }
    const uint64_t elements = bytes * 8 / dtype_bits(dtype);
    Memory m;
    m.tensor("t", dtype, {elements}, data);
    Scan whole;
    scalar_kernels().scan(dtype, data.data(), 0, elements, whole);
    const TensorStatistics t = run_pass(m, 3)[0].tensors[0];
    CHECK(t.nan_count == whole.nan);
    CHECK(t.first_nan == (whole.nan == 0 ? 0 : whole.first_nan));
    CHECK(t.subnormal_count == whole.subnormal);
    CHECK(t.largest == scan_max_magnitude(dtype, whole));
    if (dtype == DType::F32) CHECK(t.first_nan == elements - 2);
  }
}

TEST_CASE("any order and any kernels give the same statistics") {
  Memory m;
  for (int i = 0; i < 40; ++i) {
    m.tensor("a" + std::to_string(i), DType::BF16, {100, 7}, noise(1400, i));
    if (i % 10 == 9) m.file();
  }
  m.tensor("big", DType::F16, {3, 1 << 20}, noise(6 << 20, 99));
  m.tensor("copy", DType::F16, {3, 1 << 20}, noise(6 << 20, 99));
  const auto same = [](const std::vector<FileStatistics>& a, const std::vector<FileStatistics>& b) {
    bool equal = a.size() == b.size();
    for (size_t f = 0; equal && f < a.size(); ++f)
      for (size_t t = 0; t < a[f].tensors.size(); ++t) {
        const TensorStatistics &x = a[f].tensors[t], &y = b[f].tensors[t];
        equal = equal && x.nan_count == y.nan_count && x.first_nan == y.first_nan &&
                x.subnormal_count == y.subnormal_count && x.extreme_count == y.extreme_count &&
                x.largest == y.largest && x.hash[0] == y.hash[0] && x.infinity_count == y.infinity_count;
      }
    return equal;
  };
  const std::vector<FileStatistics> first = run_pass(m, 1);
  for (uint32_t seed = 2; seed < 5; ++seed) CHECK(same(first, run_pass(m, seed)));
  for (const KernelTable* kernels : available_kernels()) CHECK(same(first, run_pass(m, 1, *kernels)));
}

TEST_CASE("equal bytes are found, compared, and never assumed") {
  const std::vector<std::byte> content = noise(3 << 20, 5);
  std::vector<std::byte> other = content;
  other.back() ^= std::byte{1};
  Memory m;
  m.tensor("a", DType::U8, {3, 1 << 20}, content);
  m.tensor("b", DType::U8, {3, 1 << 20}, other);
  m.file();
  m.tensor("c", DType::U8, {3, 1 << 20}, content);
  m.tensor("d", DType::I8, {3, 1 << 20}, content);  // another dtype
  m.tensor("e", DType::U8, {3 << 20}, content);     // another shape
  m.tensor("small", DType::U8, {63}, noise(63, 1));
  m.tensor("small2", DType::U8, {63}, noise(63, 1));
  m.tensor("zeros", DType::U8, {64}, std::vector<std::byte>(64));
  m.tensor("zeros2", DType::U8, {64}, std::vector<std::byte>(64));
  const auto hash = [&](const std::vector<FileStatistics>& all, const char* name) {
    return find(m, all, name).hash[0];
  };

  uint64_t compared = 0;
  const std::vector<FileStatistics> all = run_pass(m, 1, best_kernels(), {}, &compared);
  CHECK(compared == 6 << 20);
  CHECK(hash(all, "a") == hash(all, "c"));
  for (const char* name : {"b", "d", "e", "small", "zeros"}) CHECK(hash(all, "a") != hash(all, name));
  CHECK(hash(all, "small") != hash(all, "small2"));
  CHECK(hash(all, "zeros") != hash(all, "zeros2"));

  // As if the hashes had met by chance.
  const std::vector<FileStatistics> chance = run_pass(m, 1, best_kernels(), false);
  CHECK(hash(chance, "a") != hash(chance, "c"));
}

TEST_CASE("a tied head is compared with its embedding whatever it holds") {
  for (bool equal : {true, false}) {
    Memory m;
    m.tensor("embed", DType::F16, {2, 2}, std::vector<std::byte>(8));
    m.file();
    m.tensor("head", DType::F16, {2, 2}, equal ? std::vector<std::byte>(8) : noise(8, 3));
    m.result.tied_heads.push_back({"config.json", {1, 0}, {0, 0}});
    const std::vector<FileStatistics> all = run_pass(m, 1);
    CHECK((find(m, all, "embed").hash[0] == find(m, all, "head").hash[0]) == equal);
  }
}

TEST_CASE("files that are not sound are left out, unreadable ones say why") {
  Memory m;
  m.tensor("a", DType::U8, {4}, noise(4, 1));
  m.file();
  m.tensor("b", DType::U8, {4}, noise(4, 2));
  m.file();
  m.tensor("c", DType::U8, {4}, noise(4, 3));
  m.result.files[0].scan.sound = false;
  DataPass pass(m.result);
  REQUIRE(pass.piece_count() == 2);
  CHECK(pass.piece(0).parts[0].file == 1);
  CHECK(pass.piece(1).parts[0].file == 2);
  pass.fail(1, "permission denied");
  pass.fail(1, "later");
  CHECK(pass.failed(1));
  CHECK_FALSE(pass.failed(2));
  pass.add(1, pass.run(1, {Bytes(m.files[2]).subspan(108, 4), {}}, best_kernels()));
  CHECK_FALSE(pass.next_stage());
  const std::vector<FileStatistics> all = pass.take();
  CHECK(all[0].tensors.empty());
  CHECK(all[0].unreadable.empty());
  CHECK(all[1].tensors.empty());
  CHECK(all[1].unreadable == "permission denied");
  CHECK(all[2].tensors.size() == 1);
}

TEST_CASE("nothing to read is done at once") {
  const LintResult nothing;
  DataPass pass(nothing);
  CHECK(pass.piece_count() == 0);
  CHECK(pass.bytes() == 0);
  CHECK_FALSE(pass.next_stage());
  CHECK(pass.take().empty());
}

}  // namespace tftf
