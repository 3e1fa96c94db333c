// Goes through the list of layouts: what is read has reference bytes, refuses parts of another shape, and decodes to the
// same elements however they are cut.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>

#include "data_file.h"
#include "layout_cases.h"
#include "layout_references.h"
#include "tftf/base/json_value.h"
#include "tftf/quant/undecided.h"
#include "tftf/quant/weight.h"

using namespace tftf;

namespace {

// Ids that a golden set holds a successful `dequant` (or `stats`) case of.
void add_referenced(const std::string& manifest, std::set<std::string>& ids) {
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
    for (const JsonValue& id : layouts->elements) ids.insert(std::string(id.text));
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
  const LayoutReport report = model.detect();
  OpenContext context{model.checkpoint(), read_quant_config(model.checkpoint())};
  Result<Weight> weight = Error{.message = "not found"};
  for (const QuantFinding& finding : report.findings)
    for (const QuantMatch& match : finding.matches)
      if (match.layout == one.layout) weight = open_weight(context, match);
  return {std::move(model), std::move(weight)};
}

// Elements of one tile, decoded in pieces of `step` elements; nothing when its codes are broken.
std::vector<float> decode(const OpenedCase& one, ElementRange tile, uint64_t step,
                          const KernelTable& kernels) {
  const Weight& weight = *one.weight;
  PartRanges ranges;
  weight.decoder->reads(weight, tile, ranges);
  REQUIRE(ranges.size() == weight.reads);
  std::vector<std::string> held;
  for (const PartRange& range : ranges) {
    REQUIRE(range.part < weight.parts.size());
    const std::string data = one.model.bytes_of(weight.parts[range.part].tensor);
    std::string bytes;
    for (uint64_t row = 0; row < range.rows; ++row) {
      const uint64_t begin = range.offset + row * range.stride;
      REQUIRE(begin + range.row_bytes <= data.size());
      bytes += data.substr(static_cast<size_t>(begin), static_cast<size_t>(range.row_bytes));
    }
    held.push_back(bytes);
  }
  // Aligned as a host's buffers are, and not a byte longer.
  std::vector<std::vector<std::max_align_t>> aligned;
  std::vector<const std::byte*> bytes;
  for (const std::string& part : held) {
    aligned.emplace_back(part.size() / sizeof(std::max_align_t) + 1);
    std::memcpy(aligned.back().data(), part.data(), part.size());
    bytes.push_back(reinterpret_cast<const std::byte*>(aligned.back().data()));
  }
  const uint64_t size = weight.decoder->scratch == nullptr ? 0 : weight.decoder->scratch(weight, tile.count);
  std::vector<std::max_align_t> scratch(static_cast<size_t>(size / sizeof(std::max_align_t) + 1));
  const DecodeTask task{kernels, tile, bytes, reinterpret_cast<std::byte*>(scratch.data())};
  if (weight.decoder->begin != nullptr && !weight.decoder->begin(weight, task)) return {};
  std::vector<float> out(static_cast<size_t>(tile.count));
  for (uint64_t at = 0; at < tile.count; at += step) {
    const ElementRange piece{tile.first + at, std::min(step, tile.count - at)};
    weight.decoder->decode(weight, task, piece, DType::F32, reinterpret_cast<std::byte*>(out.data() + at));
  }
  return out;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("every layout that is read has reference bytes, or says why not") {
  std::set<std::string> ids;
  for (const char* set : {"quant", "quant2"})
    add_referenced(tftf_test::read_data(std::string("/golden/") + set + "/manifest.json"), ids);
  for (const QuantFormat* format : quant_formats()) {
    INFO(format->id);
    if (!format->read()) continue;
    const bool excused = std::any_of(std::begin(kLayoutsWithoutReference), std::end(kLayoutsWithoutReference),
                                     [&](const auto& one) { return one.layout == format->id; });
    // colibri's and compressed-tensors' references are sets of their own, in the forms of their tools.
    const bool own_set = format->id.substr(0, 8) == "colibri-" || format->id.substr(0, 3) == "ct-";
    CHECK((ids.count(std::string(format->id)) > 0 || own_set || excused));
  }
  for (const auto& one : kLayoutsWithoutReference) {
    INFO(one.layout);
    CHECK(find_quant_format(one.layout) != nullptr);
    CHECK(ids.count(std::string(one.layout)) == 0);
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
        (void)decode(opened_case, {0, weight.elements}, weight.elements, scalar_kernels());
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
    const std::vector<float> all = decode(one, {0, weight.elements}, weight.elements, scalar_kernels());
    REQUIRE(all.size() == weight.elements);
    CHECK(std::any_of(all.begin(), all.end(), [](float x) { return x != 0.0f; }));
    const uint64_t unit = std::max(weight.unit, weight.tile_unit);
    for (const KernelTable* kernels : available_kernels())
      for (const uint64_t units : {1, 2, 3, 7}) {
        std::vector<float> joined;
        for (uint64_t first = 0; first < weight.elements; first += unit * units) {
          const ElementRange tile{first, std::min(unit * units, weight.elements - first)};
          const std::vector<float> part = decode(one, tile, weight.unit * 2, *kernels);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        INFO(kernels->name << ", tiles of " << units << " units");
        CHECK(equal_bits(joined, all));
      }
  }
  CHECK(read >= 11);
}
