// The arithmetic of compressed-tensors against vectors that the library itself has made.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "data_file.h"
#include "quant/ct/coding.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

using namespace tftf;

namespace {

std::shared_ptr<const TensorFile> table_file(const std::string& path) {
  auto bytes = std::make_shared<const std::string>(tftf_test::read_data("/golden/" + path));
  auto file = TensorFile::read(path, std::move(bytes));
  if (!file) FAIL(file.error().message);
  return *std::move(file);
}

std::vector<float> numbers(const TensorFile& file, const std::string& name) {
  const auto tensor = file.find(name);
  INFO(name);
  REQUIRE(tensor);
  std::vector<float> out(static_cast<size_t>(element_count(tensor->shape).value()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(element_as_f64(tensor->dtype, tensor->bytes.data(), i));
  return out;
}

DType type_of(const std::string& key) {
  return key.ends_with("bf16") ? DType::BF16 : key.ends_with("f16") ? DType::F16 : DType::F32;
}

uint32_t bits(float x) { return tftf::bit_cast<uint32_t>(x); }

}  // namespace

TEST_CASE("scales and zero points are those of the library's observers, bit by bit") {
  const auto file = table_file("compressed-tensors/tables/qparams.safetensors");
  const JsonDocument tables =
      parse_json(tftf_test::read_data("/golden/compressed-tensors/tables/tables.json"), JsonDialect::kPython);
  REQUIRE_FALSE(tables.error);
  size_t cases = 0;
  for (const JsonValue& one : tables.root.get("qparams")->elements) {
    const std::string key(*one.string("key"));
    Result<ct::Args> args = ct::parse_args(*one.get("args"));
    REQUIRE(args);
    ct::ScaleRule rule;
    rule.type = type_of(key);
    rule.range = ct::code_range(*args);
    rule.symmetric = args->symmetric;
    rule.whole_zeros = !args->is_float;
    rule.exponent_offset = args->bits == 4 ? 2 : 8;
    float global = 1.0f;
    if (key.starts_with("nvfp4")) {
      rule.form = ct::ScaleForm::kE4m3;
      global = numbers(*file, key + ".global_scale").at(0);
    } else if (key.starts_with("mx")) {
      rule.form = ct::ScaleForm::kExponents;
    }
    const auto low = numbers(*file, key + ".min"), high = numbers(*file, key + ".max"),
               scale = numbers(*file, key + ".scale"), zero = numbers(*file, key + ".zero_point");
    for (size_t i = 0; i < low.size(); ++i) {
      INFO(key << " " << low[i] << " to " << high[i]);
      const ct::ScaleAndZero got = ct::scale_between(rule, low[i], high[i], global);
      CHECK(bits(got.scale) == bits(scale[i]));
      // Of a range without width the library's zero point is NaN where it is FP8; 0 keeps the values.
      CHECK((got.zero == zero[i] || (zero[i] != zero[i] && got.zero == 0)));
      ++cases;
    }
  }
  CHECK(cases == 180);
}

TEST_CASE("exponents of MX, global scales and FP4 codes are the library's") {
  const auto file = table_file("simd/compressed_tensors_tables.safetensors");
  for (const bool narrow : {false, true}) {
    const DType type = narrow ? DType::BF16 : DType::F32;
    const std::string suffix = narrow ? "_bf16" : "_f32";
    const auto in = numbers(*file, narrow ? "mx_absmax_in_bf16" : "mx_absmax_in");
    for (const int32_t offset : {2, 8}) {
      const auto out = numbers(*file, (offset == 2 ? "mx4_exp" : "mx8_exp") + suffix);
      REQUIRE(in.size() == out.size());
      for (size_t i = 0; i < in.size(); ++i) {
        INFO(in[i] << " " << offset << suffix);
        CHECK(static_cast<float>(ct::scale_exponent(type, offset, in[i])) ==
              std::min(std::max(out[i], 0.0f), 255.0f));
      }
    }
  }
  const auto largest = numbers(*file, "gparam_in"), global = numbers(*file, "gparam_out");
  for (size_t i = 0; i < largest.size(); ++i) {
    INFO(largest[i]);
    CHECK(bits(ct::global_scale(DType::F32, std::fabs(largest[i]))) == bits(global[i]));
  }
  const auto in = numbers(*file, "fp4_in"), out = numbers(*file, "fp4_out");
  for (const KernelTable* kernels : available_kernels())
    for (size_t i = 0; i < in.size(); ++i) {
      INFO(kernels->name << " " << in[i]);
      const float x = std::min(std::max(in[i] + 0.0f, -6.0f), 6.0f);
      std::byte code{};
      kernels->quantize_e2m1(&x, 1, &code);
      CHECK(f4_values()[static_cast<uint8_t>(code)] == out[i]);
    }
}

TEST_CASE("fields are packed along rows and columns as the library packs them") {
  const auto file = table_file("compressed-tensors/tables/packing.safetensors");
  size_t cases = 0;
  for (const TensorInfo& info : file->tensors()) {
    if (!info.name.ends_with(".int8")) continue;
    const std::string key = info.name.substr(0, info.name.size() - 5);
    const auto codes = *file->find(info.name), packed = *file->find(key + ".packed");
    const auto width = static_cast<uint32_t>(key[1] - '0');
    INFO(key);
    const bool down = key.find("dim0") != std::string::npos;
    // Stacks are packed matrix by matrix.
    uint64_t matrices = 1;
    for (size_t i = 0; i + 2 < codes.shape.size(); ++i) matrices *= codes.shape[i];
    const uint64_t rows = codes.shape[codes.shape.size() - 2], columns = codes.shape.back();
    const uint64_t words = packed.bytes.size() / 4 / matrices;
    for (uint64_t m = 0; m < matrices; ++m) {
      std::string got;
      if (down) {
        ct::Coding coding;
        coding.bits = width;
        coding.rows = rows;
        coding.grid_columns = columns;
        std::vector<float> zeros;
        for (uint64_t i = 0; i < rows * columns; ++i)
          zeros.push_back(static_cast<float>(static_cast<int8_t>(codes.bytes[m * rows * columns + i])));
        got = ct::packed_zeros(coding, zeros);
      } else {
        const uint64_t row_bytes = ct::packed_words(columns, width, false) * 4;
        got.assign(rows * row_bytes, '\0');
        for (uint64_t r = 0; r < rows; ++r)
          ct::pack_row(reinterpret_cast<const int8_t*>(codes.bytes.data()) + (m * rows + r) * columns,
                       columns, width, false, reinterpret_cast<std::byte*>(got.data()) + r * row_bytes);
      }
      REQUIRE(got.size() == words * 4);
      CHECK(std::memcmp(got.data(), packed.bytes.data() + m * words * 4, got.size()) == 0);
    }
    ++cases;
  }
  CHECK(cases == 50);
}

TEST_CASE("of four elements the two are kept that the library's search keeps") {
  // By its own algorithm over values that tie: computed by hand for none and one.
  CHECK(ct::kept_of_four(0b0000) == 0b1100);
  for (const uint32_t two : {0b0011u, 0b0101u, 0b1001u, 0b0110u, 0b1010u, 0b1100u})
    CHECK(ct::kept_of_four(two) == two);
  for (const uint32_t one : {0b0001u, 0b0010u, 0b0100u, 0b1000u}) {
    const uint32_t kept = ct::kept_of_four(one);
    CHECK((kept & one) == one);
    CHECK(__builtin_popcount(kept) == 2);
  }
  CHECK(ct::kept_of_four(0b0111) == 0);
}

TEST_CASE("marlin-24 is refused where its own compressor refuses it") {
  const JsonDocument cases = parse_json(
      tftf_test::read_data("/golden/compressed-tensors/marlin24_rejections.json"), JsonDialect::kPython);
  REQUIRE_FALSE(cases.error);
  const std::string module = "m";
  for (const JsonValue& one : cases.root.elements) {
    const std::string id(*one.string("case"));
    INFO(id);
    if (id == "notsparse") continue;  // only the values show it: quantize_scheme_test.cpp
    Result<ct::Args> args = ct::parse_args(*one.get("args"));
    REQUIRE(args);
    if (args->bits == 8) args->bits = 4;
    const ct::CodingRequest request{module,
                                    static_cast<uint64_t>(*one.integer("rows")),
                                    static_cast<uint64_t>(*one.integer("cols")),
                                    DType::F16,
                                    "marlin-24",
                                    &*args};
    const Result<Encoded> encoded = ct::plan_marlin(request);
    REQUIRE_FALSE(encoded.ok());
    CHECK(encoded.error().tensor == "m.weight");
  }
  CHECK(cases.root.elements.size() == 6);
}
