#include "tftf/inspect/info.h"

#include <catch2/catch.hpp>

#include "json_shape.h"
#include "memory_model.h"
#include "tftf/base/utf8.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::string bytes{};
};

std::string weights(const std::vector<Entry>& entries, const Metadata& metadata = {}) {
  std::vector<OutputEntry> table;
  std::string data;
  for (const Entry& entry : entries) {
    table.push_back({entry.name, entry.dtype, entry.shape});
    std::string bytes = entry.bytes;
    bytes.resize(static_cast<size_t>(*byte_count(*element_count(entry.shape), entry.dtype)));
    data += bytes;
  }
  const auto header = write_header(table, metadata, HeaderForm::kTftf);
  REQUIRE(header.ok());
  return *header + data;
}

// A model read and inspected; what the inspector looks at must outlive it.
class Inspected {
 public:
  Inspected(MemoryModel model, ModelListing listing)
      : model_(std::move(model)), checkpoint_(read(listing)), info_(inspect()) {}
  explicit Inspected(MemoryModel model) : Inspected(model, model.folder()) {}

  const ModelInfo& info() const { return info_; }
  OrderedJson json(std::string_view filter = {}) const {
    const std::string text = info_json_text(info_, filter);
    CHECK(text.back() == '\n');
    const OrderedJson document = OrderedJson::parse(text);
    CHECK(info_document()(document) == "");
    // One document, indent 2: the writer of the rows agrees with the library.
    CHECK(json_text(document) == text);
    return document;
  }
  std::string text(InfoTextOptions options = {}) const { return info_text(info_, options); }

 private:
  Checkpoint read(const ModelListing& listing) {
    ReaderOptions options;
    options.mode = ReadMode::kInspect;
    auto checkpoint = read_from_memory(model_, listing, options);
    REQUIRE(checkpoint.ok());
    return std::move(*checkpoint);
  }
  ModelInfo inspect() {
    Inspector inspector(checkpoint_);
    for (auto wanted = inspector.want(); !wanted.empty(); wanted = inspector.want())
      for (const ReadRequest& request : wanted)
        inspector.supply(
            request,
            as_bytes(model_.files.at(request.file)).subspan(request.range.offset, request.range.length));
    return inspector.take();
  }

  MemoryModel model_;
  Checkpoint checkpoint_;
  ModelInfo info_;
};

MemoryModel fp8_model() {
  MemoryModel model;
  model.files["model.safetensors"] = weights({{"a.weight", DType::F8_E4M3, {16, 16}},
                                              {"a.weight_scale_inv", DType::F32, {2, 2}},
                                              {"layers.0.norm.weight", DType::BF16, {59}},
                                              {"layers.1.norm.weight", DType::BF16, {59}}},
                                             {{"format", "pt"}});
  model.files["config.json"] =
      R"({"model_type":"deepseek_v3","torch_dtype":"bfloat16",
          "quantization_config":{"quant_method":"fp8","weight_block_size":[8,8]}})";
  return model;
}

}  // namespace

TEST_CASE("the document has every key in its order, and the right figures") {
  const Inspected model(fp8_model());
  const OrderedJson json = model.json();
  CHECK(json["kind"] == "checkpoint");
  CHECK(json["family"] == "deepseek_v3");
  CHECK(json["tensor_count"] == 4);
  CHECK(json["data_bytes"] == 256 + 16 + 236);
  CHECK(json["stored_elements"] == 378);
  CHECK(json["logical_parameters"] == 374);
  CHECK(json["dtypes"][0] ==
        OrderedJson({{"dtype", "BF16"}, {"tensors", 2}, {"elements", 118}, {"bytes", 236}}));
  CHECK(json["layouts"][0]["id"] == "fp8-block");
  CHECK(json["layouts"][0]["bytes"] == 272);
  CHECK(json["layouts"][0]["logical_parameters"] == 256);
  CHECK(json["metadata"] == OrderedJson({{"format", "pt"}}));
  CHECK(json["config"] ==
        OrderedJson({{"model_type", "deepseek_v3"}, {"dtype", "bfloat16"}, {"quant_method", "fp8"}}));
  CHECK(json["adapter"] == nullptr);
  CHECK(json["index"] == nullptr);
  CHECK(json["files"][0]["status"] == "ok");
  CHECK(json["folded"].size() == 3);
  CHECK(json["folded"][2] == OrderedJson({{"pattern", "layers.#.norm.weight"},
                                          {"count", 2},
                                          {"dtype", "BF16"},
                                          {"shape", {59}},
                                          {"bytes", 236}}));
  const OrderedJson& weight = json["tensors"][0];
  CHECK(weight["name"] == "a.weight");
  CHECK(weight["offsets"] == OrderedJson({0, 256}));
  CHECK(weight["layout"] == "fp8-block");
  CHECK(weight["logical"] == OrderedJson({{"dtype", "F32"}, {"shape", {16, 16}}}));
  CHECK(weight["companion_of"] == nullptr);
  CHECK(json["tensors"][1]["companion_of"] == "a.weight");
  CHECK(json["tensors"][1]["logical"] == nullptr);
  CHECK(json["tensors"][2]["layout"] == nullptr);
  // Equal input, equal bytes.
  CHECK(info_json_text(model.info()) == info_json_text(Inspected(fp8_model()).info()));
}

