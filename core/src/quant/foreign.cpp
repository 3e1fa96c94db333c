// Layouts that are named so that nobody takes their codes for values, and refused (spec quant-layouts-2 11).
#include "quant/families.h"
#include "quant/layout_scan.h"

namespace tftf {
namespace {

constexpr QuantFormat kExl3 = {"exl3", "EXL3 trellis", true};
constexpr QuantFormat kExl2 = {"exl2", "EXL2 mixed bits", true};
constexpr QuantFormat kQuip = {"quip", "QuIP# lattice", true};
constexpr QuantFormat kSpqr = {"spqr", "SpQR tiles", true};
constexpr QuantFormat kHiggs = {"higgs", "HIGGS in FLUTE's order", true};
constexpr QuantFormat kEetq = {"eetq", "EETQ, permuted for tensor cores", true};
constexpr QuantFormat kSinq = {"sinq", "SINQ, described in a file beside", true};
constexpr QuantFormat kFpQuant = {"fp-quant", "FP-Quant, rotated", true};
constexpr QuantFormat kFourOverSix = {"fouroversix", "Four Over Six NVFP4", true};

struct Foreign {
  const QuantFormat* format;
  std::string_view suffix;  // of the tensor that holds the codes
  DType dtype;              // its dtype
  // Siblings that must be there too, separated by spaces; "a|b": one of them.
  std::string_view with;
  size_t rank = 0;  // of the codes; 0: any
};
constexpr Foreign kForeign[] = {
    {&kExl3, ".trellis", DType::I16, ".suh|.su .svh|.sv", 3},
    {&kExl2, ".q_weight", DType::I32, ".q_scale .q_groups"},
    {&kQuip, ".Qidxs", DType::I16, ".SU .SV"},
    {&kQuip, ".Qidxs", DType::I32, ".SU .SV"},
    {&kQuip, ".Qidxs", DType::I64, ".SU .SV"},
    {&kQuip, ".Qidxs", DType::U8, ".SU .SV"},
    {&kSpqr, ".dense_weights", DType::I64, ".row_offsets .col_vals"},
    {&kHiggs, ".weight", DType::I16, ".tables .tables2"},
    {&kEetq, ".weight", DType::I8, ".weight_scales"},
    {&kSinq, ".W_q", DType::U8, ".meta.scale|.meta.scale2|.meta.zero"},
    {&kSinq, ".W_q", DType::I32, ".meta.scale|.meta.scale2|.meta.zero"},
    {&kFpQuant, ".qweight", DType::U8, ".forward_hadamard_matrix"},
    {&kFourOverSix, ".quantized_weight_values", DType::U8,
     ".quantized_weight_scale_factors .quantized_weight_amax"},
};

// Adds the first sibling of `choices` ("a|b") that is there.
bool add_one_of(const LayoutScan& scan, QuantMatch& match, std::string_view module,
                std::string_view choices) {
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    const std::string_view suffix = choices.substr(0, bar);
    if (scan.add_companion(match, suffix.substr(1), module, suffix)) return true;
    choices = bar == std::string_view::npos ? std::string_view() : choices.substr(bar + 1);
  }
  return false;
}

bool add_all(const LayoutScan& scan, QuantMatch& match, std::string_view module, std::string_view with) {
  while (!with.empty()) {
    const size_t space = with.find(' ');
    if (!add_one_of(scan, match, module, with.substr(0, space))) return false;
    with = space == std::string_view::npos ? std::string_view() : with.substr(space + 1);
  }
  return true;
}

void detect_foreign(LayoutScan& scan) {
  for (const Foreign& foreign : kForeign)
    for (TensorRef codes : scan.ending(foreign.suffix)) {
      const TensorInfo& info = scan.info(codes);
      if (info.dtype != foreign.dtype || (foreign.rank != 0 && info.shape.size() != foreign.rank)) continue;
      const std::string_view module = scan.stem(codes, foreign.suffix);
      QuantMatch match;
      match.layout = foreign.format->id;
      match.module = std::string(module) + ".weight";
      match.weight = codes;
      match.role = foreign.suffix.substr(1);
      if (add_all(scan, match, module, foreign.with)) scan.claim(std::move(match));
    }
  for (const Shard& shard : scan.checkpoint().shards)
    for (const auto& [key, value] : shard.header.metadata)
      if (key.substr(0, 5) == "gguf." || key == "general.quantization_version") {
        scan.note("the metadata has GGUF's keys: GGUF blocks inside safetensors are known by name only");
        break;
      }
}

constexpr const QuantFormat* kForeignFormats[] = {&kExl3, &kExl2, &kQuip,    &kSpqr,       &kHiggs,
                                                  &kEetq, &kSinq, &kFpQuant, &kFourOverSix};

}  // namespace

constexpr QuantFamily kForeignFamily = {"refused", kForeignFormats, detect_foreign};

}  // namespace tftf
