#include "tftf/plan/plan_json.h"

#include "plan/text.h"

namespace tftf {
namespace {

OrderedJson extents(const std::vector<Extent>& list) {
  OrderedJson json = OrderedJson::array();
  for (const Extent& extent : list) json.push_back(extent_text(extent));
  return json;
}

uint64_t tile_count(const Plan& plan, const PlanEntry& entry) {
  uint64_t count = 0;
  for (const Item& item : plan.items().subspan(entry.item, entry.items)) count += item.tiles;
  return count;
}

OrderedJson json_line(const Plan& plan, const PlanEntry& entry) {
  using Kind = PlanEntry::Kind;
  OrderedJson json;
  json[std::string(entry_kind_name(entry.kind))] = entry.name;
  const bool typed = entry.kind == Kind::kTensor || entry.kind == Kind::kAlso || entry.kind == Kind::kCopy ||
                     entry.kind == Kind::kLiteral;
  if (typed) {
    json["dtype"] = dtype_name(entry.dtype);
    json["shape"] = OrderedJson::array();
    for (const uint64_t dimension : entry.shape) json["shape"].push_back(json_integer(dimension));
    json["out"] = entry.to_known ? OrderedJson(extent_text(entry.to)) : OrderedJson();
  }
  switch (entry.kind) {
    case Kind::kTensor:
    case Kind::kMeasure:
      json["op"] = entry.word;
      json["from"] = extents(entry.from);
      json["with"] = extents(entry.with);
      json["tiles"] = json_integer(tile_count(plan, entry));
      break;
    case Kind::kCopy:
      json["from"] = extents(entry.from);
      break;
    case Kind::kValue:
      json["from"] = extents(entry.from);
      json["hex"] = hex_text(as_bytes(entry.bytes));
      break;
    case Kind::kLiteral:
      json["hex"] = hex_text(as_bytes(entry.bytes));
      break;
    case Kind::kDrop:
      json["reason"] = entry.word;
      break;
    case Kind::kSide:
      json["how"] = entry.word;
      break;
    case Kind::kAlso:
      break;
  }
  return json;
}

}  // namespace

OrderedJson plan_json(const Plan& plan) {
  OrderedJson json;
  json["plan"] = 1;
  json["command"] = plan.command();
  json["tile"] = json_integer(plan.tile_bytes());
  json["inputs"] = OrderedJson::array();
  for (const Input& input : plan.inputs())
    json["inputs"].push_back(
        {{"path", input.path}, {"size", json_integer(input.size)}, {"header_sha256", input.header_sha256}});
  json["outputs"] = OrderedJson::array();
  for (const Output& output : plan.outputs())
    json["outputs"].push_back({{"name", output.name},
                               {"size", output.known ? json_integer(output.size) : OrderedJson()},
                               {"header", output.known ? json_integer(output.header_bytes) : OrderedJson()}});
  json["lines"] = OrderedJson::array();
  for (const PlanEntry& entry : plan.entries()) json["lines"].push_back(json_line(plan, entry));
  return json;
}

}  // namespace tftf
