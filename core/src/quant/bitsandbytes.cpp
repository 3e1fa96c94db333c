// bitsandbytes 4-bit and LLM.int8: detection (spec other-quant-layouts 3).
#include "quant/bitsandbytes.h"

#include <cmath>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr QuantFormat kNf4 = {
    .id = "bnb-nf4", .title = "bitsandbytes NF4", .open = open_bnb_4bit, .encoder = &kBnbNf4Encoder};
constexpr QuantFormat kFp4 = {.id = "bnb-fp4",
                              .title = "bitsandbytes FP4 (not E2M1)",
                              .open = open_bnb_4bit,
                              .encoder = &kBnbFp4Encoder};
constexpr QuantFormat kBitsandbytesInt8 = {
    .id = "bnb-int8", .title = "bitsandbytes LLM.int8", .open = open_bnb_int8};

// Fills what the JSON of a quant_state says. `named`: the type that its tensor's name tells. Returns what is wrong with it.
std::string read_state(std::string_view text, std::optional<std::string_view> named, BnbState& out) {
  const JsonDocument json = parse_json(text, JsonDialect::kPython);
  if (json.error || !json.root.is_object()) return "its quant_state is not the JSON that bitsandbytes writes";
  if (const auto type = json.root.string("quant_type")) {
    if (*type != "nf4" && *type != "fp4") return "its quant_type is neither \"nf4\" nor \"fp4\"";
    out.is_fp4 = *type == "fp4";
  } else if (named) {
    out.is_fp4 = named == "fp4";
  } else {
    return "its quant_state has no quant_type";
  }
  const auto dtype = json.root.string("dtype");
  const auto torch = dtype ? find_torch_dtype(*dtype) : std::nullopt;
  if (!torch || !is_scale_float(*torch))
    return "the dtype of its quant_state is not float32, float16 or bfloat16";
  out.dtype = *torch;
  const int64_t block = json.root.integer("blocksize").value_or(0);
  if (block < 1) return "its quant_state has no positive blocksize";
  out.block = static_cast<uint64_t>(block);
  const JsonValue* shape = json.root.get("shape");
  if (!shape || !shape->is_array()) return "its quant_state has no shape";
  for (const JsonValue& element : shape->elements) {
    const int64_t dimension = element.as_integer().value_or(-1);
    if (dimension < 0) return "the shape of its quant_state is not a list of lengths";
    out.shape.push_back(static_cast<uint64_t>(dimension));
  }
  if (json.root.get("nested_blocksize")) {
    const int64_t nested = json.root.integer("nested_blocksize").value_or(0);
    const auto offset = json.root.number("nested_offset");
    if (nested < 1 || !offset) return "its quant_state has no positive nested_blocksize with a nested_offset";
    out.nested_block = static_cast<uint64_t>(nested);
    out.offset = static_cast<float>(*offset);
  }
  return {};
}

// Where bitsandbytes puts a part: NAME.absmax; GPTQModel: NAME_absmax.
struct Spelling {
  std::string_view state;  // what the name of the quant_state ends in, after NAME
  std::string_view glue;
};
constexpr Spelling kSpellings[] = {
    {".quant_state.bitsandbytes__nf4", "."}, {".quant_state.bitsandbytes__fp4", "."}, {"_quant_state", "_"}};

