#include "tftf/quant/colibri/write_gate.h"

#include <catch2/catch.hpp>
#include <random>

#include "tftf/quant/colibri/resolver.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

constexpr const char* kExpert = "model.layers.3.mlp.experts.0.up_proj.weight";
constexpr const char* kResident = "model.layers.3.self_attn.o_proj.weight";

// A pair as a writer of the format leaves it.
WrittenPair pair_of(Format format, uint64_t rows, uint64_t columns, uint64_t group_size, const char* name,
                    bool stamped) {
  WrittenPair pair{.name = name, .rows = rows, .columns = columns};
  pair.weight_bytes = *weight_bytes(format, rows, columns);
  pair.scale_bytes = 4 * *scale_count(format, rows, columns, group_size == 0 ? 1 : group_size);
  pair.format = format;
  pair.group_size = group_size;
  if (stamped) pair.stamp = std::string(format_info(format).name);
  return pair;
}

WriteVerdict verdict(Format format, uint64_t rows, uint64_t columns, uint64_t group_size = 0,
                     bool stamped = false) {
  return check_written(pair_of(format, rows, columns, group_size, kResident, stamped), false).verdict;
}

}  // namespace

TEST_CASE(
    "what a writer emits is read back as the same, or refused, or warned of, for random shapes and stamps") {
  std::mt19937 random(20261129);
  const Format formats[] = {Format::kInt8Row, Format::kInt4Row,   Format::kInt2Row,    Format::kInt4Grouped,
                            Format::kInt3G64, Format::kE8Lattice, Format::kFp8Block128};
  const uint64_t groups[] = {16, 32, 40, 48, 64, 96, 100, 128, 192, 256, 512};
  uint64_t fine = 0, misread = 0, unreadable = 0;
  for (int i = 0; i < 60000; ++i) {
    const Format format = formats[random() % std::size(formats)];
    const uint64_t rows = 1 + random() % (random() % 4 == 0 ? 20000 : 300);
    uint64_t columns = 1 + random() % (random() % 4 == 0 ? 20000 : 300);
    if (random() % 16 == 0) columns = 98;
    const uint64_t group = format == Format::kInt4Grouped ? groups[random() % std::size(groups)] : 0;
    const bool routed = random() % 2 == 0;
    const bool stamped = random() % 2 == 0;
    const WrittenPair written = pair_of(format, rows, columns, group, routed ? kExpert : kResident, stamped);
    const WriteCheck check = check_written(written, false);
    const WriteCheck strict = check_written(written, true);
    Pair pair;
    pair.rows = rows;
    pair.columns = columns;
    pair.weight_bytes = written.weight_bytes;
    pair.scale_bytes = written.scale_bytes;
    pair.stamp = written.stamp;
    pair.routed = routed;
    const Resolution read = resolve(pair);
    const bool same = read.format == format && (group == 0 || read.group_size == group);
    const bool one_group = group != 0 && columns <= group && read.format == Format::kInt4Row;
    INFO(format_info(format).name << " " << rows << "," << columns << " gs " << group << " "
                                  << check.sentence);
    CHECK(check.sentence.empty() == (check.verdict == WriteVerdict::kFine));
    CHECK(check.refused <= strict.refused);
    switch (check.verdict) {
      case WriteVerdict::kFine:
        ++fine;
        CHECK((same || one_group));
        CHECK_FALSE(strict.refused);
        break;
      case WriteVerdict::kMisread:
        ++misread;
        CHECK(read.format.has_value());
        CHECK_FALSE((same || one_group));
        CHECK(strict.refused);
        CHECK(check.refused == (format == Format::kFp8Block128));
        CHECK(check.reason == "write-misread");
        break;
      case WriteVerdict::kUnreadable:
        ++unreadable;
        CHECK(read.refusal.has_value());
        CHECK(check.refused);
        CHECK(check.reason == "write-unreadable");
        break;
    }
  }
  CHECK(fine > 30000);
  CHECK(misread > 100);
  CHECK(unreadable > 100);
}

TEST_CASE("the known collisions of sizes are misreadings, their neighbours are not") {
  using enum WriteVerdict;
  CHECK(verdict(Format::kInt4Grouped, 5, 64, 64) == kFine);
  CHECK(verdict(Format::kInt4Grouped, 5, 65, 64) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 96, 64) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 97, 64) == kFine);
  CHECK(verdict(Format::kInt4Grouped, 5, 129, 64) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 145, 64) == kFine);
  CHECK(verdict(Format::kInt4Grouped, 5, 49, 48) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 192, 128) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 193, 128) == kFine);
  CHECK(verdict(Format::kInt4Grouped, 5, 100, 40) == kMisread);
  CHECK(verdict(Format::kInt4Grouped, 5, 100, 100) == kFine);
  CHECK(verdict(Format::kInt3G64, 5, 24) == kMisread);
  CHECK(verdict(Format::kInt3G64, 5, 25) == kFine);
  CHECK(verdict(Format::kInt3G64, 5, 96) == kMisread);
  CHECK(verdict(Format::kInt2Row, 5, 2) == kMisread);
  CHECK(verdict(Format::kInt2Row, 5, 3) == kFine);
  CHECK(verdict(Format::kInt4Row, 1, 195) == kMisread);
  CHECK(verdict(Format::kInt4Row, 2, 195) == kFine);
  CHECK(verdict(Format::kFp8Block128, 2, 200) == kMisread);
  CHECK(verdict(Format::kFp8Block128, 2, 200, 0, true) == kFine);
  CHECK(verdict(Format::kFp8Block128, 6144, 16384) == kMisread);
  CHECK(verdict(Format::kFp8Block128, 2048, 6144) == kFine);
  CHECK(verdict(Format::kFp8Block128, 5, 98) == kUnreadable);
  CHECK(verdict(Format::kInt8Row, 1, 400) == kUnreadable);
  CHECK(verdict(Format::kInt8Row, 1, 400, 0, true) == kFine);
}

TEST_CASE("empty weights and embeddings that no reader can use are not written") {
  const auto refused = [](Format format, uint64_t rows, const char* name) {
    return check_written(pair_of(format, rows, 256, 0, name, false), false).refused;
  };
  CHECK(refused(Format::kInt8Row, 0, kResident));
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "language_model.lm_head.weight"}) {
    CHECK(refused(Format::kFp8Block128, 300, name));
    CHECK(refused(Format::kE8Lattice, 300, name));
    CHECK_FALSE(refused(Format::kInt8Row, 300, name));
  }
  CHECK_FALSE(refused(Format::kFp8Block128, 300, "model.layers.78.embed_tokens.weight"));
  CHECK_FALSE(refused(Format::kFp8Block128, 300, kResident));
}

TEST_CASE("a stamp on a routed expert helps nobody") {
  CHECK(check_written(pair_of(Format::kFp8Block128, 2, 200, 0, kExpert, true), false).refused);
  CHECK_FALSE(check_written(pair_of(Format::kFp8Block128, 2, 200, 0, kResident, true), false).refused);
}
