// The runner itself: what is read, what cannot be read, the order of findings, the facts.
#include <catch2/catch.hpp>

#include "lint_host.h"
#include "test_files.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

TEST_CASE("ST009: what cannot be read is said once, and the rest is judged") {
  LintInput input = lint_input({{"a.safetensors", weights({{"a", "F32", {1}}})},
                                {"b.safetensors", "x"},
                                {"config.json", "{}"},
                                {"sub/", ""},
                                {"fine.bin", ""}});
  for (LintEntry& entry : input.entries)
    if (entry.path != "a.safetensors") entry.unreadable = "permission denied";
  Linter linter(std::move(input), {});
  for (std::vector<LintRequest> open = linter.want(); !open.empty(); open = linter.want())
    for (const LintRequest& request : open) {
      CHECK(request.file == "a.safetensors");
      linter.fail(request, "input/output error");
    }
  const LintResult result = linter.take();
  CHECK(finding_lines(result.findings) ==
        Lines{"ST009 a.safetensors -", "ST009 b.safetensors -", "ST009 config.json -", "ST009 sub/ -"});
  CHECK(message(result.findings[0]) == "a.safetensors cannot be read: input/output error.");
  CHECK(message(result.findings[3]) == "sub/ cannot be read: permission denied.");
}

TEST_CASE("a side file that fails, shrinks or is too large is unreadable") {
  LintInput input =
      lint_input({{"config.json", "{}"}, {"model.safetensors.index.json", "{}"}, {"model_index.json", "{}"}});
  for (LintEntry& entry : input.entries)
    if (entry.path == "model_index.json") entry.size = uint64_t{1} << 40;
  Linter linter(std::move(input), {});
  for (std::vector<LintRequest> open = linter.want(); !open.empty(); open = linter.want())
    for (const LintRequest& request : open) {
      if (request.file == "config.json")
        linter.supply(request, as_bytes("{"));
      else
        linter.fail(request, "gone");
    }
  CHECK(finding_lines(linter.take().findings) ==
        Lines{"ST009 config.json -", "ST009 model.safetensors.index.json -", "ST009 model_index.json -"});
}

TEST_CASE("only exact extensions are weights in a folder, and any name is as PATH") {
  MemoryFiles files = {{"a.SAFETENSORS", "junk"},
                       {"b.safetensors.bak", "junk"},
                       {"c.bin", "junk"},
                       {"d.safetensors.tftf-part", "junk"}};
  CHECK(run_lint(files).findings.empty());
  CHECK(finding_lines(run_lint(files, "c.bin").findings, {"ST"}) == Lines{"ST002 c.bin -"});
}

TEST_CASE("a file as PATH is judged alone") {
  MemoryFiles files = {{"model-00001-of-00002.safetensors", weights({{"a", "F32", {1}}})},
                       {"config.json", "broken"}};
  CHECK(run_lint(files, "model-00001-of-00002.safetensors").findings.empty());
}

TEST_CASE("findings come by file, offset, rule and subject") {
  Diagnostics findings;
  auto add = [&](Rule rule, std::string file, std::optional<uint64_t> offset,
                 std::optional<std::string> subject) {
    Diagnostic& finding = findings.emplace_back();
    finding.rule = rule;
    finding.file = std::move(file);
    finding.offset = offset;
    finding.subject = std::move(subject);
  };
  add(Rule::ST041, "b", std::nullopt, std::nullopt);
  add(Rule::ST043, "a", 7, "x");
  add(Rule::ST042, "a", 7, "y");
  add(Rule::ST042, "a", 7, "x");
  add(Rule::ST042, "a", 7, std::nullopt);
  add(Rule::ST090, "a", std::nullopt, std::nullopt);
  add(Rule::CF001, "a", std::nullopt, std::nullopt);
  add(Rule::IX001, "\xC3\xA9", 0, std::nullopt);
  sort_findings(findings);
  CHECK(finding_lines(findings) == Lines{"CF001 a -", "ST090 a -", "ST042 a -", "ST042 a x", "ST042 a y",
                                         "ST043 a x", "ST041 b -", "IX001 \xC3\xA9 -"});
}

