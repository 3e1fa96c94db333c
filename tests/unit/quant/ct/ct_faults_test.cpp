// compressed-tensors: what does not fit is a problem with what was expected and what was found; where the configuration and
// the tensors disagree the tensors decide, and it is said.
#include <catch2/catch.hpp>

#include "header_model.h"
#include "tftf/quant/weight.h"

using namespace tftf;

namespace {

std::string int64_bytes(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) bytes.append(reinterpret_cast<const char*>(&value), 8);
  return bytes;
}

std::string group_config(const std::string& weights, const std::string& more = "") {
  return R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
      "weights": {)" +
         weights + "}}}" + more + "}}";
}

const std::string kInt4Group = group_config(R"("num_bits": 4, "group_size": 32)");
const std::string kInt8Channel = group_config(R"("num_bits": 8, "strategy": "channel")");
const std::string kFp8Block = group_config(R"("num_bits": 8, "type": "float", "strategy": "block",
    "block_structure": [4, 4])");

std::string packed_fault(Shape packed, Shape scale, std::vector<int64_t> shape,
                         std::vector<HeaderTensor> more = {}, const std::string& config = kInt4Group) {
  std::vector<HeaderTensor> tensors = {{"m.weight_packed", DType::I32, std::move(packed)},
                                       {"m.weight_scale", DType::BF16, std::move(scale)},
                                       {"m.weight_shape", DType::I64, {shape.size()}, int64_bytes(shape)}};
  tensors.insert(tensors.end(), more.begin(), more.end());
  const LayoutReport report = HeaderModel(tensors, config).detect();
  return report.problems.empty() ? "" : report.problems[0].what;
}

std::string fault(std::vector<HeaderTensor> tensors, const std::string& config) {
  const LayoutReport report = HeaderModel(std::move(tensors), config).detect();
  return report.problems.empty() ? "" : report.problems[0].what;
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

std::string notes(std::vector<HeaderTensor> tensors, const std::string& config) {
  const LayoutReport report = HeaderModel(std::move(tensors), config).detect();
  CHECK(report.problems.empty());
  std::string all;
  for (const std::string& note : report.notes) all += note + "\n";
  return all;
}

}  // namespace

TEST_CASE("packed weights: every geometry fault names what was expected") {
  CHECK(packed_fault({12, 8}, {12, 2}, {12, 64}) == "");
  says(packed_fault({12, 8}, {12, 3}, {12, 64}), "weight_scale is [12,3], expected [12,2]");
  says(packed_fault({12, 8}, {2, 12}, {12, 64}), "transposed");
  says(packed_fault({12, 9}, {12, 1}, {12, 64}), "9 words for 64 columns, expected 8 for 4 bits");
  says(packed_fault({11, 8}, {12, 1}, {12, 64}), "weight_packed is [11,8], and weight_shape says [12,64]");
  says(packed_fault({12, 8}, {12, 1}, {12, 64, 1}), "weight_shape is [3], expected [2]");
  says(packed_fault({12, 12}, {12, 2}, {12, 96}, {}, group_config(R"("num_bits": 4, "group_size": 64)")),
       "96 columns are no multiple of the group size 64");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {{"m.weight_g_idx", DType::I32, {63}}}),
       "weight_g_idx is [63]");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {{"m.weight_g_idx", DType::I64, {64}}}), "I64, expected I32");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {{"m.weight_zero_point", DType::I8, {12, 3}}}),
       "weight_zero_point is [12,3], expected [12,2]");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {{"m.weight_zero_point", DType::I32, {2, 8}}}),
       "nothing brings them back");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {{"m.weight", DType::BF16, {12, 64}}}), "both there");
  says(packed_fault({12, 8}, {12, 2}, {12, 64}, {},
                    group_config(R"("num_bits": 4, "group_size": 32, "symmetric": false)")),
       "weight_zero_point is missing");
}

TEST_CASE("packed weights whose bits or packing nothing tells are refused") {
  says(packed_fault({4, 5}, {4, 1}, {4, 50}, {}, group_config(R"("num_bits": 3, "strategy": "channel")")),
       "fill in two ways");
  CHECK(packed_fault({4, 5}, {4, 1}, {4, 50}, {},
                     group_config(R"("num_bits": 3, "strategy": "channel")", R"(, "version": "0.17.1")")) ==
        "");
  says(packed_fault({4, 1}, {4, 1}, {4, 4}, {}, ""), "does not tell the number of bits");
}

TEST_CASE("codes of one element each: faults") {
  says(fault({{"m.weight", DType::I8, {8, 16}}, {"m.weight_scale", DType::BF16, {7, 1}}}, kInt8Channel),
       "weight_scale is [7,1], expected [8,1]");
  says(fault({{"m.weight", DType::I8, {8, 16}}, {"m.weight_scale", DType::I32, {8, 1}}}, kInt8Channel),
       "expected F16, BF16 or F32");
  says(fault({{"m.weight", DType::F8_E5M2, {8, 16}}, {"m.weight_scale", DType::BF16, {8, 1}}}, kInt8Channel),
       "expected F8_E4M3");
  says(fault({{"m.weight", DType::I8, {8, 16}}}, kInt8Channel), "weight_scale is missing");
  says(fault({{"m.weight", DType::F8_E4M3, {10, 14}}, {"m.weight_scale", DType::BF16, {2, 3}}}, kFp8Block),
       "expected [3,4]");
  CHECK(fault({{"m.weight", DType::F8_E4M3, {10, 14}}, {"m.weight_scale", DType::BF16, {3, 4}}}, kFp8Block) ==
        "");
}