void detect_4bit_module(LayoutScan& scan, TensorRef state_tensor, const Spelling& spelling) {
  const std::string_view name = scan.stem(state_tensor, spelling.state);
  const std::optional<TensorRef> weight = scan.find(name);
  const bool own_names = spelling.glue == "_";
  const bool named_fp4 = spelling.state.substr(spelling.state.size() - 3) == "fp4";
  QuantMatch match;
  match.layout = named_fp4 ? kFp4.id : kNf4.id;
  match.module = std::string(name);
  const auto part = [&](std::string_view role, std::initializer_list<DType> dtypes) {
    return scan.add_companion(match, role, name, std::string(spelling.glue).append(role), dtypes);
  };
  const auto broken = [&](std::string what) {
    scan.problem(match.layout, name, std::move(what), {weight, state_tensor});
  };
  if (!weight) {
    if (!own_names) broken("its weight is not stored");
    return;
  }
  match.weight = *weight;
  match.role = "weight";
  match.bits = 4;
  if (!part("absmax", {DType::F32, DType::U8})) {
    // Another thing of that name, unless it has the bytes of codes.
    if (!own_names || scan.info(*weight).dtype == DType::U8) broken("absmax is missing");
    return;
  }
  if (!part("quant_map", {DType::F32})) return broken("quant_map is missing");
  const bool nested = scan.info(match.companions[0].tensor).dtype == DType::U8;
  if (nested && (!part("nested_absmax", {DType::F32}) || !part("nested_quant_map", {DType::F32})))
    return broken("absmax is nested, but nested_absmax or nested_quant_map is missing");
  match.companions.push_back({"quant_state", state_tensor});
  // Type, shape and block size stand only in the JSON.
  const std::optional<Bytes> bytes = scan.values().get(state_tensor);
  if (!bytes && scan.values().pending(state_tensor)) return scan.claim(std::move(match));
  if (!bytes) return broken("its quant_state cannot be read");
  auto state = std::make_shared<BnbState>();
  const auto named = own_names ? std::nullopt : std::optional<std::string_view>(named_fp4 ? "fp4" : "nf4");
  if (std::string wrong = read_state(as_text(*bytes), named, *state); !wrong.empty())
    return broken(std::move(wrong));
  if (!own_names && state->is_fp4 != named_fp4)
    return broken("its quant_state names another type than the tensor's name");
  match.layout = state->is_fp4 ? kFp4.id : kNf4.id;
  const std::optional<uint64_t> elements = element_count(state->shape);
  if (!elements || ceil_div(*elements, 2) > scan.info(*weight).bytes())
    return broken("the shape " + shape_text(state->shape) + " of its quant_state needs more than the " +
                  std::to_string(scan.info(*weight).bytes()) + " bytes stored");
  if (nested != (state->nested_block != 0))
    return broken(nested ? "absmax is nested, but its quant_state has no nested_blocksize"
                         : "its quant_state has a nested_blocksize, but absmax is not nested");
  match.logical_dtype = state->dtype;
  match.logical_shape = state->shape;
  match.group_size = state->block;
  match.detail = std::move(state);
  scan.claim(std::move(match));
}

// `suffix`: ".SCB", or "_scb" behind the weight's name (GPTQModel).
void detect_int8(LayoutScan& scan, std::string_view suffix) {
  for (TensorRef absmax : scan.ending(suffix)) {
    const std::string_view module = scan.stem(absmax, suffix);
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight || scan.info(*weight).dtype != DType::I8 || scan.info(absmax).dtype != DType::F32) continue;
    const Shape& shape = scan.info(*weight).shape;
    const auto broken = [&](std::string what) {
      scan.problem(kBitsandbytesInt8.id, scan.info(*weight).name, std::move(what), {weight, absmax});
    };
    if (shape.size() != 2 || element_count(scan.info(absmax).shape) != shape[0]) {
      broken("SCB " + shape_text(scan.info(absmax).shape) + " does not give one value per row of " +
             shape_text(shape));
      continue;
    }
    QuantMatch match;
    match.layout = kBitsandbytesInt8.id;
    match.module = scan.info(*weight).name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({"SCB", absmax});
    if (scan.add_companion(match, "weight_format", module, ".weight_format")) {
      const TensorRef format = match.companions.back().tensor;
      const std::optional<Bytes> value = scan.values().get(format, 1);
      if (!value && !scan.values().pending(format)) {
        broken("its weight_format cannot be read");
        continue;
      }
      if (value && (value->empty() || (*value)[0] != std::byte{0})) {
        broken("its weight_format is not 0: a layout of old GPUs, whose order of codes is not known");
        continue;
      }
    }
    match.logical_dtype = DType::F32;
    match.logical_shape = shape;
    match.bits = 8;
    scan.claim(std::move(match));
  }
}

void detect_bitsandbytes(LayoutScan& scan) {
  for (const Spelling& spelling : kSpellings)
    for (TensorRef state : scan.ending(spelling.state)) detect_4bit_module(scan, state, spelling);
  detect_int8(scan, ".SCB");
  detect_int8(scan, ".weight_scb");
}

constexpr const QuantFormat* kBitsandbytesFormats[] = {&kNf4, &kFp4, &kBitsandbytesInt8};

}  // namespace

constexpr QuantFamily kBitsandbytesFamily = {"bitsandbytes", kBitsandbytesFormats, detect_bitsandbytes};

}  // namespace tftf
