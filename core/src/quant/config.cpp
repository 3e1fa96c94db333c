#include "tftf/quant/config.h"

namespace tftf {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

const JsonValue* root_of(const Checkpoint& checkpoint, std::string_view name) {
  const SideFile* file = checkpoint.side_file(name);
  return file && !file->document.error && file->document.root.is_object() ? &file->document.root : nullptr;
}

const JsonValue* object(const JsonValue* in, std::string_view key) {
  const JsonValue* value = in ? in->get(key) : nullptr;
  return value && value->is_object() ? value : nullptr;
}

void find_section(const Checkpoint& checkpoint, QuantConfig& out) {
  for (const char* file : {"config.json", "params.json"}) {
    const JsonValue* root = root_of(checkpoint, file);
    const std::string name(file);
    if ((out.section = object(root, "quantization_config"))) {
      out.section_place = name + " quantization_config";
    } else if ((out.section = object(object(root, "text_config"), "quantization_config"))) {
      out.section_place = name + " text_config.quantization_config";
    } else if ((out.section = object(root, "compression_config"))) {
      // transformers nests the real object when it saves such a configuration again.
      if (const JsonValue* nested = object(out.section, "quantization_config")) out.section = nested;
      out.section_place = name + " compression_config";
    }
    if (out.section) return;
  }
}

void find_method(QuantConfig& out) {
  auto set = [&](std::string method, std::string place) {
    out.method = std::move(method);
    out.method_place = std::move(place);
  };
  if (out.section) {
    if (const auto method = out.section->string("quant_method"))
      return set(lower(*method), out.section_place);
    if (out.section->get("quant_algo")) return set("modelopt", out.section_place + " (quant_algo)");
    if (out.section->get("config_groups"))
      return set("compressed-tensors", out.section_place + " (config_groups)");
  }
  if (out.mlx) return set("mlx", "config.json quantization");
  if (out.hf_quant) return set("modelopt", "hf_quant_config.json");
  if (out.gptq_file) return set("gptq", "quantize_config.json");
  if (out.awq_file) return set("awq", "quant_config.json");
}

}  // namespace

const JsonValue* QuantConfig::get(std::string_view key) const {
  for (const JsonValue* from : {section, hf_quant, gptq_file, awq_file})
    if (from)
      if (const JsonValue* value = from->get(key)) return value;
  return nullptr;
}

QuantConfig read_quant_config(const Checkpoint& checkpoint) {
  QuantConfig out;
  find_section(checkpoint, out);
  out.mlx = object(root_of(checkpoint, "config.json"), "quantization");
  if (out.mlx && !out.mlx->integer("bits")) out.mlx = nullptr;
  out.hf_quant = object(root_of(checkpoint, "hf_quant_config.json"), "quantization");
  // Other exporters use the same file name for other things.
  if (const JsonValue* root = root_of(checkpoint, "quantize_config.json"); root && root->integer("bits"))
    out.gptq_file = root;
  if (const JsonValue* root = root_of(checkpoint, "quant_config.json"); root && root->get("w_bit"))
    out.awq_file = root;
  find_method(out);
  return out;
}

}  // namespace tftf
