#include "tftf/adapter/names.h"

namespace tftf {
namespace {

constexpr std::string_view kMarkers[] = {"lora_A",
                                         "lora_B",
                                         "lora_embedding_A",
                                         "lora_embedding_B",
                                         "lora_magnitude_vector",
                                         "lora_E",
                                         "lora_diag",
                                         "vera_lambda_b",
                                         "vera_lambda_d",
                                         "vera_A",
                                         "vera_B",
                                         "ia3_l",
                                         "oft_R",
                                         "oft_r",
                                         "oft_embedding_R",
                                         "oft_embedding_r",
                                         "boft_R",
                                         "boft_s",
                                         "token_adapter",
                                         "modules_to_save"};
constexpr std::string_view kMarkerStarts[] = {"hada_", "lokr_"};
constexpr std::string_view kOptimizerStates[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step",
                                                 "momentum_buffer"};
constexpr std::string_view kWrappers[] = {"_fsdp_wrapped_module", "_orig_mod", "module"};

template <class Visit>
void each_component(std::string_view name, Visit visit) {
  for (size_t begin = 0;;) {
    const size_t dot = name.find('.', begin);
    visit(name.substr(begin, dot == std::string_view::npos ? dot : dot - begin));
    if (dot == std::string_view::npos) return;
    begin = dot + 1;
  }
}

bool is_marker(std::string_view component) {
  for (std::string_view marker : kMarkers)
    if (component == marker) return true;
  for (std::string_view start : kMarkerStarts)
    if (component.starts_with(start)) return true;
  return false;
}

}  // namespace

bool has_adapter_marker(std::string_view name) {
  bool marked = false;
  std::string_view last;
  each_component(name, [&](std::string_view component) {
    marked = marked || is_marker(component);
    last = component;
  });
  for (std::string_view state : kOptimizerStates)
    if (last == state) return false;
  return marked;
}

std::string unwrapped_name(std::string_view name) {
  std::string out;
  each_component(name, [&](std::string_view component) {
    for (std::string_view wrapper : kWrappers)
      if (component == wrapper) return;
    if (!out.empty()) out += '.';
    out += component;
  });
  const size_t base = out.find("base_model.model.");
  return base == std::string::npos ? out : out.substr(base);
}

}  // namespace tftf
