// GPTQ and AWQ: `<m>.qweight` with scales and packed zeros, told apart by shape (spec other-quant-layouts 1,
// 2).
#include <algorithm>

#include "quant/families.h"
#include "quant/gptq_zeros.h"
#include "quant/layout_scan.h"
#include "quant/qweight.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr QuantFormat kGptqV1 = {.id = "gptq-v1",
                                 .title = "GPTQ, zero points stored minus one",
                                 .open = open_qweight,
                                 .encoder = &kGptqV1Encoder,
                                 .codes = &kGptqV1Codes};
constexpr QuantFormat kGptqV2 = {.id = "gptq-v2",
                                 .title = "GPTQ v2, zero points as they are",
                                 .open = open_qweight,
                                 .encoder = &kGptqV2Encoder,
                                 .codes = &kGptqV2Codes};
constexpr QuantFormat kMarlin = {"gptq-marlin", "GPTQ in Marlin's tile order", true};
constexpr QuantFormat kPlanar = {"gptq-planar", "GPTQ with 5, 6 or 7 bits in planes", true};
constexpr QuantFormat kGemm = {.id = "awq-gemm",
                               .title = "AWQ, GEMM packing",
                               .open = open_qweight,
                               .encoder = &kAwqGemmEncoder,
                               .codes = &kAwqGemmCodes};
constexpr QuantFormat kGemv = {.id = "awq-gemv", .title = "AWQ, GEMV packing", .open = open_qweight};
constexpr QuantFormat kGemvFast = {"awq-gemv-fast", "AWQ, GEMV-fast packing", true};
constexpr std::string_view kSuffix = ".qweight";

struct Module {
  std::string_view name;  // without ".qweight"
  TensorRef qweight;
  TensorRef scales;
  std::optional<TensorRef> qzeros;
  std::optional<TensorRef> g_idx;
  uint64_t rows = 0, columns = 0;    // of qweight
  uint64_t groups = 0, outputs = 0;  // rows and columns of scales
};

bool usual_group(uint64_t group, uint64_t inputs) {
  for (uint64_t usual : {16, 32, 64, 128, 256})
    if (group == usual) return true;
  return group == inputs && group >= 16;
}

QuantMatch make_match(const LayoutScan& scan, const Module& module, const QuantFormat& format) {
  QuantMatch match;
  match.layout = format.id;
  match.module = std::string(module.name) + ".weight";
  match.weight = module.qweight;
  match.role = "qweight";
  match.companions.push_back({"scales", module.scales});
  if (module.qzeros) match.companions.push_back({"qzeros", *module.qzeros});
  if (module.g_idx) match.companions.push_back({"g_idx", *module.g_idx});
  match.logical_dtype = native_dtype(scan.info(module.scales).dtype);
  return match;
}

// Elements of a group: the declared number when it gives as many groups, else the exact quotient when it is a
// usual number. With g_idx else the usual number that gives them (the last group is then short); without, nothing: only the
// configuration could say it.
uint64_t group_of(const LayoutScan& scan, uint64_t inputs, uint64_t groups, bool has_index) {
  const JsonValue* value = scan.config().get("group_size");
  const int64_t declared = value ? value->as_integer().value_or(0) : 0;
  if (declared > 0 && ceil_div(inputs, static_cast<uint64_t>(declared)) == groups)
    return std::min(static_cast<uint64_t>(declared), inputs);
  const bool exact = inputs % groups == 0;
  if (exact && usual_group(inputs / groups, inputs)) return inputs / groups;
  if (!has_index) return 0;
  for (uint64_t usual : {16, 32, 64, 128, 256})
    if (ceil_div(inputs, usual) == groups) return usual;
  return exact ? inputs / groups : 0;
}

