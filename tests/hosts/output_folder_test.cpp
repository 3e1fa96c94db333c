#include "tftf_native/output_folder.h"

#include <catch2/catch.hpp>

#include "scratch.h"
#include "toy_ops.h"

using namespace tftf;
using namespace tftf::test;
using OpenMode = OutputFolder::OpenMode;

namespace {

// A source without a descriptor, as one over HTTP is: copies cannot stay in the kernel.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<Fingerprint> fingerprint() const override { return Fingerprint{.size = bytes_.size()}; }
  Result<void> read(uint64_t offset, MutableBytes into) override {
    longest = std::max<uint64_t>(longest, into.size());
    std::copy_n(as_bytes(bytes_).begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
    return {};
  }
  void advise(uint64_t, uint64_t) override {}
  uint64_t longest = 0;

 private:
  std::string bytes_;
};

}  // namespace

TEST_CASE("copies come out the same inside the kernel and through memory, at any offset") {
  Scratch scratch;
  const std::string bytes = pattern(3'000'000, 8);
  spill(scratch / "in", bytes);
  auto folder = open_output_folder(scratch.path());
  REQUIRE(folder.ok());
  auto file_source = open_file_source(scratch / "in");
  REQUIRE(file_source.ok());
  MemorySource memory(bytes);
  std::vector<std::byte> buffer;
  int number = 0;
  for (ByteSource* source : {file_source->get(), static_cast<ByteSource*>(&memory)})
    for (const uint64_t to : {0, 1, 4096, 5000})
      for (const auto& [from, size] : {std::pair(0, 3'000'000), std::pair(7, 2'000'001), std::pair(5, 0)}) {
        const std::string name = "out" + std::to_string(number++);
        auto file = (*folder)->open(name, OpenMode::kNew);
        REQUIRE(file.ok());
        REQUIRE((*file)->allocate(to + static_cast<uint64_t>(size)).ok());
        REQUIRE((*file)
                    ->copy(to, *source, static_cast<uint64_t>(from), static_cast<uint64_t>(size), buffer)
                    .ok());
        CHECK((slurp(scratch / name) ==
               std::string(to, '\0') + bytes.substr(static_cast<size_t>(from), static_cast<size_t>(size))));
      }
  CHECK(memory.longest == kMaxWrite);
}

TEST_CASE("a copy beyond the end of its source is an error, not a short file") {
  Scratch scratch;
  spill(scratch / "in", "12345");
  auto folder = open_output_folder(scratch.path());
  auto source = open_file_source(scratch / "in");
  REQUIRE((folder.ok() && source.ok()));
  auto file = (*folder)->open("out", OpenMode::kNew);
  REQUIRE(file.ok());
  std::vector<std::byte> buffer;
  auto copied = (*file)->copy(0, **source, 2, 10, buffer);
  REQUIRE_FALSE(copied.ok());
  CHECK(copied.error().code == ErrorCode::kIoChanged);
}

TEST_CASE("a file is opened as new or as old, never by chance") {
  Scratch scratch;
  auto folder = open_output_folder(scratch.path());
  REQUIRE(folder.ok());
  CHECK_FALSE((*folder)->open("a", OpenMode::kOld).ok());
  CHECK((*folder)->open("a", OpenMode::kNew).ok());
  CHECK((*folder)->open("a", OpenMode::kOld).ok());
  CHECK_FALSE((*folder)->open("a", OpenMode::kNew).ok());
}

TEST_CASE("allocation gives the size and keeps what is there; truncation cuts") {
  Scratch scratch;
  spill(scratch / "a", "12345");
  auto folder = open_output_folder(scratch.path());
  REQUIRE(folder.ok());
  auto file = (*folder)->open("a", OpenMode::kOld);
  REQUIRE(file.ok());
  REQUIRE((*file)->allocate(8).ok());
  CHECK(slurp(scratch / "a") == std::string("12345\0\0\0", 8));
  REQUIRE((*file)->allocate(3).ok());
  CHECK(slurp(scratch / "a").size() == 8);
  REQUIRE((*file)->truncate(3).ok());
  CHECK(slurp(scratch / "a") == "123");
  auto absurd = (*file)->allocate(UINT64_MAX);
  CHECK_FALSE(absurd.ok());
}

TEST_CASE("a lock is held against others until the file is closed") {
  Scratch scratch;
  auto folder = open_output_folder(scratch.path());
  REQUIRE(folder.ok());
  auto first = (*folder)->open("a", OpenMode::kNew);
  auto second = (*folder)->open("a", OpenMode::kOld);
  REQUIRE((first.ok() && second.ok()));
  CHECK((*first)->try_lock());
  CHECK_FALSE((*second)->try_lock());
  first->reset();
  CHECK((*second)->try_lock());
}

TEST_CASE("a name that is a link is looked at itself") {
  Scratch scratch;
  spill(scratch / "victim", "x");
  std::filesystem::create_symlink(scratch / "victim", scratch / "link");
  auto folder = open_output_folder(scratch.path());
  REQUIRE(folder.ok());
  auto info = (*folder)->look("link");
  REQUIRE((info.ok() && info->has_value()));
  CHECK_FALSE((*info)->regular);
  CHECK_FALSE((*folder)->open("link", OpenMode::kOld).ok());
  auto missing = (*folder)->look("nothing");
  REQUIRE(missing.ok());
  CHECK_FALSE(missing->has_value());
}
