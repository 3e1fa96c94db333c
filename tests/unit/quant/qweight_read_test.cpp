// GPTQ and AWQ: reading against the reference files, odd shapes, tiles, kernels, and every fault of geometry.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "data_file.h"
#include "qweight_models.h"
#include "tftf/base/json_text.h"
#include "tftf/inspect/statistics.h"
#include "value_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

std::string golden_folder(const std::string& id) {
  return (id.compare(0, 9, "autoround") == 0 ? "/golden/quant2/" : "/golden/quant/") + id + "/";
}

MemoryModel golden_model(const std::string& id) {
  MemoryModel model;
  const std::string folder = golden_folder(id);
  model.files["model.safetensors"] = tftf_test::read_data(folder + "model.safetensors");
  model.files["config.json"] = tftf_test::read_data(folder + "config.json");
  return model;
}

Operation dequant_to(const std::string& dtype) { return {.id = "dequant", .options = {{"dtype", {dtype}}}}; }

Result<TransformResult> qweight_dequantised(const MemoryModel& model, const std::string& dtype,
                                            uint64_t tile = kDefaultTileBytes,
                                            TransformHostOptions host = {}) {
  TransformRequest request{.command = "dequant", .operations = {dequant_to(dtype)}, .tile_bytes = tile};
  return transform_in_memory(model, model.folder(), std::move(request), host);
}

MemoryModel qweight_model_of(const QweightModule& module, std::vector<TestTensor> tensors) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = "{\"quantization_config\": " + section_of(module) + "}";
  return model;
}

void check_weight(const TransformResult& result, const std::vector<float>& weight,
                  const std::string& name = "m.weight") {
  const TestTensor got = result_tensors(result).at(name);
  CHECK(got.dtype == DType::F32);
  CHECK((got.bytes == f32_bytes(weight)));
}

}  // namespace

TEST_CASE("reference files of GPTQ, AWQ and auto-round, whatever the tiles and kernels") {
  for (const char* id : {"gptq-v1-4b-g32-sym",
                         "gptq-v1-2b-g32-sym",
                         "gptq-v1-3b-g32-asym",
                         "gptq-v1-8b-g32-sym",
                         "gptq-v1-4b-actorder",
                         "gptq-v1-4b-g64-k96-ragged",
                         "gptq-v1-4b-gm1",
                         "gptq-n40",
                         "gptq-v1-zero-wrap",
                         "gptq-v2-4b-g32-asym",
                         "gptq-v2-3b-asym",
                         "gptq-bf16-scales",
                         "gptq-dynamic-bits",
                         "awq-g32",
                         "awq-gm1",
                         "awq-g64",
                         "awq-gemv-g64",
                         "awq-gemv-g128",
                         "awq-nozp",
                         "autoround-gptq-4b-sym",
                         "autoround-native-4b-asym",
                         "autoround-awq-4b"}) {
    INFO(id);
    const MemoryModel model = golden_model(id);
    const auto want = tensors_of(tftf_test::read_data(golden_folder(id) + "expected.safetensors"));
    for (const uint64_t tile : {uint64_t{1}, uint64_t{3000}, kDefaultTileBytes}) {
      for (const KernelTable* kernels : available_kernels()) {
        const auto result = qweight_dequantised(model, "native", tile, {.kernels = kernels, .seed = 3});
        INFO((result ? "" : result.error().message));
        REQUIRE(result.ok());
        const auto got = result_tensors(*result);
        REQUIRE(got.size() == want.size());
        for (const TestTensor& tensor : want) {
          INFO(tensor.name);
          REQUIRE(got.count(tensor.name) == 1);
          CHECK(got.at(tensor.name).dtype == tensor.dtype);
          CHECK(got.at(tensor.name).shape == tensor.shape);
          CHECK((got.at(tensor.name).bytes == tensor.bytes));
        }
      }
    }
  }
}

