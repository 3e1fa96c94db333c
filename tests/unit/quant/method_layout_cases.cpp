// The smallest models of HQQ, quanto, AQLM, VPTQ, BitNet, Gemma, Metal, Prism, and of what is refused by name.
#include "layout_cases.h"

namespace tftf {
namespace {

template <class T>
std::string little_endian(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

std::string method(const std::string& name, const std::string& members = {}) {
  return R"({"quantization_config":{"quant_method":")" + name + "\"" +
         (members.empty() ? "" : "," + members) + "}}";
}

HeaderTensor flag(std::string name, uint8_t value) {
  return {std::move(name), DType::U8, {}, little_endian<uint8_t>({value})};
}
HeaderTensor number(std::string name, int32_t value) {
  return {std::move(name), DType::I32, {}, little_endian<int32_t>({value})};
}

constexpr const char* kVptqLayer =
    R"("config_for_layers":{"m":{"in_features":24,"out_features":20,)"
    R"("vector_lens":[-1,8],"num_centroids":[-1,64],"num_res_centroids":[-1,-1],)"
    R"("group_num":1,"group_size":24,"outlier_size":0}})";

std::vector<LayoutCase> read_cases() {
  const std::string text = "4bit_u8";
  return {
      {"quark-int4",
       {{"m.weight", DType::I32, {64, 4}}, {"m.weight_scale", DType::BF16, {2, 32}}},
       method("quark",
              R"("global_quant_config":{"weight":{"dtype":"int4","qscheme":"per_group","group_size":32}})"),
       {},
       Shape{32, 64},
       DType::BF16,
       {"m.weight", "m.weight_scale"}},
      {"autoround-mxint4",
       {{"m.weight_packed", DType::U8, {8, 32}}, {"m.weight_scale", DType::U8, {8, 2}}},
       method("auto-round", R"("data_type":"mx_int4")"),
       {},
       Shape{8, 64},
       DType::BF16,
       {"m.weight_packed", "m.weight_scale"}},
      {"autoround-nvfp4-e5m3",
       {{"m.weight_packed", DType::U8, {8, 32}}, {"m.weight_scale", DType::U8, {8, 4}}},
       method("auto-round", R"("data_type":"nvfp4_v2")"),
       {},
       Shape{8, 64},
       DType::BF16,
       {"m.weight_packed", "m.weight_scale"}},
      {"hqq",
       {{"m.W_q", DType::U8, {4, 64}},
        {"m.scale", DType::F16, {8, 1}},
        {"m.zero", DType::F16, {8, 1}},
        {"m.shape", DType::I64, {2}, little_endian<int64_t>({4, 128})},
        number("m.nbits", 4),
        number("m.group_size", 64),
        number("m.axis", 1),
        {"m.packing", DType::U8, {text.size()}, text},
        flag("m.view_as_float", 0),
        flag("m.encoded_state_dict", 1)},
       {},
       {},
       Shape{4, 128},
       DType::F16,
       {"m.W_q", "m.scale", "m.zero", "m.shape", "m.axis", "m.nbits"}},
      {"aqlm",
       {{"m.codes", DType::I8, {24, 8, 2}},
        {"m.codebooks", DType::F16, {2, 256, 1, 8}},
        {"m.scales", DType::F16, {24, 1, 1, 1}}},
       {},
       {},
       Shape{24, 64},
       DType::F16,
       {"m.codes", "m.codebooks", "m.scales"}},
      {"vptq",
       {{"m.indices", DType::I16, {1, 3, 24}, std::string(144, '\0')},
        {"m.centroids.weight", DType::BF16, {1, 512}}},
       method("vptq", kVptqLayer),
       {},
       Shape{20, 24},
       DType::BF16,
       {"m.indices", "m.centroids.weight"}},
      {"quanto-qint8",
       {{"m.weight._data", DType::I8, {24, 40}}, {"m.weight._scale", DType::BF16, {24, 1}}},
       {},
       {},
       Shape{24, 40},
       DType::BF16,
       {"m.weight._data", "m.weight._scale"}},
      {"quanto-qfloat8",
       {{"m.weight._data", DType::F8_E4M3, {24, 40}}, {"m.weight._scale", DType::F32, {24, 1}}},
       {},
       {},
       Shape{24, 40},
       DType::F32,
       {"m.weight._data", "m.weight._scale"}},
      {"quanto-qint4",
       {{"m.weight._data", DType::U8, {6, 40}},
        {"m.weight._scale", DType::F16, {12, 1}},
        {"m.weight._shift", DType::I8, {12, 1}}},
       {},
       {},
       Shape{12, 40},
       DType::F16,
       {"m.weight._data", "m.weight._scale", "m.weight._shift"}},
      {"quanto-qint2",
       {{"m.weight._data", DType::U8, {3, 40}},
        {"m.weight._scale", DType::F16, {11, 1}},
        {"m.weight._shift", DType::F16, {11, 1}}},
       {},
       {},
       Shape{11, 40},
       DType::F16,
       {"m.weight._data", "m.weight._scale", "m.weight._shift"}},
      {"bitnet",
       {{"m.weight", DType::U8, {6, 40}, std::string(240, '\x12')}, {"m.weight_scale", DType::BF16, {1}}},
       method("bitnet", R"("linear_class":"autobitlinear")"),
       {},
       Shape{24, 40},
       DType::BF16,
       {"m.weight", "m.weight_scale"}},
      {"gemma-int8",
       {{"m.weight", DType::I8, {16, 24}}, {"m.weight_scale", DType::F32, {16, 1}}},
       method("gemma", R"("num_bits":8)"),
       {},
       Shape{16, 24},
       DType::F32,
       {"m.weight", "m.weight_scale"}},
      {"gemma-int4",
       {{"m.embedding_quantized", DType::U8, {32, 12}}, {"m.embedding_scale", DType::F32, {32, 3}}},
       method("gemma", R"("num_bits":8,"module_quant_configs":{"^m$":{"num_bits":4}})"),
       {},
       Shape{32, 24},
       DType::F32,
       {"m.embedding_quantized", "m.embedding_scale"}},
      {"gemma-int2",
       {{"m.weight", DType::U8, {16, 5}}, {"m.weight_scale", DType::F32, {16, 1}}},
       method("gemma", R"("num_bits":2)"),
       {},
       Shape{16, 20},
       DType::F32,
       {"m.weight", "m.weight_scale"}},
      {"metal-affine",
       {{"m.weight", DType::U32, {16, 16}},
        {"m.scales", DType::F16, {16, 2}},
        {"m.qbiases", DType::F16, {16, 2}}},
       method("metal", R"("bits":4,"group_size":64)"),
       {},
       Shape{16, 128},
       DType::F16,
       {"m.weight", "m.scales", "m.qbiases"}},
      {"prism-1bit",
       {{"m.weight", DType::U32, {16, 8}},
        {"m.scales", DType::F16, {16, 2}},
        {"m.biases", DType::F16, {16, 2}}},
       method("prism", R"("bits":1,"group_size":128)"),
       {},
       Shape{16, 256},
       DType::F16,
       {"m.weight", "m.scales", "m.biases"}},
  };
}

LayoutCase refused(std::string_view layout, std::vector<HeaderTensor> tensors) {
  std::vector<std::string> names;
  for (const HeaderTensor& tensor : tensors) names.push_back(tensor.name);
  return {layout, std::move(tensors), {}, {}, std::nullopt, DType::BF16, names};
}

}  // namespace

std::vector<LayoutCase> method_layout_cases() {
  std::vector<LayoutCase> cases = read_cases();
  cases.push_back(refused(
      "exl3",
      {{"m.trellis", DType::I16, {4, 8, 64}}, {"m.suh", DType::F16, {64}}, {"m.svh", DType::F16, {128}}}));
  cases.push_back(refused("exl2", {{"m.q_weight", DType::I32, {16, 64}},
                                   {"m.q_scale", DType::I32, {2, 8}},
                                   {"m.q_groups", DType::I16, {4}}}));
  cases.push_back(refused(
      "quip", {{"m.Qidxs", DType::I16, {32, 8}}, {"m.SU", DType::F16, {64}}, {"m.SV", DType::F16, {32}}}));
  cases.push_back(refused("spqr", {{"m.dense_weights", DType::I64, {32}},
                                   {"m.row_offsets", DType::I32, {33}},
                                   {"m.col_vals", DType::I32, {64}}}));
  cases.push_back(refused("higgs", {{"m.weight", DType::I16, {16, 64}},
                                    {"m.tables", DType::F16, {16}},
                                    {"m.tables2", DType::F32, {16, 16, 1}}}));
  cases.push_back(
      refused("eetq", {{"m.weight", DType::I8, {64, 32}}, {"m.weight_scales", DType::F16, {32}}}));
  cases.push_back(refused("sinq", {{"m.W_q", DType::U8, {32, 64}}, {"m.meta.scale", DType::F16, {64, 1}}}));
  cases.push_back(refused("fp-quant", {{"m.qweight", DType::U8, {32, 64}},
                                       {"m.forward_hadamard_matrix", DType::BF16, {32, 32}}}));
  cases.push_back(refused("fouroversix", {{"m.quantized_weight_values", DType::U8, {32, 32}},
                                          {"m.quantized_weight_scale_factors", DType::F8_E4M3, {128}},
                                          {"m.quantized_weight_amax", DType::F32, {1}}}));
  return cases;
}

}  // namespace tftf
