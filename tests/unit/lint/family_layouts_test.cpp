// Families whose names transformers 5 begins otherwise, and experts that are stored together.
#include <catch2/catch.hpp>

#include "synthetic_model.h"
#include "tftf/lint/config_rules.h"

using namespace tftf;
using Lines = std::vector<std::string>;

namespace {

constexpr const char* kMixtral =
    R"({"model_type":"mixtral","vocab_size":16,"hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,
"intermediate_size":12,"num_hidden_layers":2,"tie_word_embeddings":true,"num_local_experts":3})";

// As transformers 5 saves it: the experts of a layer in two tensors.
SyntheticModel mixtral_of_5() {
  SyntheticModel model = synthetic_model(kMixtral, 'B');
  model.tensors.erase(std::remove_if(model.tensors.begin(), model.tensors.end(),
                                     [](const SyntheticTensor& tensor) {
                                       return tensor.name.find("block_sparse_moe") != std::string::npos;
                                     }),
                      model.tensors.end());
  for (const char* layer : {"0", "1"}) {
    const std::string mlp = std::string("model.layers.") + layer + ".mlp.";
    model.add(mlp + "gate.weight", {3, 8});
    model.add(mlp + "experts.gate_up_proj", {3, 24, 8});
    model.add(mlp + "experts.down_proj", {3, 8, 12});
  }
  return model;
}

Lines report_of(SyntheticModel model) {
  Lines lines;
  for (std::string& line : model.report())
    if (line.find("CF044") != 0 && line.find("CF060") != 0) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

TEST_CASE("CF014, CF017, CF026: names and experts of transformers 5 are those of the released file") {
  CHECK(report_of(mixtral_of_5()) == Lines{});
  SyntheticModel model = mixtral_of_5();
  model.drop("model.layers.1.mlp.gate.weight");
  CHECK(report_of(model) == Lines{"CF014 model.layers.1"});
  model = mixtral_of_5();
  model.at("model.layers.0.mlp.gate.weight").shape = {4, 8};
  CHECK(report_of(model) == Lines{"CF017 model.layers.0.mlp.gate.weight"});
  model = mixtral_of_5();
  for (const char* name : {"gate_up_proj", "down_proj"})
    model.at("model.layers.1.mlp.experts." + std::string(name)).shape[0] = 2;
  CHECK(report_of(model) == Lines{"CF017 model.layers.1.mlp.experts.gate_up_proj"});
  // What is neither stays unknown.
  model = mixtral_of_5();
  model.add("model.layers.0.mlp.experts.gate_down_proj", {3, 8, 12});
  CHECK(report_of(model) == Lines{"CF026 model.layers.0.mlp.experts.gate_down_proj"});
}
