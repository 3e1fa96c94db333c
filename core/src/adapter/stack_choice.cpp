#include "adapter/stack_choice.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tftf::merging {
namespace {

constexpr std::string_view kOutInTypes[] = {"mixtral",
                                            "minimax",
                                            "minimax_m2",
                                            "phimoe",
                                            "qwen2_moe",
                                            "qwen3_moe",
                                            "qwen3_next",
                                            "deepseek_v2",
                                            "deepseek_v3",
                                            "deepseek_v32",
                                            "deepseek_v4",
                                            "dots1",
                                            "glm4_moe",
                                            "glm4_moe_lite",
                                            "glm_moe_dsa",
                                            "glm4v_moe",
                                            "solar_open",
                                            "mellum",
                                            "afmoe",
                                            "olmoe",
                                            "hunyuan_v1_moe",
                                            "flex_olmo",
                                            "cohere2_moe",
                                            "ernie4_5_moe",
                                            "exaone_moe",
                                            "hy_v3",
                                            "laguna",
                                            "lfm2_moe",
                                            "jamba",
                                            "nemotron_h",
                                            "mistral4",
                                            "gemma4_text",
                                            "gemma4",
                                            "qwen3_5_moe",
                                            "qwen3_5_moe_text",
                                            "granitemoe",
                                            "granitemoeshared",
                                            "granitemoehybrid",
                                            "minimax_m3_vl"};
constexpr std::string_view kInOutTypes[] = {"gpt_oss", "llama4", "llama4_text"};
constexpr std::string_view kBothTypes[] = {"qwen3_vl_moe", "qwen3_vl_moe_text"};

template <size_t N>
bool is_among(const std::string_view (&list)[N], const std::string& type) {
  return std::find(std::begin(list), std::end(list), type) != std::end(list);
}

bool fits_stack(const StackedPair& pair, const StackParameter& parameter, bool turned) {
  const Shape& w = parameter.shape;
  if (w.size() != 2 && w.size() != 3) return false;
  const uint64_t matrices = w.size() == 3 ? w[0] : 1;
  if (matrices == 0 || pair.rows == 0 || pair.rows % matrices != 0) return false;
  if (parameter.rank != 0 && pair.rows / matrices != parameter.rank) return false;
  const uint64_t x = w[w.size() - 2], y = w[w.size() - 1];
  // A matrix is never turned; a choice that turns leaves it as it is.
  return w.size() == 3 && turned ? x == pair.in && y == pair.out : x == pair.out && y == pair.in;
}

void extend(const std::vector<StackedPair>& pairs, const std::vector<StackParameter>& parameters,
            StackChoice& made, std::vector<StackChoice>& all) {
  if (made.parameters.size() == pairs.size()) {
    all.push_back(made);
    return;
  }
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (std::find(made.parameters.begin(), made.parameters.end(), p) != made.parameters.end()) continue;
    if (!fits_stack(pairs[made.parameters.size()], parameters[p], made.turned)) continue;
    made.parameters.push_back(p);
    extend(pairs, parameters, made, all);
    made.parameters.pop_back();
  }
}

}  // namespace

std::vector<StackChoice> stack_choices(const std::vector<StackedPair>& pairs,
                                       const std::vector<StackParameter>& parameters) {
  std::vector<StackChoice> all;
  if (pairs.size() > kMostStackedPairs || parameters.size() > kMostStackParameters) return all;
  for (const bool turned : {false, true}) {
    StackChoice made{turned, {}};
    extend(pairs, parameters, made, all);
  }
  // Turned or not is no choice where all parameters are matrices.
  const auto idle = [&](const StackChoice& choice) {
    return choice.turned && std::all_of(choice.parameters.begin(), choice.parameters.end(),
                                        [&](size_t p) { return parameters[p].shape.size() == 2; });
  };
  all.erase(std::remove_if(all.begin(), all.end(), idle), all.end());
  return all;
}

StoredAxes stored_expert_axes(const std::vector<std::string>& model_types) {
  // The text model's own type says more than the wrapper's.
  for (auto type = model_types.rbegin(); type != model_types.rend(); ++type) {
    if (is_among(kOutInTypes, *type)) return StoredAxes::kOutIn;
    if (is_among(kInOutTypes, *type)) return StoredAxes::kInOut;
    if (is_among(kBothTypes, *type)) return StoredAxes::kBoth;
  }
  return StoredAxes::kUnknown;
}

bool interleaves_gate(const std::vector<std::string>& model_types) {
  return std::find(model_types.begin(), model_types.end(), "gpt_oss") != model_types.end();
}

StoredAxes axes_of_shapes(const Shape& gate_up, const Shape& down) {
  if (gate_up.size() != 3 || down.size() != 3 || gate_up[0] != down[0]) return StoredAxes::kUnknown;
  const auto twice = [](uint64_t whole, uint64_t half) { return whole % 2 == 0 && whole / 2 == half; };
  if (down[1] == gate_up[2] && twice(gate_up[1], down[2])) return StoredAxes::kOutIn;
  if (down[2] == gate_up[1] && twice(gate_up[2], down[1])) return StoredAxes::kInOut;
  return StoredAxes::kUnknown;
}

bool reads_stacks_straight(const std::string& peft_version) {
  std::array<uint64_t, 3> numbers{};
  size_t at = 0;
  for (size_t n = 0; n < numbers.size(); ++n) {
    const size_t begin = at;
    while (at < peft_version.size() && at - begin < 6 && peft_version[at] >= '0' && peft_version[at] <= '9')
      numbers[n] = numbers[n] * 10 + static_cast<uint64_t>(peft_version[at++] - '0');
    if (at == begin) return false;
    if (n + 1 == numbers.size()) break;
    if (at == peft_version.size() || peft_version[at] != '.') return false;
    ++at;
  }
  constexpr std::array<uint64_t, 3> kFirst = {0, 19, 1};
  const bool released =
      at == peft_version.size() || peft_version[at] == '+' || peft_version.substr(at, 5) == ".post";
  return numbers > kFirst || (numbers == kFirst && released);
}

}  // namespace tftf::merging
