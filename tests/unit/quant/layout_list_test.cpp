// Goes through the list of layouts: what is read has reference bytes, refuses parts of another shape, and decodes to the
// same elements however they are cut.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "data_file.h"
#include "layout_cases.h"
#include "layout_references.h"
#include "layout_values.h"
#include "tftf/base/json_value.h"
#include "tftf/container/header.h"
#include "tftf/quant/undecided.h"
#include "tftf/quant/weight.h"
#include "tftf/simd/cast.h"

using namespace tftf;

namespace {

// Of the successful `dequant` cases of the golden sets, by layout: how many were made by the producer's own code, and how many
// by a formula.
struct GoldenCases {
  size_t run = 0, formula = 0;
};
void add_golden_cases(const std::string& manifest, std::map<std::string, GoldenCases>& found) {
  const JsonDocument json = parse_json(manifest, JsonDialect::kPython);
  REQUIRE_FALSE(json.error);
  const JsonValue* cases = json.root.get("cases");
  REQUIRE(cases != nullptr);
  for (const JsonValue& one : cases->elements) {
    const JsonValue* layouts = one.get("layouts");
    const JsonValue* argv = one.get("argv");
    if (one.string("kind") != "ok" || layouts == nullptr || argv == nullptr || argv->elements.empty())
      continue;
    if (argv->elements[0].text != "dequant" || one.get("files") == nullptr) continue;
    const std::string by(one.string("produced_by").value_or(""));
    const auto begins = [&by](const char* word) { return by.rfind(word, 0) == 0; };
    const bool formula = begins("formula") || begins("hand-derived") || begins("geometry");
    for (const JsonValue& id : layouts->elements) {
      GoldenCases& of = found[std::string(id.text)];
      ++(formula ? of.formula : of.run);
    }
  }
}

// A smallest model with seeded bytes instead of zeros, where nothing is said of them.
LayoutCase with_values(LayoutCase one, uint32_t seed) {
  std::mt19937 random(seed);
  for (HeaderTensor& tensor : one.tensors) {
    const bool index =
        tensor.name.find("g_idx") != std::string::npos || tensor.name.find("perm") != std::string::npos;
    if (!tensor.bytes.empty() || index || tensor.dtype == DType::I64) continue;
    const uint64_t size = element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8;
    tensor.bytes.resize(static_cast<size_t>(size));
    for (char& byte : tensor.bytes) byte = static_cast<char>(random() & 0x3F);  // no NaN, no huge exponent
  }
  return one;
}

struct OpenedCase {
  HeaderModel model;
  Result<Weight> weight;
};

OpenedCase opened(const LayoutCase& one) {
  HeaderModel model(one.tensors, one.config, one.metadata);
  Result<Weight> weight = test::open_module(model, one.layout);
  return {std::move(model), std::move(weight)};
}

// A file of the model with its values, as tests/fuzz/packed_folder.h takes it.
std::string packed(const LayoutCase& one) {
  std::vector<OutputEntry> entries;
  std::string data;
  for (const HeaderTensor& tensor : one.tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
    std::string bytes = tensor.bytes;
    bytes.resize(static_cast<size_t>(element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8));
    data += bytes;
  }
  const Result<std::string> header = write_header(entries, one.metadata, HeaderForm::kTftf);
  REQUIRE(header.ok());
  std::string out = "model.safetensors\x1d" + *header + data;
  if (!one.config.empty())
    out +=
        "\x1c\x1c\x1c\x1c"
        "config.json\x1d" +
        one.config;
  return out;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string seed_path(const LayoutCase& one) { return "/fuzz/corpus/layout/" + std::string(one.layout); }

}  // namespace

TEST_CASE("every layout that is read says where its reference bytes come from, and the golden cases agree") {
  std::map<std::string, GoldenCases> found;
  for (const char* set : {"quant", "quant2"})
    add_golden_cases(tftf_test::read_data(std::string("/golden/") + set + "/manifest.json"), found);
  for (const QuantFormat* format : quant_formats()) {
    INFO(format->id);
    const auto said = std::count_if(std::begin(kLayoutReferences), std::end(kLayoutReferences),
                                    [&](const auto& one) { return one.layout == format->id; });
    CHECK(said == (format->read() ? 1 : 0));
  }
  for (const LayoutReference& one : kLayoutReferences) {
    INFO(one.layout);
    CHECK(find_quant_format(one.layout) != nullptr);
    CHECK_FALSE(one.text.empty());
    if (one.layout.substr(0, 8) == "colibri-" || one.layout.substr(0, 3) == "ct-") continue;
    const GoldenCases cases = found[std::string(one.layout)];
    if (one.kind == ReferenceKind::kRun) CHECK(cases.run > 0);
    if (one.kind == ReferenceKind::kFormula) CHECK((cases.run == 0 && cases.formula > 0));
    if (one.kind == ReferenceKind::kNone) CHECK(cases.run + cases.formula == 0);
  }
}

// TFTF_WRITE_SEEDS=1 writes them.
TEST_CASE("every layout that is read has its smallest model as a seed for the fuzzer") {
  const bool writes = std::getenv("TFTF_WRITE_SEEDS") != nullptr;
  for (const LayoutCase& one : layout_cases()) {
    if (!find_quant_format(one.layout)->read()) continue;
    INFO(one.layout << ": TFTF_WRITE_SEEDS=1 tftf_unit_tests '[#layout_list_test]' writes the seeds anew");
    const std::string seed = packed(with_values(one, 5));
    if (writes) std::ofstream(TFTF_TEST_DATA + seed_path(one), std::ios::binary) << seed;
    CHECK((tftf_test::read_data(seed_path(one)) == seed));
  }
}

TEST_CASE("a decoder that rounds gives what a cast of its F32 gives, by every kernel table") {
  for (const LayoutCase& plain : layout_cases()) {
    if (!find_quant_format(plain.layout)->read() || plain.layout == kUndecidedNvfp4) continue;
    if (plain.layout == "colibri-int4-rans256-g0") continue;
    INFO(plain.layout);
    const OpenedCase one = opened(with_values(plain, 6));
    REQUIRE(one.weight.ok());
    const Weight& weight = *one.weight;
    if (!weight.decoder->rounds) continue;
    const ElementRange all{0, weight.elements};
    const std::string wide = test::decode_tile(one.model, weight, all, weight.elements, scalar_kernels());
    for (const DType to : {DType::BF16, DType::F16}) {
      std::string narrow(wide.size() / 2, '\0');
      cast(scalar_kernels(), DType::F32, to, reinterpret_cast<const std::byte*>(wide.data()),
           reinterpret_cast<std::byte*>(narrow.data()), weight.elements);
      for (const KernelTable* kernels : available_kernels()) {
        INFO(kernels->name << " " << dtype_name(to));
        CHECK((test::decode_tile(one.model, weight, all, weight.unit * 3, *kernels, to) == narrow));
      }
    }
  }
}

TEST_CASE("a part of another shape is refused, or nothing is read beyond it") {
  for (const LayoutCase& one : layout_cases()) {
    if (!find_quant_format(one.layout)->read()) continue;
    for (size_t i = 0; i < one.tensors.size(); ++i) {
      const std::string& name = one.tensors[i].name;
      if (std::find(one.required.begin(), one.required.end(), name) == one.required.end()) continue;
      if (!one.tensors[i].bytes.empty()) continue;  // a text or a list of sizes: its own tests
      for (const uint64_t more : {1, 2, 3}) {
        LayoutCase changed = one;
        Shape& shape = changed.tensors[i].shape;
        if (shape.empty()) {
          shape = {2, 1 + more};
        } else if (more == 3) {
          shape.front() += 1;
        } else {
          shape.back() += more;
        }
        INFO(one.layout << ": " << name << " " << shape_text(shape));
        const OpenedCase opened_case = opened(changed);
        if (!opened_case.weight.ok()) continue;
        // The codes and their other parts may fit each other in the new size; then nothing reads beyond them.
        const Weight& weight = *opened_case.weight;
        if (weight.elements == 0) continue;
        (void)test::tile_values(opened_case.model, weight, {0, weight.elements}, weight.elements,
                                scalar_kernels());
      }
    }
  }
}

TEST_CASE("a weight decodes to the same elements however it is cut, by every kernel table") {
  size_t read = 0;
  for (const LayoutCase& plain : layout_cases()) {
    if (!find_quant_format(plain.layout)->read() || plain.layout == kUndecidedNvfp4) continue;
    ++read;
    INFO(plain.layout);
    const OpenedCase one = opened(with_values(plain, 5));
    if (!one.weight.ok()) UNSCOPED_INFO(one.weight.error().message);
    if (plain.layout == "colibri-int4-rans256-g0") continue;  // a record needs its coder: tests of its own
    REQUIRE(one.weight.ok());
    const Weight& weight = *one.weight;
    REQUIRE(weight.elements > 0);
    CHECK(element_count(weight.shape) == weight.elements);
    CHECK(weight.unit > 0);
    const std::vector<float> all =
        test::tile_values(one.model, weight, {0, weight.elements}, weight.elements, scalar_kernels());
    REQUIRE(all.size() == weight.elements);
    CHECK(std::any_of(all.begin(), all.end(), [](float x) { return x != 0.0f; }));
    const uint64_t unit = std::max(weight.unit, weight.tile_unit);
    for (const KernelTable* kernels : available_kernels())
      for (const uint64_t units : {1, 2, 3, 7}) {
        std::vector<float> joined;
        for (uint64_t first = 0; first < weight.elements; first += unit * units) {
          const ElementRange tile{first, std::min(unit * units, weight.elements - first)};
          const std::vector<float> part =
              test::tile_values(one.model, weight, tile, weight.unit * 2, *kernels);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        INFO(kernels->name << ", tiles of " << units << " units");
        CHECK(equal_bits(joined, all));
      }
  }
  CHECK(read >= 11);
}
