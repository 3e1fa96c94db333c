// Routed experts of int4-row to range-coded records (spec colibri 4.4): nibbles are counted, records measured, then
// written, each tensor one step.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_value.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/rans_encoder.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/transform/colibri/folder_tools.h"
#include "tftf/transform/output_layout.h"
#include "transform/colibri/folder_pass.h"
#include "transform/colibri/output_check.h"
#include "transform/colibri/rans_steps.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kRecordFormat = "int4-rans256-g0";
constexpr std::string_view kManifestName = "repack-manifest.json";
constexpr std::string_view kRansPrefix = "out-rans-";

bool all_decimal(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The layer of model.layers.<n>.mlp.experts.<n>.{gate,up,down}_proj.weight; nothing for any other name.
std::optional<uint64_t> expert_layer(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  if (parts.size() != 8 || parts[0] != "model" || parts[1] != "layers" || parts[3] != "mlp" ||
      parts[4] != "experts" || parts[7] != "weight" || !all_decimal(parts[2]) || !all_decimal(parts[5]))
    return std::nullopt;
  if (parts[6] != "gate_proj" && parts[6] != "up_proj" && parts[6] != "down_proj") return std::nullopt;
  uint64_t layer = 0;
  const auto [end, error] = std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), layer);
  return error == std::errc() ? std::optional(layer) : std::nullopt;
}

struct Selected {
  TensorRef weight;
  TensorRef scales;
  uint64_t scale_count = 0;
  uint32_t entry = 0;     // in the plan: the record
  uint32_t qs_entry = 0;  // the copy of the scales
};

struct RecordShard {
  std::string name{};
  Metadata metadata{};  // without the table's
  std::vector<Selected> tensors{};
};

// What the phases hand on.
struct RansWork {
  std::shared_ptr<SharedRansTable> table = std::make_shared<SharedRansTable>();
  std::vector<RecordShard> shards;
  std::vector<std::string> names;          // of the weights, in the order of the items
  std::vector<std::string> shard_sources;  // names of the source files
  std::vector<Extent> stored;              // of the weights
  std::vector<uint64_t> record_bytes;
  std::vector<std::string> digests;
};

Error changed_meanwhile(const std::string& name) {
  return {.code = ErrorCode::kIoChanged,
          .message = "Tensor " + quote_name(name) + " has changed while it was coded.",
          .tensor = name};
}

// The header without its padding (spec colibri 3.5).
std::string unpadded(std::string header) {
  while (header.back() == ' ') header.pop_back();
  store_le<uint64_t>(reinterpret_cast<std::byte*>(header.data()), uint64_t{header.size()} - 8);
  return header;
}

// Lays out the shards once the sizes of the records are known, and adds the phase that writes them.
Result<void> lay_out_records(RansWork& work, PlanBuilder& more) {
  more.begin_phase(true, false);
  size_t next = 0;
  for (uint32_t s = 0; s < work.shards.size(); ++s) {
    RecordShard& shard = work.shards[s];
    std::vector<OutputEntry> entries;
    const size_t first = next;
    for (size_t i = 0; i < shard.tensors.size(); ++i, ++next) {
      entries.push_back({work.names[next], DType::U8, {work.record_bytes[next]}});
      entries.push_back({work.names[next] + ".qs", DType::F32, {shard.tensors[i].scale_count}});
    }
    Metadata metadata = shard.metadata;
    metadata.emplace_back(kRansTableKey, rans_table_text(work.table->table));
    std::sort(metadata.begin(), metadata.end());
    std::vector<uint64_t> begins;
    Result<std::string> header = write_header(entries, metadata, HeaderForm::kTftf, &begins);
    if (!header) return std::move(header).error();
    const std::string text = unpadded(*std::move(header));
    const uint64_t data = text.size();
    more.set_output(s, data + begins.back(), text);
    for (size_t i = 0; i < shard.tensors.size(); ++i) {
      const size_t at = first + i;
      const Extent to{.file = s, .offset = data + begins[2 * i], .row_bytes = work.record_bytes[at]};
      more.place(shard.tensors[i].entry, to);
      more.place(shard.tensors[i].qs_entry, {.file = s,
                                             .offset = data + begins[2 * i + 1],
                                             .row_bytes = begins[2 * i + 2] - begins[2 * i + 1]});
      Item item{.op = &kEncodeRansOp, .tensor = shard.tensors[i].entry, .context = work.table};
      item.units = 1;
      item.in = {work.stored[at]};
      item.out = {to};
      more.add_item(std::move(item));
    }
  }
  return {};
}