// GPTQ packs K: [K*b/32, N]. Bits come from g_idx, else from the zeros, else from the configuration.
std::optional<QuantMatch> fit_gptq(const LayoutScan& scan, const Module& module) {
  if (module.columns != module.outputs || module.rows == 0) return std::nullopt;
  uint64_t inputs = module.g_idx ? element_count(scan.info(*module.g_idx).shape).value_or(0) : 0;
  const Shape* zeros = module.qzeros ? &scan.info(*module.qzeros).shape : nullptr;
  uint64_t bits = 0;
  if (inputs > 0) {
    if (module.rows > UINT64_MAX / 32 || module.rows * 32 % inputs != 0) return std::nullopt;
    bits = module.rows * 32 / inputs;
  } else if (zeros && zeros->size() == 2 && (*zeros)[1] <= UINT64_MAX / 32 &&
             (*zeros)[1] * 32 % module.outputs == 0) {
    bits = (*zeros)[1] * 32 / module.outputs;
  } else if (const JsonValue* declared = scan.config().get("bits")) {
    bits = static_cast<uint64_t>(std::max<int64_t>(0, declared->as_integer().value_or(0)));
  }
  if (bits < 2 || bits > 8 || module.rows > UINT64_MAX / 32 || module.rows * 32 % bits != 0)
    return std::nullopt;
  if (inputs == 0) inputs = module.rows * 32 / bits;
  if (zeros && (zeros->size() != 2 || (*zeros)[0] != module.groups || module.outputs > UINT64_MAX / 8 ||
                (*zeros)[1] * 32 != module.outputs * bits))
    return std::nullopt;
  if (module.groups == 0) return std::nullopt;
  // The last group may be short, so only a plainly small group disproves the packing.
  const uint64_t least = ceil_div(inputs, module.groups);
  if (least < 16 && least != inputs) return std::nullopt;
  const uint64_t elements = group_of(scan, inputs, module.groups, module.g_idx.has_value());
  if (!module.g_idx && elements == 0) return std::nullopt;
  QuantMatch match = make_match(scan, module, bits >= 5 && bits <= 7 ? kPlanar : kGptqV1);
  match.logical_shape = Shape{module.outputs, inputs};
  match.bits = static_cast<uint32_t>(bits);
  match.group_size = elements;
  return match;
}

// AWQ GEMM packs N: [K, N/8].
std::optional<QuantMatch> fit_gemm(const LayoutScan& scan, const Module& module) {
  if (module.columns > UINT64_MAX / 8 || module.columns * 8 != module.outputs || module.groups == 0 ||
      module.rows % module.groups != 0)
    return std::nullopt;
  const uint64_t group = module.rows / module.groups;
  if (!usual_group(group, module.rows)) return std::nullopt;
  if (module.qzeros && scan.info(*module.qzeros).shape != Shape{module.groups, module.columns})
    return std::nullopt;
  QuantMatch match = make_match(scan, module, kGemm);
  match.logical_shape = Shape{module.outputs, module.rows};
  match.bits = 4;
  match.group_size = group;
  return match;
}

// AWQ GEMV packs K in natural order: [N, K/8], scales [N, 8*Zw], zeros [N, Zw].
std::optional<QuantMatch> fit_gemv(const LayoutScan& scan, const Module& module) {
  if (module.groups != module.rows || !module.qzeros || module.columns > UINT64_MAX / 8) return std::nullopt;
  const Shape& zeros = scan.info(*module.qzeros).shape;
  if (zeros.size() != 2 || zeros[0] != module.rows || zeros[1] > UINT64_MAX / 8 ||
      zeros[1] * 8 != module.outputs)
    return std::nullopt;
  const uint64_t inputs = module.columns * 8;
  const JsonValue* declared = scan.config().get("group_size");
  const int64_t wanted = declared ? declared->as_integer().value_or(0) : 0;
  std::vector<uint64_t> fits;
  for (uint64_t group : {128, 64, 32}) {
    const uint64_t multiple = group >= 128 ? 1 : group == 64 ? 2 : 4;
    const uint64_t words = ceil_div(ceil_div(ceil_div(inputs, group), 8), multiple) * multiple;
    if (words == zeros[1]) fits.push_back(group);
  }
  QuantMatch match = make_match(scan, module, kGemv);
  match.logical_shape = Shape{module.rows, inputs};
  match.bits = 4;
  for (uint64_t group : fits)
    if (fits.size() == 1 || static_cast<int64_t>(group) == wanted) match.group_size = group;
  if (fits.empty()) return std::nullopt;
  return match;
}

// Packings that are known by name only.
const QuantFormat* named_packing(const LayoutScan& scan, const Module& module) {
  const JsonValue* marlin = scan.config().get("is_marlin_format");
  const JsonValue* format = scan.config().get("checkpoint_format");
  const JsonValue* version = scan.config().get("version");
  const bool planar = format && format->text == "gptq_p";
  if (planar) return &kPlanar;
  const bool says_marlin = (marlin && marlin->is_true()) || (format && format->text == "marlin") ||
                           (version && version->text == "marlin");
  // Its rows are tiles of 16 inputs; a plain GPTQ module of such a file stays what it is.
  if (says_marlin && module.columns != module.outputs) return &kMarlin;
  return nullptr;
}

