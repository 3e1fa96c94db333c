// Values of colibri containers as the inspector reads them: any run of elements, against rows decoded one by one.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "lint_host.h"
#include "memory_model.h"
#include "tftf/inspect/tensor_values.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/quant/registry.h"
#include "tftf/simd/cast.h"

using namespace tftf;
using namespace tftf::test;
using colibri::Format;

namespace {

constexpr const char* kTensor = "model.embed_tokens.weight";

struct Written {
  MemoryModel model;
  std::vector<float> values;
};

std::string raw_text(const void* data, size_t bytes) { return {static_cast<const char*>(data), bytes}; }

Written written_model(Format format, uint64_t rows, uint64_t columns, uint64_t group) {
  std::mt19937 random(static_cast<uint32_t>(columns));
  std::normal_distribution<float> normal(0, 0.05f);
  Written out;
  std::string codes, scales;
  const colibri::IntegerSpec spec{format, format == Format::kInt8Row ? 8u : 4u, group};
  for (uint64_t r = 0; r < rows; ++r) {
    std::vector<float> row(columns);
    for (float& value : row) value = normal(random);
    if (format == Format::kE8Lattice) {
      const colibri::E8Rotation rotation(columns);
      rotation.forward(row);
      for (uint64_t b = 0; b < columns / 256; ++b) {
        std::array<std::byte, 98> block{};
        const std::span<float, 256> part = std::span<float>(row).subspan(b * 256).first<256>();
        colibri::encode_e8_block(best_kernels(), part, block);
        colibri::decode_e8_block(block, part);
        codes += raw_text(block.data(), block.size());
      }
      rotation.inverse(row);
      scales.assign(raw_text(&colibri::kE8Tag, 4));
    } else if (format == Format::kFp8Block128) {
      for (float& value : row) {
        const auto code = static_cast<uint8_t>(random() % 0x7F);
        codes += static_cast<char>(code);
        float wide = 0;
        const auto byte = static_cast<std::byte>(code);
        cast(best_kernels(), DType::F8_E4M3, DType::F32, &byte, reinterpret_cast<std::byte*>(&wide), 1);
        value = wide * 0.5f;
      }
      scales.clear();
      for (uint64_t i = 0; i < colibri::blocks128(rows) * colibri::blocks128(columns); ++i) {
        const float half = 0.5f;
        scales += raw_text(&half, 4);
      }
    } else {
      std::vector<std::byte> coded(colibri::row_bytes(spec, columns));
      std::vector<float> scaled(colibri::row_scales(spec, columns));
      colibri::encode_row(best_kernels(), spec, row, coded, scaled);
      colibri::decode_row(spec, coded, scaled, row);
      codes += raw_text(coded.data(), coded.size());
      scales += raw_text(scaled.data(), scaled.size() * 4);
    }
    out.values.insert(out.values.end(), row.begin(), row.end());
  }
  out.model.files["out-00000.safetensors"] =
      weights({{kTensor, "U8", {codes.size()}, codes},
               {std::string(kTensor) + ".qs", "F32", {scales.size() / 4}, scales}},
              "{}");
  out.model.files["config.json"] =
      "{\"vocab_size\":" + std::to_string(rows) + ",\"hidden_size\":" + std::to_string(columns) + "}";
  return out;
}

}  // namespace

TEST_CASE("any run of a colibri weight is what its rows decode to") {
  struct Form {
    Format format;
    uint64_t rows, columns, group;
  };
  for (const Form& form : {Form{Format::kInt8Row, 7, 50, 64}, Form{Format::kInt4Row, 7, 51, 64},
                           Form{Format::kInt2Row, 5, 30, 64}, Form{Format::kInt4Grouped, 6, 200, 32},
                           Form{Format::kInt3G64, 5, 130, 64}, Form{Format::kE8Lattice, 3, 512, 64},
                           Form{Format::kFp8Block128, 130, 300, 64}}) {
    const std::string id(colibri::format_info(form.format).id);
    INFO(id);
    const Written written = written_model(form.format, form.rows, form.columns, form.group);
    ReaderOptions options;
    options.mode = ReadMode::kInspect;
    const Result<Checkpoint> checkpoint = read_from_memory(written.model, written.model.folder(), options);
    REQUIRE(checkpoint.ok());
    SmallValues small(*checkpoint);
    const LayoutReport layouts = detect_layouts(*checkpoint, small);
    REQUIRE(layouts.findings.size() == 1);
    CHECK(layouts.findings[0].layout == id);
    const Result<TensorValues> values =
        TensorValues::logical(*checkpoint, layouts, *checkpoint->find(kTensor));
    REQUIRE(values.ok());
    CHECK(values->shape() == Shape{form.rows, form.columns});
    CHECK(values->rows() == form.rows);
    CHECK(values->elements() == written.values.size());
    std::mt19937 random(9);
    const std::string& file = written.model.files.at("out-00000.safetensors");
    for (int i = 0; i < 60; ++i) {
      const uint64_t first = random() % written.values.size();
      const uint64_t count = 1 + random() % (written.values.size() - first);
      const std::vector<ShardRange> ranges = values->ranges({first, count});
      REQUIRE(ranges.size() == values->range_count());
      std::vector<std::string> held;
      for (const ShardRange& range : ranges) {
        REQUIRE(range.rows == 1);
        REQUIRE(range.offset + range.row_bytes <= file.size());
        held.push_back(file.substr(range.offset, range.row_bytes));
      }
      std::vector<Bytes> bytes;
      for (const std::string& one : held) bytes.push_back(as_bytes(one));
      const ValueRun run(best_kernels(), *values, {first, count}, bytes);
      CHECK(run.stored(0) == nullptr);
      const uint64_t at = random() % count, part = 1 + random() % (count - at);
      std::vector<float> got(part);
      run.read(at, part, DType::F32, reinterpret_cast<std::byte*>(got.data()));
      CHECK(std::memcmp(got.data(), written.values.data() + first + at, part * 4) == 0);
      std::vector<double> wide(part);
      run.read(at, part, DType::F64, reinterpret_cast<std::byte*>(wide.data()));
      CHECK(wide[part - 1] == static_cast<double>(got[part - 1]));
    }
  }
}