TEST_CASE("odd shapes and orders are what the formula says") {
  struct Odd {
    const char* packing;
    uint32_t bits;
    uint64_t outputs, inputs, group;
    bool shuffled;
  };
  for (const Odd& odd : {Odd{"gptq-v1", 4, 8, 16, 16, false}, Odd{"gptq-v1", 4, 72, 200, 48, false},
                         Odd{"gptq-v2", 2, 48, 80, 40, false}, Odd{"gptq-v1", 3, 32, 160, 48, true},
                         Odd{"gptq-v2", 3, 64, 96, 32, false}, Odd{"gptq-v1", 8, 12, 60, 20, true},
                         Odd{"gptq-v2", 8, 4, 300, 128, false}, Odd{"gptq-v1", 4, 40, 128, 32, true},
                         Odd{"awq-gemm", 4, 8, 17, 17, false}, Odd{"awq-gemm", 4, 136, 96, 32, false}}) {
    INFO(odd.packing << ' ' << odd.bits << ' ' << odd.outputs << 'x' << odd.inputs);
    QweightModule module = random_module(odd.packing, odd.bits, odd.outputs, odd.inputs, odd.group, 11);
    if (odd.shuffled) {
      for (size_t k = 0; k < module.index.size(); ++k)
        module.index[k] = static_cast<uint32_t>(k * 7 % module.groups());
    }
    const MemoryModel model = qweight_model_of(module, tensors_of_module(module, "m"));
    for (const uint64_t tile : {uint64_t{1}, uint64_t{1000}, kDefaultTileBytes}) {
      const auto result = qweight_dequantised(model, "float32", tile, {.seed = 5});
      INFO((result ? "" : result.error().message));
      REQUIRE(result.ok());
      check_weight(*result, weight_of(module));
    }
  }
}

TEST_CASE("without g_idx the groups follow each other, and only a configuration makes the last one short") {
  const QweightModule module = random_module("gptq-v1", 4, 32, 96, 64, 5);
  std::vector<TestTensor> tensors = tensors_of_module(module, "m");
  tensors.pop_back();
  const MemoryModel told = qweight_model_of(module, tensors);
  const auto result = qweight_dequantised(told, "float32");
  REQUIRE(result.ok());
  check_weight(*result, weight_of(module));
  MemoryModel untold = told;
  untold.files["config.json"] = "{}";
  const auto refused = qweight_dequantised(untold, "float32");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("\"m.weight\"") != std::string::npos);
}

TEST_CASE("auto-round adds one without a modulus, and says what its words mean") {
  QweightModule module = random_module("gptq-v1", 4, 32, 64, 32, 8, 0);
  module.zeros[0][3] = 0;  // stored as 15
  std::vector<TestTensor> tensors = tensors_of_module(module, "m");
  tensors.pop_back();
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  const auto config = [](const std::string& packing) {
    return R"({"quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 32)" + packing +
           "}}";
  };
  QweightModule wide = module;
  for (auto& row : wide.zeros)
    for (uint32_t& zero : row) zero = zero == 0 ? 16 : zero;
  model.files["config.json"] = config(R"(, "packing_format": "auto_round:auto_gptq", "sym": false)");
  const auto first = qweight_dequantised(model, "float32");
  REQUIRE(first.ok());
  check_weight(*first, weight_of(wide));
  QweightModule native = module;  // the same tensors, every zero point one less
  native.packing = "gptq-v2";
  for (auto& row : native.zeros)
    for (uint32_t& zero : row) zero = (zero - 1) & 15;
  for (const char* packing :
       {"auto_round", "auto_round:gptqmodel", "auto_round:exllamav2", "auto_round:tritonv2"}) {
    INFO(packing);
    model.files["config.json"] =
        config(", \"packing_format\": \"" + std::string(packing) + "\", \"sym\": false");
    const auto result = qweight_dequantised(model, "float32");
    REQUIRE(result.ok());
    check_weight(*result, weight_of(native));
  }
  model.files["config.json"] = config("");
  const auto unknown = qweight_dequantised(model, "float32");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("packing_format") != std::string::npos);
}

TEST_CASE("an index outside of the groups is refused, and looked at as NaN") {
  QweightModule module = random_module("gptq-v1", 4, 32, 64, 32, 6);
  module.index[63] = 2;
  const MemoryModel model = qweight_model_of(module, tensors_of_module(module, "m"));
  const auto refused = qweight_dequantised(model, "float32");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().tensor == "m.weight");
  module.index[63] = UINT32_MAX;
  CHECK_FALSE(qweight_dequantised(qweight_model_of(module, tensors_of_module(module, "m")), "float16").ok());
}

TEST_CASE("scales that are not finite give canonical NaN and counted infinities") {
  QweightModule module = random_module("gptq-v2", 4, 8, 32, 16, 9);
  module.scales[0][0] = HUGE_VALF;
  module.zeros[0][0] = 5;
  module.scales[1][1] = std::nanf("");
  for (uint64_t k = 0; k < 16; ++k) module.codes[k][0] = k % 2 == 0 ? 5 : 9;
  for (const uint32_t bits : {4u, 8u}) {
    QweightModule one = module;
    one.bits = bits;
    const MemoryModel model = qweight_model_of(one, tensors_of_module(one, "m"));
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      const auto result = qweight_dequantised(model, dtype);
      REQUIRE(result.ok());
      uint64_t infinite = 0;
      for (const DeclaredTensor& tensor : result->tensors) infinite += tensor.became_infinite;
      CHECK(infinite == 8);
      const std::string bytes = result_tensors(*result).at("m.weight").bytes;
      const uint32_t size = std::string(dtype) == "float32" ? 4 : 2;
      uint32_t first = 0, other = 0;
      std::memcpy(&first, bytes.data(), size);
      std::memcpy(&other, bytes.data() + (32 + 16) * size, size);
      CHECK(first == (size == 4 ? 0x7FC00000u : std::string(dtype) == "float16" ? 0x7E00u : 0x7FC0u));
      CHECK(other == first);
    }
  }
}

