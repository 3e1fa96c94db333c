#include "lint/layout/modules.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kKindNames[] = {
    "packed-int", "fp-quant", "ct-packed", "fp8-inv", "fp8-scale", "mxfp8", "fp4-i8",       "nvfp4", "mxfp4",
    "u8-scaled",  "int8",     "int-quark", "eetq",    "bnb",       "mlx",   "mxfp4-blocks", "aqlm",  "vptq",
    "hqq",        "exl3",     "exl2",      "quip",    "quanto",    "spqr",  "higgs"};

constexpr std::string_view kStackNames[] = {"gate_up_proj", "gate_proj", "up_proj", "down_proj"};
constexpr std::string_view kProjections[] = {"q_proj",
                                             "k_proj",
                                             "v_proj",
                                             "o_proj",
                                             "qkv_proj",
                                             "gate_proj",
                                             "up_proj",
                                             "down_proj",
                                             "gate_up_proj",
                                             "w1",
                                             "w2",
                                             "w3",
                                             "q_a_proj",
                                             "q_b_proj",
                                             "kv_a_proj_with_mqa",
                                             "kv_b_proj",
                                             "fc1",
                                             "fc2",
                                             "out_proj",
                                             "in_proj",
                                             "c_fc",
                                             "c_proj",
                                             "c_attn",
                                             "dense_h_to_4h",
                                             "dense_4h_to_h",
                                             "query_key_value"};
// Last components of tensors that scale a module.
constexpr std::string_view kScaleRoles[] = {"weight_scale",
                                            "weight_scale_inv",
                                            "weight_scale_2",
                                            "weight_global_scale",
                                            "weight_scales",
                                            "scales",
                                            "scale",
                                            "SCB",
                                            "absmax",
                                            "input_scale",
                                            "input_global_scale",
                                            "k_scale",
                                            "v_scale"};
constexpr std::string_view kStackRoles[] = {"_scale_inv", "_scales", "_scale"};
constexpr std::string_view kQuantState = ".weight.quant_state.bitsandbytes__";

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Finds the kind that a tensor gives its module away as.
class ModuleTeller {
 public:
  explicit ModuleTeller(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  struct Told {
    std::string_view module;
    ModuleKind kind{};
  };
  std::optional<Told> tell(const TensorInfo& tensor) {
    const std::string_view name = tensor.name;
    if (const size_t at = name.find(kQuantState); at != std::string_view::npos && at != 0)
      return Told{name.substr(0, at), ModuleKind::kBnb};
    const SplitName split = split_name(name);
    if (is_stack_name(split.last) && is_fp8(tensor.dtype)) {
      if (sibling(name, "_scale_inv")) return Told{name, ModuleKind::kFp8Inv};
      if (sibling(name, "_scale")) return Told{name, ModuleKind::kFp8Scale};
      return std::nullopt;
    }
    constexpr std::string_view kBlocks = "_blocks";
    if (ends_with(split.last, kBlocks) && tensor.dtype == DType::U8) {
      const std::string_view stack = name.substr(0, name.size() - kBlocks.size());
      if (is_stack_name(split_name(stack).last) && sibling(stack, "_scales"))
        return Told{stack, ModuleKind::kMxfp4Blocks};
    }
    if (split.path.empty()) return std::nullopt;
    if (const auto kind = kind_of(split, tensor.dtype)) return Told{split.path, *kind};
    constexpr std::string_view kData = ".weight._data";
    if (ends_with(name, kData)) {
      const std::string_view module = name.substr(0, name.size() - kData.size());
      if (sibling(module, ".weight._scale")) return Told{module, ModuleKind::kQuanto};
    }
    return std::nullopt;
  }

 private:
  const TensorInfo* sibling(std::string_view module, std::string_view suffix) {
    buffer_.assign(module).append(suffix);
    const std::optional<TensorRef> found = checkpoint_.find(buffer_);
    return found ? &checkpoint_.info(*found) : nullptr;
  }

  std::optional<ModuleKind> kind_of_weight(std::string_view module, DType dtype) {
    const auto found = [&](std::string_view suffix) { return sibling(module, suffix); };
    const auto exponents = [](const TensorInfo* scale) {
      return scale && (scale->dtype == DType::U8 || scale->dtype == DType::F8_E8M0);
    };
    if (is_fp8(dtype)) {
      const TensorInfo* block = found(".scale");
      if (found(".weight_scale_inv") || (block && block->dtype == DType::F8_E8M0)) return ModuleKind::kFp8Inv;
      if (const TensorInfo* scale = found(".weight_scale"))
        return exponents(scale) ? ModuleKind::kMxfp8 : ModuleKind::kFp8Scale;
    } else if (dtype == DType::I8) {
      const TensorInfo* block = found(".scale");
      if (block && block->dtype == DType::F8_E8M0) return ModuleKind::kFp4I8;
      if (found(".weight_scale")) return ModuleKind::kInt8;
      if (found(".weight_scales")) return ModuleKind::kEetq;
    } else if (dtype == DType::U8) {
      if (found(".weight_scale_2")) return ModuleKind::kNvfp4;
      if (const TensorInfo* scale = found(".weight_scale"))
        return scale->dtype == DType::U8 ? ModuleKind::kMxfp4 : ModuleKind::kU8Scaled;
    } else if (dtype == DType::I32) {
      if (found(".weight_scale")) return ModuleKind::kIntQuark;
    } else if (dtype == DType::U32) {
      if (found(".scales")) return ModuleKind::kMlx;
    }
    return std::nullopt;
  }

  std::optional<ModuleKind> kind_of(const SplitName& name, DType dtype) {
    const auto with = [&](std::string_view suffix, ModuleKind kind) {
      return sibling(name.path, suffix) ? std::optional(kind) : std::nullopt;
    };
    const std::string_view last = name.last;
    if (last == "weight") return kind_of_weight(name.path, dtype);
    if (last == "qweight") {
      if (dtype == DType::I32 || dtype == DType::I16) return with(".scales", ModuleKind::kPackedInt);
      if (dtype == DType::U8) return with(".scales", ModuleKind::kFpQuant);
    }
    if (last == "weight_packed") return ModuleKind::kCtPacked;
    if (last == "SCB") return with(".weight", ModuleKind::kBnb);
    if (last == "codes") return with(".codebooks", ModuleKind::kAqlm);
    if (last == "indices") return with(".centroids.weight", ModuleKind::kVptq);
    if (last == "W_q") return ModuleKind::kHqq;
    if (last == "trellis") return ModuleKind::kExl3;
    if (last == "q_weight") return with(".q_scale", ModuleKind::kExl2);
    if (last == "Qidxs") return with(".SU", ModuleKind::kQuip);
    if (last == "dense_weights") return with(".row_offsets", ModuleKind::kSpqr);
    if (last == "tables2") return with(".scales", ModuleKind::kHiggs);
    return std::nullopt;
  }

  const Checkpoint& checkpoint_;
  std::string buffer_;
};

// The module and the role of a tensor that may be a scale.
std::optional<ModuleScale> scale_of(const QuantModules& modules, std::string_view name) {
  const auto scale = [&](std::string_view module, std::string_view role) -> std::optional<ModuleScale> {
    const auto found = modules.by_name.find(module);
    if (found == modules.by_name.end()) return std::nullopt;
    return ModuleScale{{}, found->second, role};
  };
  const SplitName split = split_name(name);
  if (is_one_of(split.last, kScaleRoles)) return scale(split.path, split.last);
  constexpr std::string_view kWeight = ".weight";
  if (split.last == "_scale" && ends_with(split.path, kWeight))
    return scale(split.path.substr(0, split.path.size() - kWeight.size()), split.last);
  for (const std::string_view role : kStackRoles)
    if (ends_with(split.last, role)) {
      const std::string_view stack = name.substr(0, name.size() - role.size());
      if (is_stack_name(split_name(stack).last)) return scale(stack, name.substr(stack.size()));
    }
  return std::nullopt;
}

}  // namespace

