// The base model's family from an adapter's module names and shapes (spec adapters 5, second table).
#include <string>

#include "tftf/adapter/survey.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

// "<word>.<number>." or "<word>_<number>_" somewhere in the name, at a component's start.
bool has_numbered(std::string_view name, std::string_view word) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    if (at > 0 && name[at - 1] != '.' && name[at - 1] != '_') continue;
    size_t next = at + word.size();
    if (next >= name.size() || (name[next] != '.' && name[next] != '_')) continue;
    const size_t digits = ++next;
    while (next < name.size() && name[next] >= '0' && name[next] <= '9') ++next;
    if (next > digits && next < name.size() && (name[next] == '.' || name[next] == '_')) return true;
  }
  return false;
}

// A path's last part in dotted or underscored spelling: ends_in("…_img_mlp_0", "img_mlp", "0").
bool ends_in(std::string_view name, std::string_view a, std::string_view b) {
  for (char separator : {'.', '_'})
    if (ends_with(name, std::string(a) + separator + std::string(b))) return true;
  return false;
}

struct Sizes {
  uint64_t in = 0;   // input width of the down factor
  uint64_t out = 0;  // rows of the up factor
};

Sizes sizes_of(const AdapterModule& module, const Checkpoint& checkpoint) {
  Sizes sizes;
  const bool mlx = module.family == AdapterFamily::kMlx;
  if (const auto down = module.find(AdapterPart::kDown)) {
    const Shape& shape = checkpoint.info(*down).shape;
    if (shape.size() >= 2) sizes.in = mlx ? shape[shape.size() - 2] : shape[1];
  }
  if (const auto up = module.find(AdapterPart::kUp)) {
    const Shape& shape = checkpoint.info(*up).shape;
    if (!shape.empty()) sizes.out = mlx ? shape.back() : shape[0];
  }
  return sizes;
}

struct Answer {
  std::string_view family;
  std::string evidence;
};

// Flux: the widths of the fused layers against h.
Answer judge_flux(const std::vector<AdapterModule>& modules, const Checkpoint& checkpoint) {
  uint64_t h = 0;
  bool blocks = false;
  for (const AdapterModule& module : modules) {
    if (!has_numbered(module.name, "double_blocks") && !has_numbered(module.name, "single_blocks")) continue;
    blocks = true;
    const bool qkv = contains(module.name, "qkv") || ends_with(module.name, "linear1");
    if (qkv && h == 0) h = sizes_of(module, checkpoint).in;
  }
  if (!blocks) return {};
  for (const AdapterModule& module : modules) {
    const std::string_view name = module.name;
    if (!has_numbered(name, "double_blocks") && !has_numbered(name, "single_blocks")) continue;
    // HunyuanVideo writes attn_qkv as one word inside a dotted path.
    if (contains(name, ".") && (contains(name, "img_attn_qkv") || contains(name, "txt_attn_qkv")))
      return {"hunyuan-video", "blocks with img_attn_qkv"};
    const Sizes sizes = sizes_of(module, checkpoint);
    const std::string h_text = std::to_string(h);
    if (ends_with(name, "linear1") && h > 0) {
      if (sizes.out == 7 * h) return {"flux.1", "linear1 has 7 x " + h_text + " rows"};
      if (sizes.out == 9 * h) return {"flux.2", "linear1 has 9 x " + h_text + " rows"};
    }
    if (ends_in(name, "img_mlp", "0") && sizes.in > 0) {
      if (sizes.out == 4 * sizes.in)
        return {"flux.1", "img_mlp.0 has 4 x " + std::to_string(sizes.in) + " rows"};
      if (sizes.out == 6 * sizes.in)
        return {"flux.2", "img_mlp.0 has 6 x " + std::to_string(sizes.in) + " rows"};
    }
    const bool linear2 =
        ends_with(name, "linear2") || (has_numbered(name, "single_blocks") && ends_with(name, "proj_lora"));
    if (linear2 && h > 0) {
      if (sizes.in == 5 * h) return {"flux.1", "linear2 reads 5 x " + h_text};
      if (sizes.in == 4 * h) return {"flux.2", "linear2 reads 4 x " + h_text};
    }
    if (ends_in(name, "img_mod", "lin") || ends_in(name, "txt_mod", "lin"))
      return {"flux.1", "img_mod.lin per block"};
  }
  return {};
}