TEST_CASE("a filter thins out the lists, not the totals") {
  const OrderedJson json = Inspected(fp8_model()).json("norm");
  CHECK(json["tensor_count"] == 4);
  CHECK(json["tensors"].size() == 2);
  CHECK(json["folded"].size() == 1);
  CHECK(Inspected(fp8_model()).json("no such name")["tensors"].empty());
}

TEST_CASE("kinds") {
  auto kind = [](std::map<std::string, std::string> files) {
    MemoryModel model;
    model.files = std::move(files);
    return Inspected(model).json()["kind"].get<std::string>();
  };
  const std::string plain = weights({{"a.weight", DType::F32, {2}}});
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 1000\n";
  CHECK(kind({{"model.safetensors", plain}}) == "checkpoint");
  CHECK(kind({{"tokens.safetensors", weights({{"tokens", DType::I64, {2}}})}}) == "data");
  CHECK(kind({{"tokens.safetensors", weights({{"tokens", DType::I64, {2}}})},
              {"config.json", R"({"model_type":"x"})"}}) == "checkpoint");
  CHECK(kind({{"learned.safetensors", weights({{"emb_params", DType::F32, {1, 4}}})}}) == "embedding");
  CHECK(kind({{"lora.safetensors", weights({{"lora_unet_a.lora_down.weight", DType::F16, {2, 4}},
                                            {"lora_unet_a.lora_up.weight", DType::F16, {4, 2}}})}}) ==
        "adapter");
  CHECK(kind({{"model.safetensors", pointer}}) == "pointer");
  CHECK(kind({{"config.json", R"({"model_type":"llama"})"}}) == "config");
  CHECK(kind({{"model.safetensors", plain.substr(0, plain.size() - 1)}}) == "broken");
  CHECK(kind({{"model.safetensors", "not tensors at all"}}) == "broken");
  CHECK(kind({{"model.safetensors.index.json",
               R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00001.safetensors"}})"}}) ==
        "index");
}

TEST_CASE("a cut file is broken, and its header is shown all the same") {
  MemoryModel model = fp8_model();
  std::string& file = model.files["model.safetensors"];
  file.resize(file.size() - 100);
  const Inspected cut(std::move(model));
  const OrderedJson json = cut.json();
  CHECK(json["files"][0]["status"] == "broken");
  CHECK(json["files"][0]["tensors"] == 4);
  CHECK(json["tensor_count"] == 4);
  CHECK(json["layouts"].size() == 1);
  REQUIRE(json["notes"].size() == 1);
  CHECK(json["notes"][0].get<std::string>().find("truncated") != std::string::npos);
}

TEST_CASE("an index is reported with what is missing") {
  MemoryModel model;
  model.files["model-00001-of-00002.safetensors"] = weights({{"a.weight", DType::F32, {2}}});
  model.files["model.safetensors.index.json"] =
      R"({"metadata":{"total_size":16},"weight_map":{"a.weight":"model-00001-of-00002.safetensors",
          "b.weight":"model-00002-of-00002.safetensors"}})";
  const Inspected half(model);
  const OrderedJson json = half.json();
  CHECK(json["kind"] == "checkpoint");
  CHECK(json["index"] == OrderedJson({{"file", "model.safetensors.index.json"},
                                      {"tensors", 2},
                                      {"shards", 2},
                                      {"total_size", 16},
                                      {"missing", {"model-00002-of-00002.safetensors"}}}));
  CHECK(json["files"][1]["status"] == "missing");
  CHECK(json["files"][1]["size"] == nullptr);
  CHECK(half.text().find("Missing  : 1 of 2 files: model-00002-of-00002.safetensors") != std::string::npos);
  model.files["model.safetensors.index.json"] = "{";
  CHECK(Inspected(model).json()["notes"].size() == 1);
  model.files["model.safetensors.index.json"] = R"({"metadata":{"total_size":1.6e10},"weight_map":{}})";
  CHECK(Inspected(model).json()["index"]["total_size"] == "1.6e10");
}

