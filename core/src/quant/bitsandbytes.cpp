// bitsandbytes 4-bit and LLM.int8 (spec other-quant-layouts 3).
#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr QuantFormat kNf4 = {"bnb-nf4", "bitsandbytes NF4"};
constexpr QuantFormat kFp4 = {"bnb-fp4", "bitsandbytes FP4 (not E2M1)"};
constexpr QuantFormat kBitsandbytesInt8 = {"bnb-int8", "bitsandbytes LLM.int8"};

// What the JSON of a quant_state says of the weight.
struct QuantState {
  DType dtype{};
  Shape shape;
  uint64_t block = 0;
};

std::optional<QuantState> read_state(std::string_view text) {
  const JsonDocument json = parse_json(text, JsonDialect::kPython);
  if (json.error || !json.root.is_object()) return std::nullopt;
  const auto dtype = json.root.string("dtype");
  const auto torch = dtype ? find_torch_dtype(*dtype) : std::nullopt;
  const JsonValue* shape = json.root.get("shape");
  const int64_t block = json.root.integer("blocksize").value_or(0);
  if (!torch || !is_floating(*torch) || !shape || !shape->is_array() || block < 1) return std::nullopt;
  QuantState state;
  state.dtype = *torch;
  state.block = static_cast<uint64_t>(block);
  for (const JsonValue& element : shape->elements) {
    const int64_t dimension = element.as_integer().value_or(-1);
    if (dimension < 0) return std::nullopt;
    state.shape.push_back(static_cast<uint64_t>(dimension));
  }
  return state;
}

void detect_4bit(LayoutScan& scan, const QuantFormat& format, std::string_view suffix) {
  for (TensorRef state_tensor : scan.ending(suffix)) {
    const std::string_view name = scan.stem(state_tensor, suffix);
    const std::optional<TensorRef> weight = scan.find(name);
    auto broken = [&](std::string what) {
      scan.problem(format.id, name, std::move(what), {weight, state_tensor});
    };
    if (!weight) {
      broken("its weight is not stored");
      continue;
    }
    QuantMatch match;
    match.layout = format.id;
    match.module = std::string(name);
    match.weight = *weight;
    match.role = "weight";
    match.bits = 4;
    if (!scan.add_companion(match, "absmax", name, ".absmax", {DType::F32, DType::U8})) {
      broken("absmax is missing");
      continue;
    }
    if (!scan.add_companion(match, "quant_map", name, ".quant_map", {DType::F32})) {
      broken("quant_map is missing");
      continue;
    }
    if (scan.info(*match.find("absmax")).dtype == DType::U8) {
      if (!scan.add_companion(match, "nested_absmax", name, ".nested_absmax", {DType::F32}) ||
          !scan.add_companion(match, "nested_quant_map", name, ".nested_quant_map", {DType::F32})) {
        broken("absmax is nested, but nested_absmax or nested_quant_map is missing");
        continue;
      }
    }
    match.companions.push_back({"quant_state", state_tensor});
    // The logical shape stands only in the JSON.
    const std::optional<Bytes> bytes = scan.values().get(state_tensor);
    if (!bytes && scan.values().pending(state_tensor)) {
      scan.claim(std::move(match));
      continue;
    }
    const std::optional<QuantState> state = bytes ? read_state(as_text(*bytes)) : std::nullopt;
    if (!state) {
      broken(bytes ? "its quant_state is not the JSON that bitsandbytes writes"
                   : "its quant_state cannot be read");
      continue;
    }
    const std::optional<uint64_t> elements = element_count(state->shape);
    if (!elements || ceil_div(*elements, 2) > scan.info(*weight).bytes()) {
      broken("the shape " + shape_text(state->shape) + " of its quant_state needs more than the " +
             std::to_string(scan.info(*weight).bytes()) + " bytes stored");
      continue;
    }
    match.logical_dtype = state->dtype;
    match.logical_shape = state->shape;
    match.group_size = state->block;
    scan.claim(std::move(match));
  }
}

void detect_int8(LayoutScan& scan) {
  for (TensorRef absmax : scan.ending(".SCB")) {
    const std::string_view module = scan.stem(absmax, ".SCB");
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight || scan.info(*weight).dtype != DType::I8 || scan.info(absmax).dtype != DType::F32) continue;
    const Shape& shape = scan.info(*weight).shape;
    if (shape.size() != 2 || element_count(scan.info(absmax).shape) != shape[0]) {
      scan.problem(kBitsandbytesInt8.id, scan.info(*weight).name,
                   "SCB " + shape_text(scan.info(absmax).shape) + " does not give one value per row of " +
                       shape_text(shape),
                   {weight, absmax});
      continue;
    }
    QuantMatch match;
    match.layout = kBitsandbytesInt8.id;
    match.module = scan.info(*weight).name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({"SCB", absmax});
    scan.add_companion(match, "weight_format", module, ".weight_format");
    match.logical_dtype = DType::F32;
    match.logical_shape = shape;
    match.bits = 8;
    scan.claim(std::move(match));
  }
}

void detect_bitsandbytes(LayoutScan& scan) {
  detect_4bit(scan, kNf4, ".quant_state.bitsandbytes__nf4");
  detect_4bit(scan, kFp4, ".quant_state.bitsandbytes__fp4");
  detect_int8(scan);
}

constexpr const QuantFormat* kBitsandbytesFormats[] = {&kNf4, &kFp4, &kBitsandbytesInt8};

}  // namespace

constexpr QuantFamily kBitsandbytesFamily = {"bitsandbytes", kBitsandbytesFormats, detect_bitsandbytes};

}  // namespace tftf