TEST_CASE("every fault of geometry is refused with the module's name") {
  struct Fault {
    const char* packing;
    const char* tensor;
    DType dtype;
    Shape shape;
    const char* without = "";
  };
  for (const Fault& fault :
       {Fault{"gptq-v1", ".qzeros", DType::I32, {2, 3}}, Fault{"gptq-v1", ".qzeros", DType::I32, {1, 4}},
        Fault{"gptq-v1", ".qzeros", DType::F32, {2, 4}}, Fault{"gptq-v1", ".scales", DType::F16, {2, 31}},
        Fault{"gptq-v1", ".scales", DType::I32, {2, 32}}, Fault{"gptq-v1", ".g_idx", DType::I32, {63}},
        Fault{"gptq-v1", ".g_idx", DType::F32, {64}}, Fault{"gptq-v1", ".g_idx", DType::I32, {8, 8}},
        Fault{"gptq-v1", ".qweight", DType::I32, {7, 32}}, Fault{"gptq-v1", "", DType::I32, {}, ".qzeros"},
        Fault{"gptq-v1", "", DType::I32, {}, ".scales"}, Fault{"awq-gemm", ".qzeros", DType::I32, {1, 4}},
        Fault{"awq-gemm", ".scales", DType::F16, {2, 24}}, Fault{"awq-gemm", ".qweight", DType::I32, {63, 4}},
        Fault{"awq-gemm", "", DType::I32, {}, ".qzeros"}, Fault{"awq-gemm", "", DType::I32, {}, ".scales"}}) {
    INFO(fault.packing << ' ' << fault.tensor << shape_text(fault.shape) << " without " << fault.without);
    const QweightModule module = random_module(fault.packing, 4, 32, 64, 32, 4);
    std::vector<TestTensor> tensors;
    for (TestTensor& tensor : tensors_of_module(module, "a.b")) {
      if (!std::string(fault.without).empty() && tensor.name == "a.b" + std::string(fault.without)) continue;
      if (!std::string(fault.tensor).empty() && tensor.name == "a.b" + std::string(fault.tensor)) {
        tensor.dtype = fault.dtype;
        tensor.shape = fault.shape;
        tensor.bytes.assign(*element_count(fault.shape) * dtype_bits(fault.dtype) / 8, '\x01');
      }
      tensors.push_back(std::move(tensor));
    }
    const auto refused = qweight_dequantised(qweight_model_of(module, tensors), "float32");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("a.b") != std::string::npos);
  }
}

TEST_CASE("statistics and the weight itself agree through strips of columns") {
  const QweightModule module = random_module("gptq-v1", 4, 264, 512, 128, 12);
  const MemoryModel model = qweight_model_of(module, tensors_of_module(module, "m"));
  const auto checkpoint = read_from_memory(model, model.folder(), {});
  REQUIRE(checkpoint.ok());
  const auto plain = qweight_dequantised(model, "float16");
  REQUIRE(plain.ok());
  MemoryModel result;
  result.files = plain->files;
  const auto other = read_from_memory(result, result.folder(), {});
  REQUIRE(other.ok());
  StatisticsRequest request;
  request.logical = true;
  Statistics quantised(*checkpoint, request), of_plain(*other, request);
  REQUIRE(run_in_memory(quantised, {&model}, {&*checkpoint}, {.seed = 2}).ok());
  REQUIRE(run_in_memory(of_plain, {&result}, {&*other}).ok());
  const OrderedJson got = OrderedJson::parse(quantised.to_json())["tensors"],
                    want = OrderedJson::parse(of_plain.to_json())["tensors"];
  REQUIRE(got.size() == 1);
  REQUIRE(want.size() == 1);
  CHECK(got[0]["layout"] == "gptq-v1");
  for (const char* key : {"count", "zero", "negative", "min", "max", "mean", "std"}) {
    INFO(key);
    CHECK(got[0][key] == want[0][key]);
  }
}
