// Names and configuration sections of GPTQ and AWQ.
#include "quant/qweight_config.h"

#include "tftf/base/affix.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

// A pattern that matches the module alone.
std::string exact_pattern(const std::string& module) {
  std::string text = "^";
  for (const char c : module) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || static_cast<unsigned char>(c) >= 0x80;
    if (!plain) text += '\\';
    text += c;
  }
  return text + '$';
}

bool is_looked_for(const std::string& module) {
  return module.find("embed") == std::string::npos && module.find("lm_head") == std::string::npos;
}

}  // namespace

QweightNames::QweightNames(const std::string& weight) {
  std::string stem = weight == "weight" ? "" : weight + '.';
  if (ends_with(weight, ".weight")) stem = weight.substr(0, weight.size() - 6);
  qweight = stem + "qweight";
  scales = stem + "scales";
  qzeros = stem + "qzeros";
  g_idx = stem + "g_idx";
}

std::string gptq_config(const GptqDescription& description, const std::vector<std::string>& plain_modules) {
  const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  std::string text = "{\"quant_method\": \"gptq\", \"bits\": " + std::to_string(description.bits) +
                     ", \"group_size\": " + std::to_string(description.group) +
                     ", \"sym\": " + flag(description.symmetric) +
                     ", \"desc_act\": " + flag(description.act_order) + ", \"checkpoint_format\": \"" +
                     (description.v2 ? "gptq_v2" : "gptq") + '"';
  std::string dynamic;
  for (const GptqDescription::Other& other : description.others) {
    const bool named = ends_with(other.weight, ".weight");
    const std::string module = named ? other.weight.substr(0, other.weight.size() - 7) : other.weight;
    dynamic += (dynamic.empty() ? "" : ", ") + json_ascii_string("+:" + exact_pattern(module)) +
               ": {\"bits\": " + std::to_string(other.bits) +
               ", \"group_size\": " + std::to_string(other.group) + '}';
  }
  for (const std::string& module : plain_modules) {
    if (!is_looked_for(module)) continue;
    dynamic += (dynamic.empty() ? "" : ", ") + json_ascii_string("-:" + exact_pattern(module)) + ": {}";
  }
  if (!dynamic.empty()) text += ", \"dynamic\": {" + dynamic + '}';
  return text + '}';
}

std::string awq_config(int64_t group, const std::vector<std::string>& plain_modules) {
  std::string text = "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": " + std::to_string(group) +
                     ", \"zero_point\": true, \"version\": \"gemm\", \"modules_to_not_convert\": ";
  std::string list;
  for (const std::string& module : plain_modules) {
    if (is_looked_for(module)) list += (list.empty() ? "" : ", ") + json_ascii_string(module);
  }
  return text + (list.empty() ? "null" : '[' + list + ']') + '}';
}

}  // namespace tftf