std::string_view module_kind_name(ModuleKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

bool has_float_codes(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::kFp8Inv:
    case ModuleKind::kFp8Scale:
    case ModuleKind::kMxfp8:
    case ModuleKind::kNvfp4:
    case ModuleKind::kMxfp4:
    case ModuleKind::kMxfp4Blocks:
    case ModuleKind::kFp4I8:
    case ModuleKind::kU8Scaled:
      return true;
    default:
      return false;
  }
}

SplitName split_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {{}, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_stack_name(std::string_view last) { return is_one_of(last, kStackNames); }
bool is_projection(std::string_view path) { return is_one_of(split_name(path).last, kProjections); }
bool is_plain_dtype(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}

QuantModules find_quant_modules(const Checkpoint& checkpoint) {
  QuantModules out;
  ModuleTeller teller(checkpoint);
  for (const TensorRef ref : checkpoint.order) {
    const TensorInfo& tensor = checkpoint.info(ref);
    const auto told = teller.tell(tensor);
    if (!told) continue;
    const auto [at, fresh] = out.by_name.emplace(told->module, static_cast<uint32_t>(out.all.size()));
    if (fresh)
      out.all.push_back({told->module, told->kind, ref});
    else if (QuantModule& known = out.all[at->second]; checkpoint.info(known.lead).name < tensor.name)
      known = {told->module, told->kind, ref};
  }
  std::sort(out.all.begin(), out.all.end(),
            [](const QuantModule& a, const QuantModule& b) { return a.name < b.name; });
  for (uint32_t i = 0; i < out.all.size(); ++i) out.by_name[out.all[i].name] = i;
  if (out.all.empty()) return out;
  for (const TensorRef ref : checkpoint.order)
    if (auto scale = scale_of(out, checkpoint.info(ref).name)) {
      scale->tensor = ref;
      out.scales.push_back(*scale);
    }
  return out;
}

}  // namespace tftf