TEST_CASE("a family is guessed from names, with a note, only where nothing says it") {
  const std::string llama = weights({{"model.layers.0.self_attn.q_proj.weight", DType::F32, {2}},
                                     {"model.layers.0.mlp.gate_proj.weight", DType::F32, {2}}});
  MemoryModel model;
  model.files["model.safetensors"] = llama;
  OrderedJson json = Inspected(model).json();
  CHECK(json["family"] == "llama");
  CHECK(json["config"] == nullptr);
  REQUIRE(json["notes"].size() == 1);
  CHECK(json["notes"][0].get<std::string>().find("guess") != std::string::npos);
  model.files["config.json"] = R"({"model_type":"mistral"})";
  json = Inspected(model).json();
  CHECK(json["family"] == "mistral");
  CHECK(json["notes"].empty());
  model.files["model.safetensors"] = weights({{"odd.weight", DType::F32, {2}}});
  model.files.erase("config.json");
  CHECK(Inspected(model).json()["family"] == nullptr);
}

TEST_CASE("an adapter carries its summary, alphas read from the file") {
  const float alpha = 2;
  MemoryModel model;
  model.files["lora.safetensors"] =
      weights({{"lora_unet_a.alpha", DType::F32, {}, std::string(reinterpret_cast<const char*>(&alpha), 4)},
               {"lora_unet_a.lora_down.weight", DType::F16, {4, 8}},
               {"lora_unet_a.lora_up.weight", DType::F16, {6, 4}}});
  const Inspected adapter(model, model.file("lora.safetensors"));
  const OrderedJson json = adapter.json();
  CHECK(json["adapter"]["family"] == "kohya");
  CHECK(json["adapter"]["alphas"] == OrderedJson({{"2", 1}}));
  CHECK(adapter.text().find("Adapter  : kohya, 1 lora, rank 4, alpha 2, scale alpha") != std::string::npos);
}

TEST_CASE("parameters are null when a layout hides shapes") {
  MemoryModel model;
  model.files["model.safetensors"] = weights({{"m.weight", DType::U32, {16, 8}},
                                              {"m.scales", DType::BF16, {16, 1}},
                                              {"m.biases", DType::BF16, {16, 1}}});
  const Inspected hidden(model);
  const OrderedJson json = hidden.json();
  CHECK(json["logical_parameters"] == nullptr);
  CHECK(json["layouts"][0]["logical_parameters"] == nullptr);
  CHECK(json["tensors"][2]["logical"] == OrderedJson({{"dtype", "BF16"}, {"shape", nullptr}}));
  CHECK(hidden.text().find("not known") != std::string::npos);
}

TEST_CASE("modules that are broken in one way are one note") {
  MemoryModel model;
  model.files["model.safetensors"] = weights({{"a.weight", DType::U8, {60}},
                                              {"a.weight.qs", DType::F32, {4}},
                                              {"b.weight", DType::U8, {60}},
                                              {"b.weight.qs", DType::F32, {4}}});
  const OrderedJson json = Inspected(model).json();
  CHECK(json["layouts"].empty());
  REQUIRE(json["notes"].size() == 1);
  CHECK(json["notes"][0].get<std::string>().find("colibri: \"a.weight\" and 1 more: ") == 0);
}

TEST_CASE("numbers are folded in components only") {
  MemoryModel model;
  model.files["model.safetensors"] = weights({{"block.0.mlp1.weight", DType::F32, {2}},
                                              {"block.11.mlp1.weight", DType::F32, {2}},
                                              {"block.2.mlp1.weight", DType::F32, {3}},
                                              {"block.3x.mlp1.weight", DType::F32, {2}},
                                              {"lora_unet_down_blocks_0_a.alpha", DType::F32, {}},
                                              {"lora_unet_down_blocks_1_a.alpha", DType::F32, {}},
                                              {"norm_1.weight", DType::F32, {2}},
                                              {"norm_2.weight", DType::F32, {2}},
                                              {"unet:0:down", DType::F32, {2}},
                                              {"unet:1:down", DType::F32, {2}}});
  std::vector<std::string> patterns;
  const OrderedJson json = Inspected(model).json();
  for (const OrderedJson& row : json["folded"])
    patterns.push_back(row["pattern"].get<std::string>() + " " + row["count"].dump());
  CHECK(patterns == std::vector<std::string>{"block.#.mlp1.weight 2", "block.2.mlp1.weight 1",
                                             "block.3x.mlp1.weight 1", "lora_unet_down_blocks_#_a.alpha 2",
                                             "norm_1.weight 1", "norm_2.weight 1", "unet:#:down 2"});
}

