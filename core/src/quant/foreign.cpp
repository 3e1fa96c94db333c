// Layouts that are named so that nobody takes their codes for values (spec other-quant-layouts 10, step 14).
#include "quant/families.h"
#include "quant/layout_scan.h"

namespace tftf {
namespace {

struct Foreign {
  std::string_view name;
  std::string_view suffix;     // of the tensor that gives it away
  std::string_view companion;  // a sibling that must be there too
};
constexpr Foreign kForeign[] = {
    {"EXL3", ".trellis", ".suh"},       {"EXL2", ".q_weight", ".q_scale"}, {"HQQ", ".W_q", ".scale"},
    {"quanto", "._data", "._scale"},    {"AQLM", ".codebooks", ".codes"},  {"QuIP#", ".Qidxs", ".SU"},
    {"VPTQ", ".centroids", ".indices"},
};

void detect_foreign(LayoutScan& scan) {
  for (const Foreign& foreign : kForeign)
    for (TensorRef tensor : scan.ending(foreign.suffix)) {
      const std::string_view module = scan.stem(tensor, foreign.suffix);
      if (const std::optional<TensorRef> companion = scan.sibling(module, foreign.companion))
        scan.problem(foreign.name, std::string(module) + ".weight", "the layout is known by name only",
                     {tensor, companion});
    }
  for (const Shard& shard : scan.checkpoint().shards)
    for (const auto& [key, value] : shard.header.metadata)
      if (key.substr(0, 5) == "gguf." || key == "general.quantization_version") {
        scan.note("the metadata has GGUF's keys: GGUF blocks inside safetensors are known by name only");
        break;
      }
}

}  // namespace

constexpr QuantFamily kForeignFamily = {"others", {}, detect_foreign};

}  // namespace tftf
