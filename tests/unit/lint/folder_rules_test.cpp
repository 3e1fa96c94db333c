// IX018 to IX025, IX028 to IX031 and ST090: rules of whole folders.
#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "lint/file_names.h"
#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

namespace {

std::string shard(const std::string& prefix, int number, int total, const std::string& variant = {}) {
  char numbers[32];
  snprintf(numbers, sizeof(numbers), "-%05d-of-%05d", number, total);
  return prefix + numbers + (variant.empty() ? "" : "." + variant) + ".safetensors";
}

// Files of one tensor each, named after the file so that none is in two.
MemoryFiles shards(const std::vector<std::string>& names) {
  MemoryFiles files;
  for (const std::string& name : names) files[name] = weights({{"t." + name, "F32", {1}}});
  return files;
}

// An index of these files, relative to its folder.
std::string folder_index(const std::vector<std::string>& names, const std::string& folder = {}) {
  nlohmann::json map;
  for (const std::string& name : names) map["t." + folder + name] = name;
  return nlohmann::json{{"metadata", {{"total_size", 4 * names.size()}}}, {"weight_map", map}}.dump();
}

Lines ix(const MemoryFiles& files) { return finding_lines(run_lint(files).findings, {"IX"}); }

}  // namespace

TEST_CASE("names of shards and indexes") {
  const auto parsed = parse_shard_name("a.b-00001-of-00020.fp16.safetensors");
  REQUIRE(parsed);
  CHECK(parsed->prefix == "a.b");
  CHECK(parsed->variant == "fp16");
  CHECK(parsed->number == 1);
  CHECK(parsed->total == 20);
  for (const char* name :
       {"model-0001-of-00002.safetensors", "model_00001-of-00002.safetensors",
        "model-000001-of-00002.safetensors.x", "model-00001-of-00002.a.b.safetensors",
        "model-00001-of-00002.bin", "model-00001-of-00002..safetensors", "model.safetensors"}) {
    INFO(name);
    CHECK_FALSE(parse_shard_name(name));
  }
  CHECK(weight_variant("model.fp16.safetensors", ".safetensors") == "fp16");
  CHECK(weight_variant("model.fp16-00001-of-00002.safetensors", ".safetensors") == "fp16");
  CHECK(weight_variant("model-00001-of-00002.fp16.safetensors", ".safetensors") == "fp16");
  CHECK(weight_variant("model-00001-of-00002.safetensors", ".safetensors") == "");
  CHECK(weight_variant("diffusion_pytorch_model.safetensors", ".safetensors") == "");
  CHECK_FALSE(weight_variant("v1.5.safetensors", ".safetensors"));
  CHECK_FALSE(weight_variant("model.a.b.safetensors", ".safetensors"));
  CHECK(shard_path("sub/", ".//a/./b.safetensors") == "sub/a/b.safetensors");
}

TEST_CASE("IX018: numbers of a family without a gap, from 1 or from 0") {
  auto family = [](const std::vector<int>& numbers, int total) {
    std::vector<std::string> names;
    for (int number : numbers) names.push_back(shard("model", number, total));
    MemoryFiles files = shards(names);
    files["model.safetensors.index.json"] = folder_index(names);
    return ix(files);
  };
  const Lines gap = {"IX018 . model"};
  CHECK(family({1, 2, 3}, 3).empty());
  CHECK(family({0, 1, 2}, 3).empty());
  CHECK(family({1}, 1).empty());
  CHECK(family({1, 3}, 3) == gap);
  CHECK(family({0, 2}, 3) == gap);
  CHECK(family({2, 3}, 3) == gap);
  CHECK(family({0, 1, 2, 3}, 3) == gap);
  CHECK(family({1, 2, 3, 4}, 3) == gap);
  CHECK(family({1, 2, 4}, 3) == gap);
  CHECK(family({1}, 0) == gap);

  std::vector<std::string> names = {shard("model", 2, 9), shard("model", 6, 9)};
  MemoryFiles files = shards(names);
  files["model.safetensors.index.json"] = folder_index(names);
  const LintResult result = run_lint(files);
  for (const Diagnostic& finding : result.findings)
    if (finding.rule == Rule::IX018)
      CHECK(message(finding) == ".: shards 1, 3..5, 7..9 of 9 are missing for \"model\".");
}

