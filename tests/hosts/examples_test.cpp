// Every example of every help text and of the documentation does what it says, on bundled samples.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/command/command.h"
#include "transform_host.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

namespace fs = std::filesystem;

const std::string kTop = TFTF_TEST_DATA "/..";
const std::string kTftfSamples = TFTF_TEST_DATA "/golden/tftf/inputs/";
const std::string kExpertSamples = TFTF_TEST_DATA "/golden/experts/models/";
const std::string kColibriSamples = TFTF_TEST_DATA "/golden/colibri/cases/";

// What stands for the names in examples.
const std::map<std::string, std::string>& sample_places() {
  static const std::string qwen = kTop + "/docs/sample/qwen3-tiny-fp8";
  static const std::map<std::string, std::string> places = {
      {"model", qwen},
      {"models", qwen},
      {"m", qwen},
      {"MODEL", qwen},
      {"DeepSeek-V3", qwen},
      {"model-fp8", qwen},
      {"m.safetensors", qwen + "/model-00001-of-00002.safetensors"},
      {"model.safetensors", kTftfSamples + "base_f32/model.safetensors"},
      {"base", kTftfSamples + "base_f32"},
      {"adapter", kTftfSamples + "ad_basic"},
      {"ADAPTER", kTftfSamples + "ad_basic"},
      {"style.safetensors", TFTF_TEST_DATA "/golden/adapters/inputs/kohya_sd_unet.safetensors"},
      {"other.safetensors", TFTF_TEST_DATA "/golden/adapters/inputs/kohya_sd_unet.safetensors"},
      {"before", TFTF_TEST_DATA "/golden/adapters/inputs/extract_original.safetensors"},
      {"after", TFTF_TEST_DATA "/golden/adapters/inputs/extract_tuned.safetensors"},
      {"tuned", kExpertSamples + "graft-dsv3-lost"},
      {"source", kExpertSamples + "graft-dsv3-source"},
      {"moe-adapter", kExpertSamples + "ad-qwen3_moe-split"},
      {"moe-base", kExpertSamples + "qwen3_moe-v5"},
      {"Qwen3-FP8", kTftfSamples + "fp8_lora"},
      {"Qwen3-adapter", kTftfSamples + "ad_fp8"},
      {"runs/checkpoint-500", kTftfSamples + "ad_basic"},
      {"runs/step-1000", kTftfSamples + "dcp/ws2/pytorch_model_fsdp_0"},
      {"run/adapter", kTftfSamples + "fsdp2"},
      {"rank0.safetensors", kTftfSamples + "fsdp2/rank_00.safetensors"},
      {"rank1.safetensors", kTftfSamples + "fsdp2/rank_01.safetensors"},
      {"mixtral", kExpertSamples + "mixtral-v4"},
      {"gpt-oss", kExpertSamples + "gpt_oss-v5"},
      {"gemma3", kExpertSamples + "gemma3-v4"},
      {"GLM-FP8", kColibriSamples + "src-fp8/in"},
      {"GLM-BF16", kColibriSamples + "conv-e8/in"},
      {"glm-grouped", kColibriSamples + "f42-main/in"},
      {"glm-int4", kColibriSamples + "rans-repack/in"},
      {"w.safetensors", kColibriSamples + "q-int4g64/in/w.safetensors"},
      {"container", kColibriSamples + "st-ok/in"},
      {"out-00000.safetensors", kColibriSamples + "rans-repack/in/out-00000.safetensors"},
  };
  return places;
}

// Samples that are made of others, by these commands.
const std::map<std::string, std::string>& made_samples() {
  static const std::map<std::string, std::string> made = {
      {"model-bf16", "tftf dequant -i model -o model-bf16"},
      {"quantised", "tftf quantize -i model -o quantised --to fp8-block"},
      {"glm-colibri", "tftf repack -i model -o glm-colibri --to colibri-fp8"},
      {"glm-rans", "tftf colibri rans-repack --indir glm-int4 --outdir glm-rans"},
      {"lint-baseline.json", "tftf-lint --write-baseline lint-baseline.json models"},
      {"q.safetensors", "tftf colibri quantize --format int8-row -i w64.safetensors -o q.safetensors"},
  };
  return made;
}

ProgramRun shell(const std::string& line, const ScratchFolder& folder) {
  return test::run_program({"/bin/bash", "-c", line}, folder.path().string(),
                           {"PATH=" TFTF_BIN ":/usr/bin:/bin", "HOME=" + folder.path().string()});
}

// Names of `line` that have a sample, but for what it writes.
std::vector<std::string> samples_in(const std::string& line) {
  std::vector<std::string> words, names;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const bool written = i > 0 && (words[i - 1] == "-o" || words[i - 1] == "--outdir" ||
                                   words[i - 1] == "--output" || words[i - 1] == "--write-baseline");
    std::string name = words[i];
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    if (!written) names.push_back(name);
  }
  return names;
}