std::string manifest_text(const Plan& plan, const RansWork& work, std::span<const std::string> sha256) {
  std::vector<RansManifestShard> shards;
  size_t next = 0;
  for (size_t s = 0; s < work.shards.size(); ++s) {
    RansManifestShard& shard = shards.emplace_back();
    shard.file = work.shards[s].name;
    shard.source = work.shard_sources[s];
    shard.bytes = plan.outputs()[s].size;
    shard.sha256 = sha256[s];
    for (size_t i = 0; i < work.shards[s].tensors.size(); ++i, ++next)
      shard.records[work.names[next]] = work.digests[next];
  }
  return rans_manifest_text(rans_table_crc(work.table->table), shards);
}

class RansRepack final : public FolderTool {
 public:
  explicit RansRepack(const RansRepackOptions& options)
      : FolderTool(false),
        layers_(options.layers.begin(), options.layers.end()),
        overwrite_(options.overwrite) {}

  std::string text() const override {
    std::string text = "colibri rans-repack";
    for (const uint64_t layer : layers_)
      text += (layer == *layers_.begin() ? " layers=" : ",") + std::to_string(layer);
    return text;
  }

  Result<void> place(FolderPass& pass) const override {
    auto work = std::make_shared<RansWork>();
    TFTF_TRY(select(pass, *work));
    TFTF_TRY(check_folder(pass, *work));
    transform::Placement& placed = pass.placed();
    placed.manifest_name = std::string(kManifestName);
    placed.manifest = [work](const Plan& plan, std::span<const std::string> sha256) {
      return manifest_text(plan, *work, sha256);
    };
    placed.fill = [work, &checkpoint = *pass.stream.checkpoint, tile = pass.stream.request->tile_bytes](
                      PlanBuilder& builder, const std::function<Extent(TensorRef)>& stored,
                      Account& account) {
      declare(checkpoint, stored, *work, builder, account);
      measure(builder, *work, tile);
      builder.on_finish(PlanBuilder::Extend(
          [work](size_t phase, std::span<const Value> values, Tables&, PlanBuilder& more) {
            return finish_phase(*work, phase, values, more);
          }));
    };
    pass.hand_over();
    return {};
  }