void detect_qweight_module(LayoutScan& scan, TensorRef qweight, GptqZeros& zeros) {
  Module module;
  module.qweight = qweight;
  module.name = scan.stem(qweight, kSuffix);
  const TensorInfo& packed = scan.info(qweight);
  if ((packed.dtype != DType::I32 && packed.dtype != DType::I16) || packed.shape.size() != 2) return;
  module.qzeros = scan.sibling(module.name, ".qzeros");
  module.g_idx = scan.sibling(module.name, ".g_idx");
  const std::optional<TensorRef> scales = scan.sibling(module.name, ".scales");
  const std::string weight = std::string(module.name) + ".weight";
  auto broken = [&](std::string what) {
    scan.problem("gptq/awq", weight, std::move(what), {qweight, module.qzeros, module.g_idx, scales});
  };
  if (!scales) {
    // A lone qweight proves nothing.
    if (module.qzeros || module.g_idx) broken("scales is missing");
    return;
  }
  if (!is_scale_float(scan.info(*scales).dtype) || scan.info(*scales).shape.size() != 2)
    return broken("scales is no matrix of F16, BF16 or F32");
  module.scales = *scales;
  module.rows = packed.shape[0];
  module.columns = packed.shape[1];
  module.groups = scan.info(*scales).shape[0];
  module.outputs = scan.info(*scales).shape[1];
  if (packed.dtype == DType::I16) return scan.claim(make_match(scan, module, kGemvFast));
  if (const QuantFormat* named = named_packing(scan, module))
    return scan.claim(make_match(scan, module, *named));
  if (module.qzeros && scan.info(*module.qzeros).dtype != DType::I32) return broken("qzeros is not I32");
  if (module.g_idx && scan.info(*module.g_idx).dtype != DType::I32) return broken("g_idx is not I32");
  const JsonValue* format = scan.config().get("checkpoint_format");
  if (format && (format->text == "bitblas" || format->text == "qqq" || format->text == "exllama"))
    return broken("the packing " + quote_name(format->text) + " is known by name only");

  // The tests of GPTQ and GEMV are not exclusive: a configuration that says gemv decides.
  const JsonValue* version = scan.config().get("version");
  const bool gemv_first = version && version->text == "gemv";
  std::optional<QuantMatch> match;
  if (gemv_first) match = fit_gemv(scan, module);
  if (!match && module.outputs > 0) match = fit_gptq(scan, module);
  if (match && match->layout == kGptqV1.id) return zeros.add(std::move(*match));
  if (!match) match = fit_gemm(scan, module);
  if (match && gemv_first && match->layout == kGemm.id)
    return broken("the configuration says version gemv, but the shapes are those of gemm");
  if (!match) match = fit_gemv(scan, module);
  if (!match)
    return broken(
        "qweight " + shape_text(packed.shape) + ", scales " + shape_text(scan.info(*scales).shape) +
        (module.qzeros ? ", qzeros " + shape_text(scan.info(*module.qzeros).shape) : ", no qzeros") +
        " fit neither GPTQ nor AWQ");
  if (match->layout == kGemm.id && !module.qzeros) {
    const JsonValue* zero_point = scan.config().get("zero_point");
    if (!zero_point || zero_point->kind != JsonKind::kBoolean || zero_point->boolean)
      return broken("qzeros is missing, and no configuration says zero_point false");
  }
  scan.claim(std::move(*match));
}

void detect_qweight(LayoutScan& scan) {
  GptqZeros zeros(scan);
  for (TensorRef qweight : scan.ending(kSuffix)) detect_qweight_module(scan, qweight, zeros);
  zeros.claim_all(kGptqV1, kGptqV2);
}

constexpr const QuantFormat* kQweightFormats[] = {&kGptqV1, &kGptqV2, &kMarlin,  &kPlanar,
                                                  &kGemm,   &kGemv,   &kGemvFast};

}  // namespace

constexpr QuantFamily kQweightFamily = {"GPTQ and AWQ", kQweightFormats, detect_qweight};

}  // namespace tftf