TEST_CASE("the facts of files and folders") {
  MemoryFiles files = {
      {"config.json", R"({"model_type":"zamba"})"},
      {"model.safetensors", weights({{"a", "F32", {2}}})},
      {"lora/adapter_config.json",
       R"({"peft_type":"LORA","r":2,"lora_alpha":4.5,"base_model_name_or_path":"x/y"})"},
      {"lora/adapter_model.safetensors", weights({{"base_model.model.q.lora_A.weight", "F32", {2, 4}},
                                                  {"base_model.model.q.lora_B.weight", "F32", {4, 2}}})},
      {"notes/readme.md", "x"}};
  const LintResult result = run_lint(files);
  REQUIRE(result.files.size() == 2);
  CHECK(result.files[0].path == "lora/adapter_model.safetensors");
  CHECK(result.files[0].adapter);
  CHECK(result.files[0].scan.findings.empty());
  CHECK(result.files[1].path == "model.safetensors");
  CHECK(result.files[1].scan.header.tensors.size() == 1);
  CHECK_FALSE(result.files[1].adapter);
  REQUIRE(result.folders.size() == 2);
  CHECK(result.folders[0].folder == ".");
  CHECK(result.folders[0].model_type == "zamba");
  CHECK(result.folders[0].shards == Lines{"model.safetensors"});
  CHECK_FALSE(result.folders[0].adapter);
  CHECK(result.folders[1].folder == "lora/");
  REQUIRE(result.folders[1].adapter);
  CHECK(result.folders[1].adapter->peft_type == "LORA");
  CHECK(result.folders[1].adapter->rank == 2);
  CHECK(result.folders[1].adapter->alpha == "4.5");
  CHECK(result.folders[1].adapter->base_model == "x/y");
  CHECK(result.folders[1].adapter->modules == 1);
}

TEST_CASE("what a hostile input repeats is counted, not kept") {
  std::string map = "{\"metadata\":{\"total_size\":0},\"weight_map\":{";
  for (int i = 0; i < 12'000; ++i) map += "\"" + std::to_string(i) + "\":\"/" + std::to_string(i) + "\",";
  map.back() = '}';
  const LintResult result = run_lint({{"model.safetensors.index.json", map + "}"}});
  CHECK(result.findings.size() == 10'000);
  REQUIRE(result.omitted.size() == 1);
  CHECK(result.omitted[0].rule == Rule::IX012);
  CHECK(result.omitted[0].count == 2'000);
}

TEST_CASE("configuration rules see the files that the index names") {
  const std::string config =
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4,"vocab_size":8,"num_hidden_layers":1,)"
      R"("num_attention_heads":2,"intermediate_size":8,"tie_word_embeddings":true})";
  MemoryFiles files = {{"config.json", config},
                       {"model.safetensors", weights({{"lm_head.weight", "F32", {8, 4}},
                                                      {"model.embed_tokens.weight", "F32", {8, 4}},
                                                      {"model.norm.weight", "F32", {4}}})},
                       {"consolidated.safetensors", weights({{"other", "F32", {9}}})}};
  LintResult result = run_lint(files);
  REQUIRE(result.tied_heads.size() == 1);
  CHECK(result.tied_heads[0].config == "config.json");
  const LintedFile& file = result.files[result.tied_heads[0].head.file];
  CHECK(file.path == "model.safetensors");
  CHECK(file.scan.header.tensors[result.tied_heads[0].head.tensor].name == "lm_head.weight");
  CHECK(finding_lines(result.findings, {"CF026"}).empty());  // consolidated* is not checked
  // Not in adapter folders.
  files["adapter_config.json"] = "{}";
  CHECK(finding_lines(run_lint(files).findings, {"CF"}).empty());
}