TEST_CASE("IX019, IX020: left-overs of another save") {
  const std::vector<std::string> now = {shard("model", 1, 2), shard("model", 2, 2)};
  const std::string old = shard("model", 3, 3);
  MemoryFiles files = shards({now[0], now[1], old});
  files["model.safetensors.index.json"] = folder_index(now);
  CHECK(ix(files) == Lines{"IX019 . model", "IX020 " + old + " -"});
  // Other prefixes and variants are other families.
  files = shards({now[0], now[1], shard("other", 1, 1), shard("model", 1, 1, "fp16")});
  files["model.safetensors.index.json"] = folder_index(now);
  CHECK(ix(files).empty());
  // An index that cannot be used says nothing about what is stale.
  files = shards({now[0], now[1]});
  files["model.safetensors.index.json"] = "{";
  CHECK(ix(files) == Lines{"IX001 model.safetensors.index.json -"});
  files["model.safetensors.index.json"] = R"({"metadata":{"total_size":0}})";
  CHECK(ix(files) == Lines{"IX002 model.safetensors.index.json -"});
  // Named by another index of the folder: not stale.
  files = shards({now[0], now[1], shard("model", 2, 2, "fp16")});
  files["model.safetensors.index.json"] = folder_index(now);
  CHECK(ix(files) == Lines{"IX018 . model", "IX022 . model"});
}

TEST_CASE("IX021: a single file beside its index") {
  const std::vector<std::string> now = {shard("model", 1, 2), shard("model", 2, 2)};
  MemoryFiles files = shards({now[0], now[1], "model.safetensors"});
  files["model.safetensors.index.json"] = folder_index(now);
  CHECK(ix(files) == Lines{"IX021 . model"});
  // Named by the index, or another stem or variant: fine.
  files = shards({"model.safetensors"});
  files["model.safetensors.index.json"] = folder_index({"model.safetensors"});
  CHECK(ix(files).empty());
  files = shards({now[0], now[1], "model.fp16.safetensors", "other.safetensors"});
  files["model.safetensors.index.json"] = folder_index(now);
  CHECK(ix(files).empty());
  // The variant's own single file.
  const std::vector<std::string> half = {shard("model", 1, 2, "fp16"), shard("model", 2, 2, "fp16")};
  files = shards({half[0], half[1], "model.fp16.safetensors"});
  files["model.safetensors.index.fp16.json"] = folder_index(half);
  CHECK(ix(files) == Lines{"IX021 . model"});
}

TEST_CASE("IX022: shards need an index of their family") {
  CHECK(ix(shards({shard("model", 1, 2), shard("model", 2, 2)})) == Lines{"IX022 . model"});
  CHECK(ix(shards({shard("model", 1, 1)})).empty());
  CHECK(ix(shards({"model_00001-of-00002.safetensors", "model-1-of-2.safetensors"})).empty());
  // Both spellings of a variant's family find its index.
  const std::vector<std::string> older = {shard("model.fp16", 1, 2), shard("model.fp16", 2, 2)};
  MemoryFiles files = shards(older);
  files["model.safetensors.index.fp16.json"] = folder_index(older);
  CHECK(ix(files).empty());
  const std::vector<std::string> newer = {shard("model", 1, 2, "fp16"), shard("model", 2, 2, "fp16")};
  files = shards(newer);
  files["model.safetensors.index.fp16.json"] = folder_index(newer);
  CHECK(ix(files).empty());
  files = shards(newer);
  files["model.safetensors.index.json"] = folder_index({});
  const LintResult result = run_lint(files);
  bool named = false;
  for (const Diagnostic& finding : result.findings)
    if (finding.rule == Rule::IX022)
      named = message(finding) == ".: 2 shards of \"model\" but no \"model.safetensors.index.fp16.json\".";
  CHECK(named);
}