void prepare(const std::string& line, const ScratchFolder& folder) {
  fs::create_directories(folder.path() / "runs");
  fs::create_directories(folder.path() / "run");
  fs::create_directories(folder.path() / ".zfunc");
  fs::create_directories(folder.path() / ".config/fish/completions");
  std::ofstream(folder.path() / "pairs.json")
      << R"([{"O": 64, "I": 98, "weight_bytes": 6272, "scale_bytes": 4, "stamp": null, "routed": false}])";
  std::ofstream(folder.path() / "names.json") << R"([["model.layers.3.mlp.gate.weight", 78, false, false]])";
  for (const std::string& name : samples_in(line)) {
    const fs::path place = folder.path() / name;
    if (fs::exists(fs::symlink_status(place))) continue;
    if (name == "w64.safetensors") {
      std::ofstream(place, std::ios::binary) << test::model_file(
          {{"w", DType::F32, {64, 128}, test::f32_bytes(std::vector<float>(64 * 128, 0.5f))}}, {});
    } else if (name == "loras") {
      fs::create_directories(place);
      for (const char* file : {"a.safetensors", "b.safetensors"})
        fs::copy(sample_places().at("style.safetensors"), place / file);
    } else if (const auto sample = sample_places().find(name); sample != sample_places().end()) {
      fs::copy(sample->second, place, fs::copy_options::recursive);
      // Its blocks are small.
      if (name == "Qwen3-FP8")
        std::ofstream(place / "config.json")
            << R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}})";
    } else if (const auto made = made_samples().find(name); made != made_samples().end()) {
      prepare(made->second, folder);
      INFO(made->second);
      const ProgramRun run = shell(made->second, folder);
      INFO(run.err);
      REQUIRE(run.status == 0);
    }
  }
}

// What is piped into another program is looked at alone. The sample of a model with 78 layers has fewer.
std::string to_run(const std::string& line) {
  std::string text = line.substr(0, line.find(" | "));
  if (text.find("colibri") != std::string::npos && text.find("--indir GLM-FP8") != std::string::npos)
    text += " --n-layers 2";
  return text;
}

}  // namespace

TEST_CASE("every example of every help runs") {
  size_t examples = 0;
  for (const Command& command : all_commands()) {
    for (const CommandExample& example : command.info->examples) {
      const std::string line = to_run(std::string(example.line));
      INFO(line);
      ScratchFolder scratch;
      prepare(line, scratch);
      const ProgramRun run = shell(line, scratch);
      INFO(run.out);
      INFO(run.err);
      CHECK(run.status == 0);
      ++examples;
    }
  }
  CHECK(examples > 70);
}

namespace {

struct DocumentedLine {
  std::string file, line;
};

// Commands in the code blocks of the documentation: lines that begin with the program, with or without a prompt.
std::vector<DocumentedLine> documented_lines() {
  std::vector<fs::path> files{fs::path(kTop) / "README.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(kTop) / "docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<DocumentedLine> lines;
  for (const fs::path& file : files) {
    std::ifstream stream(file);
    bool code = false;
    for (std::string line; std::getline(stream, line);) {
      if (line.rfind("```", 0) == 0) code = !code;
      if (line.rfind("$ ", 0) == 0) line = line.substr(2);
      if (code && (line.rfind("tftf ", 0) == 0 || line.rfind("tftf-lint ", 0) == 0))
        lines.push_back({file.filename().string(), to_run(line)});
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("every command line of the documentation runs") {
  const std::vector<DocumentedLine> lines = documented_lines();
  CHECK(lines.size() > 80);
  for (const auto& [file, line] : lines) {
    INFO(file << ": " << line);
    // Placeholders of several words, and networks.
    if (line.find("…") != std::string::npos || line.find("hf://") != std::string::npos ||
        line.find("http") != std::string::npos)
      continue;
    ScratchFolder scratch;
    fs::create_directory_symlink(fs::path(kTop) / "docs", scratch.path() / "docs");
    fs::create_directory_symlink(TFTF_TEST_DATA, scratch.path() / "tests");
    prepare(line, scratch);
    if (line.find("qwen3-tiny-bf16 ") != std::string::npos &&
        line.find("-o qwen3-tiny-bf16") == std::string::npos)
      REQUIRE(shell("tftf dequant-fp8 -i docs/sample/qwen3-tiny-fp8 -o qwen3-tiny-bf16", scratch).status ==
              0);
    const ProgramRun run = shell(line, scratch);
    INFO(run.out);
    INFO(run.err);
    // A finding or a refusal is an answer; a command line that is wrong, or a defect, is none.
    CHECK(run.status <= 1);
    CHECK(run.err.find("tftf: ") == std::string::npos);
  }
}

}  // namespace tftf