Answer judge_transformers(const std::vector<AdapterModule>& modules) {
  bool single = false, single_part = false, joint = false, qwen = false;
  bool wan_self = false, wan_cross = false, wan_image = false;
  for (const AdapterModule& module : modules) {
    const std::string_view name = module.name;
    if (has_numbered(name, "single_transformer_blocks")) {
      single = true;
      single_part = single_part || contains(name, "proj_mlp");
      for (std::string_view projection : {"to_q", "to_k", "to_v"})
        single_part = single_part || ends_in(name, "attn", projection);
    } else if (has_numbered(name, "transformer_blocks")) {
      qwen = qwen || contains(name, "img_mlp") || contains(name, "txt_mlp");
      joint = joint || (name.substr(0, 31) == "transformer.transformer_blocks." && contains(name, ".attn2."));
    }
    joint = joint || has_numbered(name, "joint_blocks") || contains(name, "context_block");
    if (has_numbered(name, "blocks")) {
      wan_self = wan_self || ends_in(name, "self_attn", "q");
      wan_cross = wan_cross || contains(name, "cross_attn");
      wan_image = wan_image || ends_in(name, "cross_attn", "k_img") || contains(name, "add_k_proj");
    }
  }
  if (single && single_part)
    return {"flux.1",
            "single_transformer_blocks with proj_mlp or attn.to_q, to_k, to_v (HunyuanVideo in diffusers has "
            "the same)"};
  if (joint) return {"sd3", "joint_blocks, context_block or attn2 in transformer_blocks"};
  if (qwen) return {"qwen-image", "transformer_blocks with img_mlp or txt_mlp"};
  if (wan_self && wan_cross)
    return {"wan", wan_image ? "self_attn and cross_attn.k_img (I2V)" : "self_attn and cross_attn"};
  return {};
}

Answer judge_diffusion_unet(const std::vector<AdapterModule>& modules, const Checkpoint& checkpoint) {
  Answer sgm;
  for (const AdapterModule& module : modules) {
    const std::string_view name = module.name;
    if (name.substr(0, 9) == "lora_te2_" || name.substr(0, 15) == "text_encoder_2.")
      return {"sdxl", "a second text encoder"};
    if (contains(name, "attn2") && (contains(name, "to_k") || contains(name, "to_v"))) {
      const uint64_t in = sizes_of(module, checkpoint).in;
      if (in == 2048) return {"sdxl", "attn2 to_k reads 2048"};
      if (in == 1024) return {"sd2", "attn2 to_k reads 1024"};
      if (in == 768) return {"sd1", "attn2 to_k reads 768"};
    }
    if (module.family == AdapterFamily::kKohya &&
        (contains(name, "input_blocks_") || contains(name, "middle_block_") ||
         contains(name, "output_blocks_")))
      sgm = {"sdxl", "UNet names of the original code in a kohya file"};
  }
  return sgm;
}

Answer judge_language(const std::vector<AdapterModule>& modules) {
  for (const AdapterModule& module : modules)
    if (has_numbered(module.name, "model.layers") && contains(module.name, "self_attn."))
      return {"llm", "model.layers with self_attn"};
  return {};
}

}  // namespace

std::string_view adapter_base_family(const std::vector<AdapterModule>& modules, const Checkpoint& checkpoint,
                                     std::string& evidence) {
  Answer answer = judge_flux(modules, checkpoint);
  if (answer.family.empty()) answer = judge_transformers(modules);
  if (answer.family.empty()) answer = judge_diffusion_unet(modules, checkpoint);
  if (answer.family.empty()) answer = judge_language(modules);
  evidence = std::move(answer.evidence);
  return answer.family;
}

}  // namespace tftf