TEST_CASE("the text has the facts, the tensors and their sum") {
  const Inspected model(fp8_model());
  const std::string text = model.text();
  for (const char* part : {"Model    : model\n", "Kind     : checkpoint, deepseek_v3\n", "Tensors  : 4\n",
                           "Layout   : fp8-block, 1 module", "File metadata:\n  format: pt\n",
                           "a.weight              float8_e4m3fn  16×16", "fp8-block float32 16×16",
                           "Total tensor data: 0.000 GiB  (508 bytes)\n"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  InfoTextOptions options;
  options.filter = "norm";
  CHECK(model.text(options).find("Tensors  : 4  (showing 2 after filter)") != std::string::npos);
  options.fold = true;
  CHECK(model.text(options).find("layers.#.norm.weight  bfloat16  59     ×2     236 bytes") !=
        std::string::npos);
  options = {};
  options.dtype_summary = true;
  const std::string summary = model.text(options);
  CHECK(summary.find("Dtype summary:\n  bfloat16               2 tensors  236 bytes\n") != std::string::npos);
  CHECK(summary.find("Total tensor data") == std::string::npos);
  options = {};
  options.offsets = true;
  CHECK(model.text(options).find("Begin") != std::string::npos);
}

TEST_CASE("rows fit the terminal, names are escaped") {
  MemoryModel model;
  const std::string long_name = "very." + std::string(200, 'x') + ".end.weight";
  model.files["model.safetensors"] = weights({{long_name, DType::F32, {2, 3}},
                                              {"line\nbreak\x1b[31m", DType::F32, {1}},
                                              {"ключ.weight", DType::F32, {1}}});
  const Inspected inspected(model);
  InfoTextOptions options;
  options.width = 72;
  const std::string text = inspected.text(options);
  std::string line;
  bool table = false;
  for (char c : text) {
    if (c != '\n') {
      line += c;
      continue;
    }
    table = table || line.substr(0, 3) == "Key";
    INFO(line);
    if (table) CHECK(count_code_points(line) <= 72);
    line.clear();
  }
  CHECK(text.find(".end.weight") != std::string::npos);
  CHECK(text.find("line\\u{000A}break\\u{001B}[31m") != std::string::npos);
  CHECK(inspected.text().find(long_name) != std::string::npos);
}

TEST_CASE("one name of absurd length does not widen the rows of all others") {
  MemoryModel model;
  std::vector<OutputEntry> entries{{std::string(100'000, 'n'), DType::F32, {1}}};
  for (int i = 0; i < 1000; ++i) entries.push_back({"t" + std::to_string(i), DType::F32, {1}});
  const auto header = write_header(entries, {}, HeaderForm::kTftf);
  REQUIRE(header.ok());
  model.files["model.safetensors"] = *header + std::string(4004, '\0');
  const std::string text = Inspected(model).text();
  CHECK(text.find("t999 ") != std::string::npos);
  CHECK(text.find("…") != std::string::npos);
  CHECK(text.size() < 400'000);
}

// Quadratic work would show as a test that does not end.
TEST_CASE("a hundred thousand tensors are told whole") {
  std::vector<OutputEntry> entries;
  for (int i = 0; i < 100000; ++i)
    entries.push_back(
        {"model.layers." + std::to_string(i / 2000) + ".mlp.experts." + std::to_string(i % 2000) + ".weight",
         DType::BF16,
         {1, 1}});
  const auto header = write_header(entries, {}, HeaderForm::kTftf);
  REQUIRE(header.ok());
  MemoryModel model;
  model.files["model.safetensors"] = *header + std::string(200000, '\0');
  const Inspected inspected(std::move(model));
  InfoTextOptions options;
  options.fold = true;
  CHECK(inspected.text(options).find("model.layers.#.mlp.experts.#.weight  bfloat16  1×1    ×100,000") !=
        std::string::npos);
  CHECK(info_json_text(inspected.info()).size() > 10000000);
}
