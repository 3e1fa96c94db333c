#include <catch2/catch.hpp>
#include <set>

#include "layout_cases.h"

using namespace tftf;

TEST_CASE("every layout of the registry has its smallest model, and is found in it alone") {
  std::set<std::string_view> covered;
  for (const LayoutCase& one : layout_cases()) {
    INFO(one.layout);
    CHECK(covered.insert(one.layout).second);
    REQUIRE(find_quant_format(one.layout) != nullptr);
    const HeaderModel model(one.tensors, one.config, one.metadata);
    const LayoutReport report = model.detect();
    for (const QuantProblem& problem : report.problems) UNSCOPED_INFO(problem.layout << ": " << problem.what);
    CHECK(report.problems.empty());
    REQUIRE(report.findings.size() == 1);
    const QuantFinding& finding = report.findings[0];
    CHECK(finding.layout == one.layout);
    REQUIRE(finding.matches.size() == 1);
    const QuantMatch& match = finding.matches[0];
    CHECK(match.layout == one.layout);
    CHECK(match.logical_dtype == one.dtype);
    CHECK((match.logical_shape ? shape_text(*match.logical_shape) : "none") ==
          (one.logical ? shape_text(*one.logical) : "none"));
    CHECK_FALSE(match.role.empty());
    // The module and all its tensors: nothing is left over, nothing is there twice.
    std::set<std::pair<uint32_t, uint32_t>> tensors = {{match.weight.shard, match.weight.tensor}};
    for (const QuantCompanion& companion : match.companions)
      CHECK(tensors.emplace(companion.tensor.shard, companion.tensor.tensor).second);
    for (TensorRef extra : finding.extras) CHECK(tensors.emplace(extra.shard, extra.tensor).second);
    CHECK(tensors.size() == one.tensors.size());
    CHECK(finding.evidence.find("1 " +
                                std::string(dtype_name(model.checkpoint().info(match.weight).dtype))) == 0);
  }
  for (const QuantFormat* format : quant_formats()) {
    INFO(format->id);
    CHECK(covered.count(format->id) == 1);
  }
}

TEST_CASE("a layout is not there without a part that it needs") {
  for (const LayoutCase& one : layout_cases())
    for (const std::string& missing : one.required) {
      INFO(one.layout << " without " << missing);
      LayoutCase less = one;
      less.tensors.erase(std::remove_if(less.tensors.begin(), less.tensors.end(),
                                        [&](const HeaderTensor& t) { return t.name == missing; }),
                         less.tensors.end());
      const HeaderModel model(less.tensors, less.config, less.metadata);
      const auto found = model.found();
      CHECK(found.count(std::string(one.layout)) == 0);
    }
}

TEST_CASE("the same names over plain floats are no layout") {
  for (const LayoutCase& one : layout_cases()) {
    INFO(one.layout);
    if (one.layout == "ct-dense") continue;  // plain floats, with scales that are not theirs
    LayoutCase plain = one;
    for (HeaderTensor& tensor : plain.tensors) {
      tensor.dtype = DType::F32;
      tensor.bytes.clear();
    }
    auto found = HeaderModel(plain.tensors, plain.config, plain.metadata).found();
    found.erase("ct-dense");  // floats with the scales that calibration has left beside them
    CHECK(found.empty());
  }
}

TEST_CASE("several layouts live in one model, each module in one of them") {
  std::vector<HeaderTensor> tensors;
  std::set<std::string> wanted;
  for (const LayoutCase& one : layout_cases()) {
    if (!one.config.empty() || !one.metadata.empty()) continue;
    wanted.emplace(one.layout);
    for (HeaderTensor tensor : one.tensors) {
      if (tensor.name != "scaled_fp8") tensor.name = std::string(one.layout) + "." + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  // Under a marker an F8 weight without its scale is broken, so the two exclude each other.
  wanted.erase("fp8-unscaled");
  const HeaderModel model(tensors);
  const LayoutReport report = model.detect();
  std::set<std::string> found;
  std::set<std::pair<uint32_t, uint32_t>> used;
  for (const QuantFinding& finding : report.findings) {
    found.emplace(finding.layout);
    for (const QuantMatch& match : finding.matches) {
      CHECK(used.emplace(match.weight.shard, match.weight.tensor).second);
      for (const QuantCompanion& one : match.companions)
        CHECK(used.emplace(one.tensor.shard, one.tensor.tensor).second);
    }
  }
  CHECK(found == wanted);
}

TEST_CASE("a module is offered to the families in their order, and ids are unique") {
  std::set<std::string_view> ids;
  for (const QuantFormat* format : quant_formats()) {
    CHECK(ids.insert(format->id).second);
    CHECK(find_quant_format(format->id) == format);
    CHECK_FALSE(format->title.empty());
  }
  CHECK(find_quant_format("colibri-fp8") == find_quant_format("colibri-fp8-e4m3-b128"));
  CHECK(find_quant_format("gptq-v3") == nullptr);
}

TEST_CASE("ninety thousand tensors are searched in a moment") {
  std::vector<HeaderTensor> tensors;
  for (int i = 0; i < 30000; ++i) {
    const std::string module =
        "model.layers." + std::to_string(i / 500) + ".mlp.experts." + std::to_string(i % 500) + ".up_proj";
    tensors.push_back({module + ".weight", DType::F8_E4M3, {0, 0}});
    tensors.back().shape = {1, 1};
    tensors.push_back({module + ".weight_scale_inv", DType::F32, {1, 1}});
    tensors.push_back({module + ".bias", DType::BF16, {1}});
  }
  const HeaderModel model(std::move(tensors));
  const auto found = model.found();
  CHECK(found == std::map<std::string, size_t>{{"fp8-block", 30000}});
}
