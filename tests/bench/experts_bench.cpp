// Fusing and splitting 1 GiB of BF16 experts, 128 of them, in every axes and order, and bringing one into other axes, against
// `cp` of the output. Runs the executable `tftf` beside this one; both sides end with everything on the disk (`sync`). Runs
// alternate, the ratio is that of the medians. Limits: 1.0 where rows stay whole, 1.6 turned, 32 MiB. Exit status 1 when one is passed.
//
//     experts_bench [FOLDER] [RUNS]     FOLDER: where 4 GiB fit (a new folder below the system's temporary one)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kExperts = 128, kInner = 768, kHidden = 1824;  // 1 GiB of BF16 in all
constexpr double kWholeLimit = 1.0, kTurnedLimit = 1.6;
constexpr long kMemoryLimit = 32 << 10;  // KiB

struct Run {
  double seconds = 0;
  long memory = 0;  // KiB
};

Run run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  std::fflush(nullptr);  // else the child would say again what has not left us yet
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr || freopen("/dev/null", "w", stderr) == nullptr)
      _exit(126);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (status != 0) {
    std::fprintf(stderr, "%s failed\n", words[0].c_str());
    std::exit(2);
  }
  sync();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), usage.ru_maxrss};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
};

void write_model(const fs::path& folder, const std::string& type, const std::vector<Tensor>& tensors) {
  fs::create_directories(folder);
  nlohmann::ordered_json header;
  uint64_t at = 0;
  for (const Tensor& tensor : tensors) {
    uint64_t bytes = 2;
    for (const uint64_t size : tensor.shape) bytes *= size;
    header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << text;
  std::string block(1 << 20, '\0');
  uint64_t state = 1;
  for (uint64_t done = 0; done < at; done += block.size()) {
    for (size_t i = 0; i + 8 <= block.size(); i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      for (size_t k = 0; k < 8; ++k) block[i + k] = static_cast<char>(state >> (8 * k));
    }
    file.write(block.data(), static_cast<std::streamsize>(std::min<uint64_t>(block.size(), at - done)));
  }
  std::ofstream(folder / "config.json")
      << R"({"model_type": ")" << type << R"(", "num_local_experts": )" << kExperts << "}";
}

std::vector<Tensor> split(const std::string& path) {
  std::vector<Tensor> tensors;
  for (uint64_t e = 0; e < kExperts; ++e)
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = part[0] == 'd';
      tensors.push_back({path + "." + std::to_string(e) + "." + part + ".weight",
                         {down ? kHidden : kInner, down ? kInner : kHidden}});
    }
  return tensors;
}

std::vector<Tensor> fused(const std::string& path, bool turned) {
  if (turned)
    return {{path + ".gate_up_proj", {kExperts, kHidden, 2 * kInner}},
            {path + ".down_proj", {kExperts, kInner, kHidden}}};
  return {{path + ".gate_up_proj", {kExperts, 2 * kInner, kHidden}},
          {path + ".down_proj", {kExperts, kHidden, kInner}}};
}

struct Case {
  const char* what;
  const char* type;
  const char* path;
  bool from_fused;
  bool turned;  // axes of the fused form
  std::vector<std::string> options;
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = {
      {"fuse, out-in, halves", "mistral4", "mlp.experts", false, false, {"--experts", "fused"}},
      {"split, out-in, halves", "mistral4", "mlp.experts", true, false, {"--experts", "split"}},
      {"fuse, in-out, halves", "llama4_text", "feed_forward.experts", false, true, {"--experts", "fused"}},
      {"split, in-out, halves", "llama4_text", "feed_forward.experts", true, true, {"--experts", "split"}},
      {"fuse, in-out, interleaved", "gpt_oss", "mlp.experts", false, true, {"--experts", "fused"}},
      {"split, in-out, interleaved", "gpt_oss", "mlp.experts", true, true, {"--experts", "split"}},
      {"in-out to out-in", "qwen3_vl_moe", "mlp.experts", true, true, {"--to", "transformers-5"}},
  };
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path work = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path() / "tftf-experts-bench";
  const int runs = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::string tftf = (fs::absolute(argv[0]).parent_path() / "tftf").string();
  bool passed = true;
  std::printf("%-28s %8s %8s %7s %7s %10s\n", "what", "seconds", "cp", "ratio", "limit", "memory");
  for (const Case& one : all_cases()) {
    const fs::path in = work / "in", out = work / "out", copy = work / "copy";
    const std::string prefix =
        one.type == std::string("qwen3_vl_moe") ? "model.language_model.layers.0." : "model.layers.0.";
    fs::remove_all(work);
    write_model(in, one.type,
                one.from_fused ? fused(prefix + one.path, one.turned) : split(prefix + one.path));
    std::vector<std::string> command = {tftf, "convert", "-i", in.string(), "-o", out.string()};
    command.insert(command.end(), one.options.begin(), one.options.end());
    std::vector<double> ours, copies;
    long memory = 0;
    for (int i = 0; i < runs; ++i) {
      fs::remove_all(out);
      const Run converted = run(command);
      ours.push_back(converted.seconds);
      memory = std::max(memory, converted.memory);
      fs::remove_all(copy);
      copies.push_back(run({"cp", "-r", out.string(), copy.string()}).seconds);
    }
    const double limit = one.turned ? kTurnedLimit : kWholeLimit, ratio = median(ours) / median(copies);
    const bool good = ratio <= limit && memory <= kMemoryLimit;
    passed = passed && good;
    std::printf("%-28s %8.2f %8.2f %7.2f %7.2f %6ld MiB%s\n", one.what, median(ours), median(copies), ratio,
                limit, memory >> 10, good ? "" : "  too much");
  }
  fs::remove_all(work);
  return passed ? 0 : 1;
}