TEST_CASE("shards of a parent's index are whole there and exempt in their own folder") {
  const std::vector<std::string> names = {shard("model", 1, 2), "deep/sub/" + shard("model", 2, 2)};
  MemoryFiles files = shards(names);
  files["model.safetensors.index.json"] = folder_index(names);
  CHECK(ix(files) == Lines{"IX013 model.safetensors.index.json " + names[1]});
  // Another shard in that folder is judged as usual.
  const std::string more = "deep/sub/" + shard("model", 2, 3);
  files[more] = weights({{"t", "F32", {1}}});
  CHECK(ix(files) == Lines{"IX019 deep/sub/ model", "IX022 deep/sub/ model",
                           "IX013 model.safetensors.index.json " + names[1]});
}

TEST_CASE("IX025: other formats beside the weights") {
  for (const char* other :
       {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.safetensors",
        "consolidated.00.safetensors", "x.gguf", "tf_model.h5", "flax_model.msgpack"}) {
    INFO(other);
    MemoryFiles files = shards({"model.safetensors", "consolidated.safetensors"});
    files.erase("consolidated.safetensors");
    files[other] = other == std::string("x.gguf") ? "GGUF" : weights({{"u", "F32", {1}}});
    CHECK(ix(files) == Lines{"IX025 . -"});
    files.erase("model.safetensors");
    CHECK(ix(files).empty());
  }
  for (const char* other :
       {"diffusion_pytorch_model.bin", "pytorch_model.bin.index.json", "training_args.bin", "x.h5"}) {
    INFO(other);
    MemoryFiles files = shards({"model.safetensors"});
    files[other] = "x";
    CHECK(ix(files).empty());
  }
}

TEST_CASE("ST090: mixed dtypes, once per folder") {
  MemoryFiles files = {
      {"a.safetensors", weights({{"a", "F32", {1}}})},
      {"b.safetensors", weights({{"b", "BF16", {1}}})},
      {"sub/c.safetensors", weights({{"c", "F32", {1}}, {"d", "I64", {1}}, {"e", "C64", {1}}})}};
  CHECK(finding_lines(run_lint(files).findings, {"ST090"}) == Lines{"ST090 . -"});
  files["sub/f.safetensors"] = weights({{"f", "F8_E8M0", {1}}});
  CHECK(finding_lines(run_lint(files).findings, {"ST090"}) == Lines{"ST090 . -", "ST090 sub/ -"});
  // A broken file does not count.
  files["sub/f.safetensors"] += "trailing";
  CHECK(finding_lines(run_lint(files).findings, {"ST090"}) == Lines{"ST090 . -"});
  // A file as PATH has its own.
  const MemoryFiles one = {{"a.safetensors", weights({{"a", "F32", {1}}, {"b", "F16", {1}}})}};
  CHECK(finding_lines(run_lint(one, "a.safetensors").findings, {"ST090"}) == Lines{"ST090 a.safetensors -"});
}

TEST_CASE("IX031: model_index.json is an object of [library, class]") {
  auto pipeline = [](const std::string& text) { return ix({{"model_index.json", text}}); };
  CHECK(pipeline("[]") == Lines{"IX031 model_index.json -"});
  CHECK(pipeline("<html>") == Lines{"IX031 model_index.json -"});
  for (const char* value : {"[\"a\"]", "[\"a\",\"b\",\"c\"]", "[\"a\",1]", "{\"x\":1}", "[]"}) {
    INFO(value);
    CHECK(pipeline("{\"x\":" + std::string(value) + "}") == Lines{"IX031 model_index.json x"});
  }
  CHECK(pipeline(
            R"({"_class_name":"P","_x":[1],"a":1,"b":"t","c":null,"d":true,"e":[null,null],"f":["x",null]})")
            .empty());
  // The last of equal keys counts.
  CHECK(pipeline(R"({"x":[1],"x":[null,null]})").empty());
}