TEST_CASE("small groups under scales of a byte: faults") {
  const auto nvfp4 = [](Shape packed, Shape scale, DType dtype, Shape global) {
    return fault({{"m.weight_packed", DType::U8, std::move(packed)},
                  {"m.weight_scale", dtype, std::move(scale)},
                  {"m.weight_global_scale", DType::F32, std::move(global)}},
                 "");
  };
  CHECK(nvfp4({12, 32}, {12, 4}, DType::F8_E4M3, {}) == "");
  says(nvfp4({12, 32}, {12, 5}, DType::F8_E4M3, {1}), "weight_scale is [12,5], expected [12,4]");
  says(nvfp4({12, 32}, {128, 4}, DType::F8_E4M3, {1}), "swizzled");
  says(nvfp4({12, 20}, {12, 3}, DType::F8_E4M3, {1}), "40 columns are no multiple of the group size 16");
  says(nvfp4({12, 32}, {12, 4}, DType::F8_E4M3, {2}), "expected F32 [1]");
  says(nvfp4({12, 32}, {12, 2}, DType::U8, {1}), "MXFP4 has not");
  says(fault({{"m.weight_packed", DType::U8, {12, 32}}, {"m.weight_scale", DType::F32, {12, 2}}}, kInt4Group),
       "expected F8_E4M3 (NVFP4) or U8 (MXFP4)");
  says(fault({{"m.weight", DType::F8_E4M3, {4, 64}}, {"m.weight_scale", DType::U8, {4, 3}}}, kInt4Group),
       "expected [4,2]");
}

TEST_CASE("sparse weights and Marlin: faults") {
  const auto sparse = [](Shape compressed, Shape mask, Shape offsets) {
    std::vector<HeaderTensor> tensors = {{"m.compressed", DType::BF16, std::move(compressed)},
                                         {"m.bitmask", DType::U8, std::move(mask)},
                                         {"m.shape", DType::I64, {2}, int64_bytes({4, 12})}};
    if (!offsets.empty()) tensors.push_back({"m.row_offsets", DType::I64, std::move(offsets)});
    return fault(tensors, "");
  };
  CHECK(sparse({5}, {4, 2}, {4}) == "");
  CHECK(sparse({4, 6}, {4, 2}, {}) == "");
  says(sparse({5}, {4, 3}, {4}), "bitmask is [4,3], expected [4,2]");
  says(sparse({5}, {4, 2}, {5}), "row_offsets is I64 [5], expected I64 [4]");
  says(sparse({49}, {4, 2}, {4}), "49 elements");
  says(sparse({4, 5}, {4, 2}, {}), "expected [4,6]");
  const auto marlin = [](Shape packed, Shape scales, Shape meta) {
    return fault({{"m.weight_packed", DType::I32, std::move(packed)},
                  {"m.scale_packed", DType::F16, std::move(scales)},
                  {"m.meta", DType::I16, std::move(meta)}},
                 "");
  };
  CHECK(marlin({4, 128}, {1, 64}, {4, 128}) == "");
  says(marlin({4, 128}, {1, 32}, {4, 64}), "no multiple of 64 rows");
  says(marlin({4, 127}, {1, 64}, {4, 128}), "expected [4,128] for 4 bits or [4,256] for 8");
  says(marlin({4, 128}, {1, 64}, {4, 127}), "meta is [4,127], expected [4,128]");
  says(marlin({4, 128}, {3, 64}, {4, 128}), "3 groups");
}

TEST_CASE("where the configuration and the tensors disagree the tensors decide, and it is said") {
  const std::vector<HeaderTensor> int8 = {{"m.weight", DType::I8, {8, 16}},
                                          {"m.weight_scale", DType::BF16, {8, 1}}};
  CHECK(notes(int8, kInt8Channel) == "");
  says(notes(int8, group_config(R"("num_bits": 8, "type": "float", "strategy": "channel")")),
       "module \"m\" is not what the configuration says");
  says(notes(int8, group_config(R"("num_bits": 8, "strategy": "channel")", R"(, "ignore": ["m"])")),
       "is ignored by the configuration");
  const std::string other = R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups":
      {"g": {"targets": ["other"], "weights": {"num_bits": 8, "strategy": "channel"}}}}})";
  says(notes(int8, other), "no group of the configuration means it");
  says(notes({{"m.weight", DType::I8, {8, 64}}, {"m.weight_scale", DType::BF16, {8, 4}}}, kInt8Channel),
       "is not what the configuration says");
}

TEST_CASE("a configuration that its parser refuses stands in the way") {
  says(fault({{"m.weight", DType::I8, {8, 16}}, {"m.weight_scale", DType::BF16, {8, 1}}},
             group_config(R"("num_bits": 8, "strategy": "channel", "surprise": 1)")),
       "surprise");
}

TEST_CASE("the group of another name is found where the first does not fit") {
  const std::string config =
      R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {
      "a": {"targets": ["re:m"], "weights": {"num_bits": 4, "group_size": 16}},
      "b": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32}}}}})";
  const LayoutReport report = HeaderModel({{"m.weight_packed", DType::I32, {12, 8}},
                                           {"m.weight_scale", DType::BF16, {12, 2}},
                                           {"m.weight_shape", DType::I64, {2}, int64_bytes({12, 64})}},
                                          config)
                                  .detect();
  CHECK(report.problems.empty());
  CHECK(report.notes.empty());
  CHECK(report.findings.at(0).matches.at(0).group_size == 32);
}
