// int4-grouped in groups of 64 to int4-row (spec colibri 5).
#include <algorithm>
#include <map>
#include <set>

#include "quant/colibri/weights.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_value.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/transform/colibri/folder_tools.h"
#include "transform/colibri/folder_pass.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kMtpPrefix = "out-mtp-";
constexpr std::string_view kQs = ".qs";
constexpr uint64_t kGroup = 64;
constexpr uint64_t kGroupedRatio = 32;  // bytes of codes per scale
constexpr std::string_view kContainerFiles[] = {"generation_config.json", "tokenizer.json",
                                                "tokenizer_config.json", "README.md"};

using Stamps = std::map<std::string, std::string, std::less<>>;

// Names with their numbers folded: "model.layers.*.mlp.up_proj.weight".
std::string pattern_of(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c < '0' || c > '9') {
      text += c;
    } else if (text.empty() || text.back() != '*') {
      text += '*';
    }
  }
  return text;
}

class Fmt4ToFmt2 final : public FolderTool {
 public:
  using FolderTool::FolderTool;
  std::string text() const override { return "colibri fmt4-to-fmt2"; }

  Result<void> place(FolderPass& pass) const override {
    const FolderSource& source = pass.source;
    const JsonValue* config = source.checkpoint().config();
    if (config == nullptr) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "There is no config.json in " + quote_name(pass.stream.request->input) +
                              ", which tells the shapes.",
                   .file = "config.json"};
    }
    Survey survey;
    for (const uint32_t shard : source.shards()) TFTF_TRY(look(source, shard, *config, survey));

    announce(pass, survey);
    for (const uint32_t shard : source.shards()) {
      const std::string& name = source.shard(shard).name;
      if (is_mtp(source, shard)) {
        pass.note("[MTP] byte-copying " + name);
        pass.copy_file(shard);
        continue;
      }
      pass.begin_shard(shard);
      Stamps stamps = stamps_of(source.shard(shard));
      for (auto& [weight, format] : stamps) {
        if (survey.converted.count(weight) > 0) format = std::string(format_info(Format::kInt4Row).name);
      }
      for (const TensorRef ref : source.tensors(shard)) TFTF_TRY(treat(pass, ref, survey));
      pass.end_shard(name, metadata_of(source.shard(shard).header.metadata, stamps));
    }
    if (auto copied = pass.side("config.json", true); !copied) return std::move(copied).error();
    TFTF_TRY(pass.wanted_sides(kContainerFiles));
    return pass.finish();
  }

 private:
  struct Converted {
    uint64_t rows = 0;
    uint64_t columns = 0;
  };
  struct Survey {
    std::map<std::string, Converted, std::less<>> converted{};
    uint64_t copied = 0;
    uint64_t main = 0, mtp = 0;  // shards
    uint64_t group_scales = 0;   // bytes that go
    Stamps stamps{};             // of all shards: what the reader finds
  };

  static bool is_mtp(const FolderSource& source, uint32_t shard) {
    return source.shard(shard).name.substr(0, kMtpPrefix.size()) == kMtpPrefix;
  }

  static Stamps stamps_of(const Shard& shard) {
    StampMap map;
    for (const auto& [key, value] : shard.header.metadata)
      if (key == kStampKey) (void)map.ingest(shard.name, &value, false);
    return map.all();
  }

  // What becomes of every tensor of a shard; spec colibri 5, "Classification".
  static Result<void> look(const FolderSource& source, uint32_t shard, const JsonValue& config,
                           Survey& survey) {
    for (const auto& [weight, format] : stamps_of(source.shard(shard))) survey.stamps.emplace(weight, format);
    const bool mtp = is_mtp(source, shard);
    ++(mtp ? survey.mtp : survey.main);
    for (const TensorRef ref : source.tensors(shard)) {
      const TensorInfo& tensor = source.info(ref);
      if (ends_with(tensor.name, kQs)) {
        const std::string weight = tensor.name.substr(0, tensor.name.size() - kQs.size());
        if (!mtp && !source.find(shard, weight)) return source.refusal(ref, "is there without its weight");
        continue;
      }
      const auto scales = source.find(shard, tensor.name + std::string(kQs));
      if (mtp) {
        if (scales && tensor.bytes() > 0 &&
            tensor.bytes() == kGroupedRatio * source.info(*scales).bytes() / 4) {
          return source.refusal(
              ref, "has the counts of int4-grouped in an MTP shard, which would be copied byte for byte");
        }
        continue;
      }
      TFTF_TRY(look_at(source, ref, scales, config, survey));
    }
    return {};
  }

  static Result<void> look_at(const FolderSource& source, TensorRef ref, std::optional<TensorRef> scales,
                              const JsonValue& config, Survey& survey) {
    const TensorInfo& tensor = source.info(ref);
    if (!scales) {
      if (tensor.dtype != DType::F32) {
        return source.refusal(ref,
                              "has no .qs and is " + std::string(dtype_name(tensor.dtype)) + ", not F32");
      }
      ++survey.copied;
      return {};
    }
    const TensorInfo& values = source.info(*scales);
    if (tensor.dtype != DType::U8 || tensor.shape.size() != 1) {
      return source.refusal(ref, "must be flat U8, and is " + std::string(dtype_name(tensor.dtype)) + " " +
                                     shape_text(tensor.shape));
    }
    if (values.dtype != DType::F32 || values.shape.size() != 1) {
      return source.refusal(*scales, "must be flat F32, and is " + std::string(dtype_name(values.dtype)) +
                                         " " + shape_text(values.shape));
    }
    const uint64_t nb = tensor.shape[0], ns = values.shape[0];
    const auto shape = implied_shape(tensor.name, config);
    if (!shape) return source.refusal(ref, "has no shape in the table that config.json gives");
    const auto [rows, columns] = *shape;
    const auto counts = std::to_string(nb) + " bytes and " + std::to_string(ns) + " scales for [" +
                        std::to_string(rows) + "," + std::to_string(columns) + "]";
    const uint64_t elements = rows * columns;  // implied_shape() has checked the product
    if (rows == 0 || columns == 0) return source.refusal(ref, "has no elements by config.json");
    if (nb / kGroupedRatio == ns && nb % kGroupedRatio == 0) {
      if (columns % kGroup != 0)
        return source.refusal(ref, "has rows of " + std::to_string(columns) + ", not a multiple of 64");
      if (nb != elements / 2 || ns != elements / kGroup) return source.refusal(ref, "has " + counts);
      survey.converted.emplace(tensor.name, Converted{rows, columns});
      survey.group_scales += 4 * (ns - rows);
      return {};
    }
    const bool int8 = nb == elements && ns == rows;
    const bool int4 = elements % 2 == 0 && nb == elements / 2 && ns == rows;
    if (!int8 && !int4) return source.refusal(ref, "is of no layout that is known here: " + counts);
    ++survey.copied;
    return {};
  }

  static void announce(FolderPass& pass, const Survey& survey) {
    pass.note(
        "[PLAN] " + std::to_string(survey.main + survey.mtp) + " shard(s): " + std::to_string(survey.main) +
        " main + " + std::to_string(survey.mtp) + " MTP | " + std::to_string(survey.converted.size()) +
        " tensor(s) to convert (fmt=4 g64 -> fmt=2 per-row), " + std::to_string(survey.copied) +
        " to copy (int8 / F32 / per-row), " + size_text(survey.group_scales) + " of grouped scales less");
    if (!pass.stream.request->dry_run) return;
    std::map<std::string, std::pair<uint64_t, Converted>> patterns;
    for (const auto& [name, shape] : survey.converted) {
      auto& [count, of] = patterns[pattern_of(name)];
      ++count;
      of = shape;
    }
    for (const auto& [pattern, entry] : patterns) {
      pass.note("[DRY-RUN] " + std::to_string(entry.first) + " of " + std::to_string(entry.second.rows) +
                " x " + std::to_string(entry.second.columns) + "  " + pattern);
    }
    pass.note("[DRY-RUN] shape table validated against all " + std::to_string(survey.main + survey.mtp) +
              " shard headers OK");
  }

  static Result<void> treat(FolderPass& pass, TensorRef ref, const Survey& survey) {
    const TensorInfo& tensor = pass.source.info(ref);
    const bool is_scale = ends_with(tensor.name, kQs);
    const auto converted = survey.converted.find(
        is_scale ? tensor.name.substr(0, tensor.name.size() - kQs.size()) : tensor.name);
    if (converted == survey.converted.end()) {
      pass.copy(ref, {tensor.name, tensor.dtype, tensor.shape});
      return {};
    }
    if (is_scale) return {};  // made with its weight
    const auto [rows, columns] = converted->second;
    const TensorRef scales = *pass.source.find(ref.shard, tensor.name + std::string(kQs));
    transform::StreamTensor matrix{
        .name = tensor.name, .dtype = DType::F32, .shape = {rows, columns}, .source = ref};
    matrix.stages.push_back(transform::decode_stage(
        std::make_shared<const Weight>(colibri_weight({Format::kInt4Grouped, rows, columns, kGroup, 4}, ref,
                                                      scales, pass.stream.open->kept)),
        DType::F32));
    std::optional<std::string> stamp;
    if (!is_routed_expert(tensor.name) && survey.stamps.count(tensor.name) > 0)
      stamp = std::string(format_info(Format::kInt4Row).name);
    return pass.encode(std::move(matrix), {.format = Format::kInt4Row, .bits = 4}, std::move(stamp));
  }

  // All of the input's; stamps and declaration say what is there now.
  static Metadata metadata_of(const Metadata& input, const Stamps& stamps) {
    Metadata out;
    for (const auto& [key, value] : input) {
      if (key == kStampKey) {
        out.emplace_back(key, stamps.empty() ? value : stamp_text(stamps));
      } else if (key == kDeclarationKey) {
        out.emplace_back(key, declaration_of(value));
      } else {
        out.emplace_back(key, value);
      }
    }
    return out;
  }

  static std::string declaration_of(const std::string& text) {
    const JsonDocument document = parse_json(text, JsonDialect::kPython);
    if (document.error || !document.root.is_array()) return text;
    std::set<std::string> formats;
    for (const JsonValue& element : document.root.elements) {
      if (!element.is_string()) return text;
      const bool grouped = element.text == format_info(Format::kInt4Grouped).name;
      formats.insert(grouped ? std::string(format_info(Format::kInt4Row).name) : element.text);
    }
    return declaration_text({formats.begin(), formats.end()});
  }
};

}  // namespace

std::shared_ptr<const transform::Pipe> make_fmt4_to_fmt2(bool strict) {
  return std::make_shared<Fmt4ToFmt2>(strict);
}

}  // namespace tftf::colibri