TEST_CASE("IX029, IX030: components have weights and folders with weights are components") {
  const std::string index =
      R"({"_class_name":"P","unet":["diffusers","UNet"],"vae":[null,"AutoencoderKL"],"scheduler":["d","PNDMScheduler"],)"
      R"("tokenizer":["t","CLIPTokenizerFast"],"fe":["t","CLIPFeatureExtractor"],"ip":["t","CLIPImageProcessor"],"none":[null,null]})";
  MemoryFiles files = {{"model_index.json", index},
                       {"unet/diffusion_pytorch_model.safetensors", weights({{"a", "F32", {1}}})},
                       {"vae/diffusion_pytorch_model.bin", "x"}};
  CHECK(ix(files).empty());
  for (const char* extension : {".msgpack", ".h5", ".onnx", ".pt", ".pth", ".ckpt", ".gguf"}) {
    INFO(extension);
    MemoryFiles other = files;
    other.erase("vae/diffusion_pytorch_model.bin");
    other[std::string("vae/x") + extension] = "x";
    CHECK(ix(other).empty());
  }
  files.erase("vae/diffusion_pytorch_model.bin");
  LintResult result = run_lint(files);
  CHECK(finding_lines(result.findings, {"IX"}) == Lines{"IX029 model_index.json vae"});
  CHECK(message(result.findings.back()).find("has no folder") != std::string::npos);
  files["vae/config.json"] = "{}";
  files["vae/deeper/model.safetensors"] = weights({{"a", "F32", {1}}});
  CHECK(ix(files) == Lines{"IX029 model_index.json vae"});
  files["vae/model.bin"] = "x";
  files["extra/model.safetensors"] = weights({{"a", "F32", {1}}});
  files["none/model.safetensors"] = weights({{"a", "F32", {1}}});
  files["bins/model.bin"] = "x";
  CHECK(ix(files) == Lines{"IX030 model_index.json extra"});
  // In a subfolder the names are those of that folder.
  MemoryFiles moved;
  for (const auto& [path, content] : files) moved["x/y/" + path] = content;
  CHECK(ix(moved) == Lines{"IX030 x/y/model_index.json extra"});
}

TEST_CASE("IX028: a variant is complete") {
  const std::string index = R"({"unet":["d","UNet"],"vae":["d","VAE"],"scheduler":["d","XScheduler"]})";
  auto variants = [&](const std::vector<std::string>& names) {
    MemoryFiles files = {{"model_index.json", index}};
    for (const std::string& name : names)
      files[name] =
          name.find(".safetensors") != std::string::npos ? weights({{"t." + name, "F32", {1}}}) : "x";
    return finding_lines(run_lint(files).findings, {"IX028"});
  };
  CHECK(variants({"unet/model.safetensors", "vae/model.safetensors"}).empty());
  CHECK(variants({"unet/model.fp16.safetensors", "vae/model.fp16.safetensors"}).empty());
  CHECK(variants({"unet/model.fp16.safetensors", "unet/model.safetensors", "vae/model.safetensors"}) ==
        Lines{"IX028 . fp16"});
  CHECK(variants({"unet/model.fp16.safetensors", "vae/model-00001-of-00002.fp16.safetensors"}).empty());
  CHECK(variants({"unet/model.fp16.safetensors", "vae/model.fp16-00001-of-00002.safetensors"}).empty());
  CHECK(variants({"unet/model.fp16.safetensors", "vae/model.bf16.safetensors"}) ==
        Lines{"IX028 . bf16", "IX028 . fp16"});
  // A variant in another container is there; one in no .safetensors at all is not looked for.
  CHECK(variants({"unet/model.fp16.safetensors", "vae/model.fp16.bin"}).empty());
  CHECK(variants({"unet/model.fp16.bin", "vae/model.safetensors"}).empty());
  // Not a component, or no variant's name.
  CHECK(variants({"unet/model.safetensors", "vae/model.safetensors", "x/model.fp16.safetensors"}).empty());
  CHECK(variants({"unet/v1.5.safetensors", "unet/model.safetensors", "vae/model.safetensors"}).empty());
}