 private:
  static Result<void> finish_phase(RansWork& work, size_t phase, std::span<const Value> values,
                                   PlanBuilder& more) {
    if (phase == 0) {
      std::array<uint64_t, 16> histogram{};
      for (const Value& value : values) add_nibble_counts(value, histogram);
      work.table->table = rans_table(histogram);
      return {};
    }
    if (phase == 1) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i].n[1] != 0) return changed_meanwhile(work.names[i]);
        work.record_bytes.push_back(values[i].n[0]);
      }
      return lay_out_records(work, more);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].x[0] != 0) return changed_meanwhile(work.names[i]);
      work.digests.push_back(record_digest(values[i]));
    }
    return {};
  }

  Result<void> select(FolderPass& pass, RansWork& work) const {
    const FolderSource& source = pass.source;
    bool unknown_shape = false;
    for (const uint32_t shard : source.shards()) {
      RecordShard planned;
      std::map<std::string, std::string, std::less<>> stamps;
      for (const TensorRef ref : source.tensors(shard)) {
        const TensorInfo& tensor = source.info(ref);
        const auto layer = expert_layer(tensor.name);
        if (!layer || tensor.dtype != DType::U8 || (!layers_.empty() && layers_.count(*layer) == 0)) {
          const bool scales =
              tensor.name.ends_with(".qs") && source.find(tensor.name.substr(0, tensor.name.size() - 3));
          const auto of = scales ? expert_layer(tensor.name.substr(0, tensor.name.size() - 3)) : std::nullopt;
          if (!of || (!layers_.empty() && layers_.count(*of) == 0)) pass.drop(ref, "not selected");
          continue;
        }
        const auto scales = source.find(tensor.name + ".qs");
        if (auto sound = check_geometry(pass, ref, scales, unknown_shape); !sound)
          return std::move(sound).error();
        Selected& selected = planned.tensors.emplace_back();
        selected.weight = ref;
        selected.scales = *scales;
        stamps[tensor.name] = std::string(kRecordFormat);
      }
      if (planned.tensors.empty()) continue;
      planned.name = numbered_name(kRansPrefix, work.shards.size());
      planned.metadata =
          shard_metadata(source.shard(shard).header.metadata, {{std::string(kStampKey), stamp_text(stamps)}});
      work.shard_sources.push_back(source.shard(shard).name);
      work.shards.push_back(std::move(planned));
    }
    if (work.shards.empty()) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = quote_name(pass.stream.request->input) +
                              " holds no routed experts of per-row int4" +
                              (layers_.empty() ? "." : " in these layers."),
                   .file = pass.stream.request->input};
    }
    if (unknown_shape) {
      pass.warn(
          "config.json does not tell the shape of every expert: int8, E8 and int4 with groups of 192 or 256 "
          "cannot "
          "be told from int4-row there.");
    }
    return {};
  }

  static Error refuse(const FolderSource& source, TensorRef ref, std::string_view reason,
                      const std::string& why) {
    return {.code = ErrorCode::kRefusedUnsupported,
            .message = std::string(reason) + ": tensor " + quote_name(source.info(ref).name) + " of " +
                       quote_name(source.shard(ref.shard).name) + " " + why + ".",
            .file = source.shard(ref.shard).name,
            .tensor = source.info(ref).name};
  }

  // In the order of the original's checks, then ours.
  static Result<void> check_geometry(const FolderPass& pass, TensorRef weight,
                                     std::optional<TensorRef> scales, bool& unknown_shape) {
    const FolderSource& source = pass.source;
    const TensorInfo& codes = source.info(weight);
    const auto fail = [&](std::string_view reason, const std::string& why) {
      return refuse(source, weight, reason, why);
    };
    constexpr std::string_view kNotPerRow = "E_GEOMETRY_NOT_PER_ROW";
    if (!scales)
      return fail("E_GEOMETRY_NO_SCALES", "has no " + quote_name(codes.name + ".qs") + " anywhere");
    const TensorInfo& values = source.info(*scales);
    if (values.dtype != DType::F32 || values.bytes() == 0)
      return fail(kNotPerRow, "has no F32 scales in its .qs");
    const uint64_t rows = values.bytes() / 4;
    if (codes.shape.size() == 2 && codes.shape[0] != rows) {
      return fail(kNotPerRow,
                  "of shape " + shape_text(codes.shape) + " has " + std::to_string(rows) + " scales");
    }
    if (codes.bytes() == 0 || codes.bytes() % rows != 0) {
      return fail(kNotPerRow,
                  "has " + std::to_string(codes.bytes()) + " bytes for " + std::to_string(rows) + " scales");
    }
    const uint64_t ratio = codes.bytes() / rows;
    if (codes.shape.size() == 1 && ratio == 32)
      return fail("E_GEOMETRY_G64", "has 32 bytes for each scale, as int4 with groups of 64 has");
    if (codes.shape.size() == 1 && ratio == 64)
      return fail("E_GEOMETRY_AMBIGUOUS", "has 64 bytes for each scale, as int4 with groups of 128 has too");
    if (ratio < 64) return fail(kNotPerRow, "has only " + std::to_string(ratio) + " bytes for each scale");
    if (codes.bytes() > kRansMostPacked) {
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Tensor " + quote_name(codes.name) + " of " + size_text(codes.bytes()) +
                              " is too large for one record.",
                   .tensor = codes.name};
    }
    if (is_recoded(source, weight)) return fail(kNotPerRow, "is range coded already");
    if (rows == 1) {
      const auto tag = pass.stream.values->get(*scales);
      if (tag && tag->size() == 4 && load_le<float>(tag->data()) == kE8Tag)
        return fail(kNotPerRow, "has the tag 6.0 of e8-iq3-lattice as its only scale");
    }
    const JsonValue* config = source.checkpoint().config();
    const auto shape = config == nullptr ? std::nullopt : implied_shape(codes.name, *config);
    if (!shape) {
      unknown_shape = true;
      return {};
    }
    Pair pair;
    pair.rows = shape->first;
    pair.columns = shape->second;
    pair.weight_bytes = codes.bytes();
    pair.scale_bytes = values.bytes();
    pair.routed = true;
    if (resolve(pair).format != Format::kInt4Row) {
      return fail(kNotPerRow, "is not int4-row at the [" + std::to_string(pair.rows) + "," +
                                  std::to_string(pair.columns) + "] that config.json gives");
    }
    return {};
  }

  // Stamped as a record in its own shard.
  static bool is_recoded(const FolderSource& source, TensorRef weight) {
    for (const auto& [key, value] : source.shard(weight.shard).header.metadata) {
      if (key != kStampKey) continue;
      const JsonDocument document = parse_json(value, JsonDialect::kPython);
      return !document.error && document.root.is_object() &&
             document.root.string(source.info(weight).name) == kRecordFormat;
    }
    return false;
  }

  Result<void> check_folder(const FolderPass& pass, const RansWork& work) const {
    std::vector<PlannedFile> files;
    for (size_t s = 0; s < work.shards.size(); ++s) {
      PlannedFile& file = files.emplace_back();
      file.name = work.shards[s].name;
      for (const Selected& tensor : work.shards[s].tensors) {
        const std::string& name = pass.source.info(tensor.weight).name;
        file.tensors.push_back(name);
        file.tensors.push_back(name + ".qs");
        file.stamps[name] = std::string(kRecordFormat);
      }
    }
    const Checkpoint* existing = pass.stream.request->existing;
    if (existing != nullptr && !overwrite_) {
      for (const FileEntry& file : existing->listing.files) {
        const bool ours = std::any_of(files.begin(), files.end(),
                                      [&](const PlannedFile& planned) { return planned.name == file.name; });
        const bool manifest = file.name == kManifestName && !pass.stream.request->continues;
        const bool earlier =
            manifest || (!ours && file.name.starts_with(kRansPrefix) && file.name.ends_with(".safetensors"));
        if (!earlier) continue;
        return Error{.code = ErrorCode::kRefusedOutput,
                     .message = "The output folder holds " + quote_name(file.name) +
                                " of an earlier run (--force replaces files of the same names).",
                     .file = file.name};
      }
    }
    const Result<uint64_t> stamps = check_outputs(existing, files);
    if (!stamps) return stamps.error();
    return {};
  }

  // Outputs, and a line for each of their tensors: sizes come later.
  static void declare(const Checkpoint& checkpoint, const std::function<Extent(TensorRef)>& stored,
                      RansWork& work, PlanBuilder& builder, Account& account) {
    for (RecordShard& shard : work.shards) {
      builder.add_output({.name = shard.name, .known = false}, {});
      account.files.push_back({shard.name, 2 * shard.tensors.size(), 0});
      for (Selected& tensor : shard.tensors) {
        const TensorInfo& codes = checkpoint.info(tensor.weight);
        const TensorInfo& scales = checkpoint.info(tensor.scales);
        const Extent whole = stored(tensor.weight);
        PlanEntry record{.name = codes.name, .dtype = DType::U8, .shape = codes.shape, .to_known = false};
        record.from = {whole};
        record.word = "rans";
        tensor.entry = builder.add_tensor(std::move(record));
        PlanEntry copy{.name = codes.name + ".qs",
                       .dtype = DType::F32,
                       .shape = {scales.bytes() / 4},
                       .to_known = false};
        copy.from = {stored(tensor.scales)};
        tensor.qs_entry = builder.add_copy(std::move(copy));
        tensor.scale_count = scales.bytes() / 4;
        work.stored.push_back(whole);
        work.names.push_back(codes.name);
        ++account.changed;
        ++account.copied;
        ++account.left_quantised;
        account.tensors_out += 2;
      }
    }
  }

  static void measure(PlanBuilder& builder, const RansWork& work, uint64_t tile_bytes) {
    const auto add = [&](const TileOp* op, size_t i, uint64_t units, uint64_t per_tile) {
      const Extent whole = work.stored[i];
      PlanEntry entry{.kind = PlanEntry::Kind::kMeasure, .name = work.names[i], .dtype = DType::U8};
      entry.from = {whole};
      Item item{.op = op, .context = work.table};
      item.tensor = builder.add_tensor(std::move(entry));
      item.units = units;
      item.units_per_tile = per_tile;
      item.in = {whole};
      builder.add_item(std::move(item));
    };
    const uint64_t tile = std::min(tile_bytes, kMostCounted);
    builder.begin_phase(false, true);
    for (size_t i = 0; i < work.names.size(); ++i)
      add(&kCountNibblesOp, i, work.stored[i].row_bytes, std::max<uint64_t>(tile, 1));
    builder.begin_phase(false, false);
    for (size_t i = 0; i < work.names.size(); ++i) add(&kMeasureRansOp, i, 1, 1);
  }

  std::set<uint64_t> layers_;
  bool overwrite_;
};

}  // namespace

std::shared_ptr<const transform::Pipe> make_rans_repack(const RansRepackOptions& options) {
  return std::make_shared<RansRepack>(options);
}

}  // namespace tftf::colibri
