// Questions about colibri's containers that need no data: which format, which pass, which stamps.
#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/command/colibri_request.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf::colibri {
namespace {

Error no_such_list(const std::string& file, const std::string& why) {
  return {.code = ErrorCode::kRefusedInput, .message = quote_name(file) + why, .file = file};
}

OrderedJson resolution_json(const Resolution& resolution) {
  OrderedJson json;
  json["verdict"] = resolution.format ? "ok" : "refuse";
  json["fmt"] = nullptr;
  json["group_size"] = nullptr;
  json["class"] = nullptr;
  if (resolution.format) {
    json["fmt"] = static_cast<int>(*resolution.format);
    json["group_size"] = json_integer(resolution.group_size);
  } else {
    json["class"] = std::string(refusal_class(*resolution.refusal));
  }
  return json;
}

// Row `index` of a batch; the name of the member that is missing or wrong.
std::optional<std::string> read_pair(const JsonValue& row, Pair& pair) {
  const auto count = [&](std::string_view key, uint64_t& to) -> bool {
    const JsonValue* value = row.find(key);
    // Integers past 2^53 are strings in the documents that this program writes.
    const bool digits = value && (value->is_number() || value->is_string());
    const std::optional<uint64_t> number = digits ? json_unsigned(value->text) : std::nullopt;
    if (number) to = *number;
    return number.has_value();
  };
  if (!row.is_object()) return "an object";
  if (!count("O", pair.rows)) return "\"O\"";
  if (!count("I", pair.columns)) return "\"I\"";
  if (!count("weight_bytes", pair.weight_bytes)) return "\"weight_bytes\"";
  if (!count("scale_bytes", pair.scale_bytes)) return "\"scale_bytes\"";
  const JsonValue* stamp = row.get("stamp");
  if (stamp && !stamp->is_string()) return "\"stamp\"";
  if (stamp) pair.stamp = stamp->text;
  const JsonValue* routed = row.get("routed");
  if (routed && routed->kind != JsonKind::kBoolean) return "\"routed\"";
  pair.routed = routed && routed->boolean;
  return std::nullopt;
}

std::optional<bool> truth(const JsonValue& value) {
  if (value.kind == JsonKind::kBoolean) return value.boolean;
  const auto number = value.as_integer();
  if (!number || (*number != 0 && *number != 1)) return std::nullopt;
  return *number == 1;
}

std::optional<StampRefusal> ingest_all(const Checkpoint& checkpoint, StampMap& stamps) {
  std::vector<const Shard*> shards;
  for (const Shard& shard : checkpoint.shards)
    if (shard.readable) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  for (const Shard* shard : shards) {
    if (auto refusal = stamps.ingest(shard->name, shard->header)) return refusal;
    if (auto refusal = stamps.add_tensors(shard->name, shard->header)) return refusal;
  }
  return std::nullopt;
}

}  // namespace

Result<JsonValue> read_batch(std::string_view text, const std::string& file) {
  constexpr uint64_t kMostValues = 10'000'000;
  JsonDocument document = parse_json(text, JsonDialect::kStrict, kMostValues);
  if (document.error)
    return no_such_list(file, " is not JSON: " + document.error->detail + " at byte " +
                                  std::to_string(document.error->offset) + ".");
  return std::move(document.root);
}

Answer resolve_pair(const CommandLine& line) {
  Pair pair;
  pair.rows = line.number("rows").value_or(0);
  pair.columns = line.number("cols").value_or(0);
  pair.weight_bytes = line.number("weight-bytes").value_or(0);
  pair.scale_bytes = line.number("scale-bytes").value_or(0);
  if (line.has("stamp")) pair.stamp = line.value("stamp");
  pair.routed = line.has("routed");
  const Resolution resolution = resolve(pair);
  Answer answer{resolution_json(resolution)};
  if (!resolution.format)
    answer.refusal = "a reader refuses [" + std::to_string(pair.rows) + "," + std::to_string(pair.columns) +
                     "] with " + std::to_string(pair.weight_bytes) + " and " +
                     std::to_string(pair.scale_bytes) +
                     " bytes: " + std::string(refusal_class(*resolution.refusal)) + ".";
  return answer;
}

Result<OrderedJson> resolve_batch(const JsonValue& rows, const std::string& file) {
  if (!rows.is_array()) return no_such_list(file, " is not an array of pairs.");
  OrderedJson results = OrderedJson::array();
  for (const JsonValue& row : rows.elements) {
    Pair pair;
    if (const auto lacking = read_pair(row, pair))
      return no_such_list(file, ": pair " + std::to_string(results.size()) + " lacks " + *lacking +
                                    ", or it is of the wrong kind.");
    results.push_back(resolution_json(resolve(pair)));
  }
  return results;
}

Result<OrderedJson> classify_batch(const JsonValue& rows, const std::string& file) {
  if (!rows.is_array()) return no_such_list(file, " is not an array of [name, layers, mtp, indexer].");
  OrderedJson kinds = OrderedJson::array();
  for (const JsonValue& row : rows.elements) {
    const auto& cells = row.elements;
    const bool shaped = row.is_array() && cells.size() == 4 && cells[0].is_string();
    const auto layers = shaped ? cells[1].as_integer() : std::nullopt;
    const auto mtp = shaped ? truth(cells[2]) : std::nullopt;
    const auto indexer = shaped ? truth(cells[3]) : std::nullopt;
    if (!layers || !mtp || !indexer)
      return no_such_list(file,
                          ": row " + std::to_string(kinds.size()) + " is not [name, layers, mtp, indexer].");
    kinds.push_back(std::string(kind_name(classify(cells[0].text, {*layers, *mtp, *indexer}))));
  }
  return kinds;
}

Result<Answer> query_stamps(const Checkpoint& checkpoint, const std::string& path,
                            const std::vector<std::string>& names) {
  for (const Shard& shard : checkpoint.shards)
    if (!shard.readable)
      return Error{.code = ErrorCode::kRefusedInput,
                   .message = quote_name(shard.name) + " in " + quote_name(path) +
                              " has no header that can be read; tftf lint says why.",
                   .file = shard.name};
  if (checkpoint.shards.empty())
    return Error{.code = ErrorCode::kRefusedInput,
                 .message = quote_name(path) + " holds no .safetensors file.",
                 .file = path};
  StampMap stamps;
  const std::optional<StampRefusal> refusal = ingest_all(checkpoint, stamps);
  Answer answer;
  OrderedJson& json = answer.document;
  json["verdict"] = refusal ? "refuse" : "ok";
  json["class"] = nullptr;
  if (refusal) json["class"] = std::string(stamp_fault_class(refusal->fault));
  OrderedJson& found = json["stamps"] = OrderedJson::object();
  if (refusal)
    answer.refusal = "a reader refuses the container: " + refusal->detail;
  else
    for (const std::string& name : names) found[name] = stamps.find(name).value_or("(none)");
  return answer;
}

}  // namespace tftf::colibri
