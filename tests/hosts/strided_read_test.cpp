// Reading the rows of an extent: close rows in one call, others one by one, the same bytes either way.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "../../core/native/resident_store.h"

namespace tftf {
namespace {

// A file in memory of bytes that say where they lie, which counts what is asked of it.
class CountedSource final : public ByteSource {
 public:
  explicit CountedSource(uint64_t size) : bytes_(static_cast<size_t>(size)) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  }
  uint64_t size() const override { return bytes_.size(); }
  Result<Fingerprint> fingerprint() const override { return Fingerprint{}; }
  Result<void> read(uint64_t offset, MutableBytes into) override {
    ++calls;
    if (offset + into.size() > bytes_.size())
      return Error{.code = ErrorCode::kIoChanged, .message = "too far"};
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return {};
  }
  void advise(uint64_t, uint64_t) override {}
  std::byte at(uint64_t offset) const { return bytes_[static_cast<size_t>(offset)]; }
  uint64_t calls = 0;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

TEST_CASE("rows of an extent are its own bytes, however they lie, and nothing is read beyond the last") {
  struct Rows {
    uint32_t rows;
    uint64_t row_bytes, stride;
    bool together;
  };
  const Rows shapes[] = {{1, 100, 0, false},       {300, 512, 2048, true},  {1000, 16, 256, true},
                         {1000, 16, 272, false},   {5, 16384, 16384, true}, {3, 16384, 16385, false},
                         {77, 1, 1, true},         {64, 1024, 16384, true}, {65, 1024, 16384, true},
                         {4, 70000, 80000, false}, {2, 9, 10, true}};
  for (const Rows& shape : shapes) {
    const Extent extent{
        .rows = shape.rows, .offset = 13, .row_bytes = shape.row_bytes, .stride = shape.stride};
    const auto source = std::make_shared<CountedSource>(13 + (shape.rows - 1) * shape.stride +
                                                        shape.row_bytes);  // ends with it
    FilePool<ByteSource> files(1, [&](uint32_t) { return Result<std::shared_ptr<ByteSource>>(source); });
    std::vector<std::byte> into(static_cast<size_t>(extent.bytes()));
    INFO(shape.rows << " rows of " << shape.row_bytes << " every " << shape.stride);
    REQUIRE(read_extent(files, extent, into.data()).ok());
    bool right = true;
    for (uint32_t row = 0; row < shape.rows; ++row)
      for (uint64_t i = 0; i < shape.row_bytes; ++i)
        right = right && into[static_cast<size_t>(row * shape.row_bytes + i)] ==
                             source->at(13 + row * shape.stride + i);
    CHECK(right);
    CHECK((source->calls < shape.rows) == shape.together);
  }
}

}  // namespace tftf
