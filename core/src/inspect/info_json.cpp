// `info --json`: the document's text. Rows are written one by one, so that a model of a hundred thousand
// tensors never stands in memory as a JSON tree.
#include "inspect/json_parts.h"
#include "tftf/base/json_member.h"
#include "tftf/base/json_text.h"
#include "tftf/base/version.h"
#include "tftf/inspect/info.h"

namespace tftf {
namespace {

OrderedJson count_or_null(const std::optional<uint64_t>& count) {
  return count ? json_integer(*count) : OrderedJson();
}

OrderedJson index_json(const ModelInfo& info) {
  if (!info.checkpoint->index) return OrderedJson();
  const ShardIndex& index = *info.checkpoint->index;
  uint64_t shards = 0;
  for (const Shard& shard : info.checkpoint->shards) shards += shard.listed ? 1 : 0;
  OrderedJson out;
  out["file"] = index.file;
  out["tensors"] = json_integer(uint64_t{index.weight_map.size()});
  out["shards"] = json_integer(index.problem ? uint64_t{0} : shards);
  const JsonValue* total = index.metadata.get("total_size");
  const auto size = total && total->is_number() ? json_unsigned(total->text) : std::nullopt;
  out["total_size"] = size ? json_integer(*size) : total ? OrderedJson(total->brief()) : OrderedJson();
  out["missing"] = OrderedJson::array();
  for (std::string_view name : info.missing_shards) out["missing"].push_back(name);
  return out;
}

// Everything up to the long lists.
OrderedJson head_json(const ModelInfo& info) {
  const Checkpoint& checkpoint = *info.checkpoint;
  OrderedJson out;
  out["tool"] = {{"name", "tftf"}, {"version", version()}};
  out["input"] = checkpoint.listing.given;
  out["kind"] = model_kind_name(info.kind);
  out["family"] = text_or_null(info.family);
  out["files"] = OrderedJson::array();
  for (const Shard& shard : checkpoint.shards) {
    OrderedJson file;
    file["name"] = shard.name;
    file["status"] = shard_status_name(shard.status);
    file["size"] = shard.status == ShardStatus::kMissing ? OrderedJson() : json_integer(shard.size);
    file["header_length"] = shard.readable ? json_integer(shard.header.header_length) : OrderedJson();
    file["tensors"] = shard.readable ? json_integer(uint64_t{shard.header.tensors.size()}) : OrderedJson();
    out["files"].push_back(std::move(file));
  }
  out["tensor_count"] = json_integer(uint64_t{info.rows.size()});
  out["data_bytes"] = json_integer(info.data_bytes);
  out["stored_elements"] = json_integer(info.stored_elements);
  out["logical_parameters"] = count_or_null(info.logical_parameters);
  out["dtypes"] = OrderedJson::array();
  for (const DTypeTotal& total : info.dtypes)
    out["dtypes"].push_back({{"dtype", dtype_name(total.dtype)},
                             {"tensors", json_integer(total.tensors)},
                             {"elements", json_integer(total.elements)},
                             {"bytes", json_integer(total.bytes)}});
  out["layouts"] = OrderedJson::array();
  for (const LayoutTotal& layout : info.layouts)
    out["layouts"].push_back({{"id", layout.id},
                              {"modules", json_integer(layout.modules)},
                              {"logical_parameters", count_or_null(layout.logical_parameters)},
                              {"bytes", json_integer(layout.bytes)},
                              {"evidence", layout.evidence}});
  out["metadata"] = OrderedJson::object();
  for (const auto& [key, value] : info.metadata) add_member(out["metadata"], key, value);
  if (info.has_config)
    out["config"] = {{"model_type", text_or_null(info.model_type)},
                     {"dtype", text_or_null(info.dtype)},
                     {"quant_method", text_or_null(info.quant_method)}};
  else
    out["config"] = OrderedJson();
  out["adapter"] = info.adapter ? adapter_json(*info.adapter) : OrderedJson();
  out["index"] = index_json(info);
  out["names"] = nullptr;
  out["experts"] = nullptr;
  if (info.names) {
    const NameFacts& names = *info.names;
    out["names"] = {{"layout", name_layout_text(names.layout)},
                    {"to_transformers_4", json_integer(names.to4)},
                    {"to_transformers_5", json_integer(names.to5)}};
    if (names.split + names.fused > 0)
      out["experts"] = {{"form", names.split == 0   ? "fused"
                                 : names.fused == 0 ? "split"
                                                    : "both"},
                        {"split", json_integer(names.split)},
                        {"fused", json_integer(names.fused)},
                        {"mixed", json_integer(names.mixed)}};
  }
  return out;
}

OrderedJson folded_json(const FoldedRow& row) {
  return {{"pattern", row.pattern},
          {"count", json_integer(row.count)},
          {"dtype", dtype_name(row.dtype)},
          {"shape", shape_json(row.shape)},
          {"bytes", json_integer(row.bytes)}};
}

OrderedJson tensor_json(const ModelInfo& info, const TensorRow& row) {
  const TensorInfo& stored = info.checkpoint->info(row.tensor);
  OrderedJson out;
  out["name"] = stored.name;
  out["file"] = row.tensor.shard;
  out["dtype"] = dtype_name(stored.dtype);
  out["shape"] = shape_json(stored.shape);
  out["offsets"] = {json_integer(stored.begin), json_integer(stored.end)};
  out["layout"] = text_or_null(row.layout);
  if (row.logical_dtype)
    out["logical"] = {{"dtype", dtype_name(*row.logical_dtype)},
                      {"shape", row.logical_shape ? shape_json(*row.logical_shape) : OrderedJson()}};
  else
    out["logical"] = OrderedJson();
  out["companion_of"] =
      row.companion_of ? OrderedJson(info.checkpoint->info(*row.companion_of).name) : OrderedJson();
  return out;
}

}  // namespace

std::string info_json_text(const ModelInfo& info, std::string_view filter) {
  std::string out = open_document(head_json(info));
  const std::vector<const TensorRow*> rows = filtered_rows(info, filter);
  ArrayWriter folded(out, "folded");
  for (const FoldedRow& row : fold_rows(info, rows)) folded.add(folded_json(row));
  folded.close();
  ArrayWriter tensors(out, "tensors");
  for (const TensorRow* row : rows) tensors.add(tensor_json(info, *row));
  tensors.close();
  ArrayWriter notes(out, "notes");
  for (const std::string& note : info.notes) notes.add(note);
  notes.close();
  return out.append(kDocumentEnd);
}

}  // namespace tftf
