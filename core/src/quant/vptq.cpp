// VPTQ: vectors of outputs of one column, from tables of centroids (spec quant-layouts-2 8). The geometry stands in config.json.
#include "quant/vptq.h"

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr QuantFormat kVptq = {.id = "vptq", .title = "VPTQ", .open = open_vptq};

const JsonValue* layer_config(const QuantConfig& config, std::string_view module) {
  if (config.section == nullptr) return nullptr;
  if (const JsonValue* layers = config.section->get("config_for_layers"))
    if (const JsonValue* own = layers->get(module); own && own->is_object()) return own;
  const JsonValue* shared = config.section->get("shared_layer_config");
  return shared && shared->is_object() ? shared : nullptr;
}

// Element `index` of an array of two numbers; 0 for what is negative (none).
std::optional<uint64_t> pair_number(const JsonValue& from, std::string_view key, size_t index) {
  const JsonValue* pair = from.get(key);
  if (pair == nullptr || pair->elements.size() != 2) return std::nullopt;
  const auto number = pair->elements[index].as_integer();
  if (!number) return std::nullopt;
  return static_cast<uint64_t>(std::max<int64_t>(*number, 0));
}

std::optional<VptqGeometry> read_geometry(const JsonValue& from) {
  VptqGeometry g;
  const auto number = [&](std::string_view key, uint64_t& into) {
    const auto value = from.integer(key);
    if (!value || *value < 0) return false;
    into = static_cast<uint64_t>(*value);
    return true;
  };
  const auto set = [](std::optional<uint64_t> value, uint64_t& into) {
    into = value.value_or(0);
    return value.has_value();
  };
  if (!number("in_features", g.columns) || !number("out_features", g.rows) ||
      !number("group_num", g.groups) || !number("group_size", g.group_size) ||
      !number("outlier_size", g.outliers) || !set(pair_number(from, "vector_lens", 1), g.length) ||
      !set(pair_number(from, "num_centroids", 1), g.centroids) ||
      !set(pair_number(from, "num_res_centroids", 1), g.residuals))
    return std::nullopt;
  g.outlier_length = pair_number(from, "vector_lens", 0).value_or(0);
  g.outlier_centroids = pair_number(from, "num_centroids", 0).value_or(0);
  const auto flag = [&](std::string_view key) {
    const JsonValue* value = from.get(key);
    return value != nullptr && value->is_true();
  };
  g.packed = flag("is_indice_packed");
  g.normed = flag("enable_norm");
  g.permuted = flag("enable_perm");
  return g;
}

void detect_vptq(LayoutScan& scan) {
  constexpr std::string_view kIndices = ".indices";
  for (TensorRef indices : scan.ending(kIndices)) {
    const std::string_view module = scan.stem(indices, kIndices);
    const TensorInfo& stored = scan.info(indices);
    const std::optional<TensorRef> centroids = scan.sibling(module, ".centroids.weight");
    if (!centroids || stored.shape.size() != 3 ||
        (stored.dtype != DType::I16 && stored.dtype != DType::I32) || scan.info(*centroids).shape.size() != 2)
      continue;
    QuantMatch match;
    match.layout = kVptq.id;
    match.module = std::string(module) + ".weight";
    match.weight = indices;
    match.role = "indices";
    match.companions.push_back({"centroids", *centroids});
    scan.add_companion(match, "res_centroids", module, ".res_centroids.weight");
    scan.add_companion(match, "res_indices", module, ".res_indices");
    scan.add_companion(match, "outlier_centroids", module, ".outlier_centroids.weight");
    scan.add_companion(match, "outlier_indices", module, ".outlier_indices");
    for (std::string_view part : {"perm", "weight_scale", "weight_bias"})
      scan.add_companion(match, part, module, "." + std::string(part));
    match.logical_dtype = native_dtype(scan.info(*centroids).dtype);
    if (const JsonValue* layer = layer_config(scan.config(), module)) {
      if (auto geometry = read_geometry(*layer)) {
        match.logical_shape = Shape{geometry->rows, geometry->columns};
        match.detail = std::make_shared<const VptqGeometry>(*geometry);
      }
    }
    scan.claim(std::move(match));
  }
}

constexpr const QuantFormat* kVptqFormats[] = {&kVptq};

}  // namespace

constexpr QuantFamily kVptqFamily = {"VPTQ", kVptqFormats, detect_vptq};

}  // namespace tftf
