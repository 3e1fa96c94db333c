// A model in FP8, NVFP4 or plain floats to colibri's integer and lattice formats (spec colibri 4.1).
#include <algorithm>
#include <map>

#include "quant/colibri/weights.h"
#include "quant/fp8_grid.h"
#include "quant/nvfp4.h"
#include "tftf/base/affix.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/simd/cast.h"
#include "tftf/transform/colibri/folder_tools.h"
#include "transform/colibri/folder_pass.h"

namespace tftf::colibri {
namespace {

using transform::StreamTensor;

constexpr std::string_view kPairSuffix = ".qs";
constexpr std::string_view kScaleInvSuffix = "_scale_inv";
constexpr std::string_view kNvfp4Scale = "_scale";
constexpr std::string_view kNvfp4Global = "_scale_2";
constexpr std::string_view kSideFiles[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                           "generation_config.json"};

std::string bits_text(CodeWidth width) { return width.lattice ? "e8" : std::to_string(width.bits); }

Error convert_usage(std::string message) {
  return {.code = ErrorCode::kUsage, .message = std::move(message)};
}

class Convert final : public FolderTool {
 public:
  explicit Convert(ConvertOptions options)
      : FolderTool(options.strict),
        options_(std::move(options)),
        pass_{.layers = options_.layers, .mtp = options_.mtp, .indexer = options_.indexer} {}

  std::string text() const override {
    std::string text = "colibri convert ebits=" + std::to_string(ebits()) +
                       " io_bits=" + std::to_string(options_.io_bits) + " xbits=" + bits_text(xbits()) +
                       " group_size=" + std::to_string(options_.group_size) +
                       " n_layers=" + std::to_string(options_.layers);
    for (const auto& [kind, bits] : options_.kind_bits)
      text += ' ' + std::string(kind_name(kind)) + '=' + std::to_string(bits);
    for (const auto& [projection, width] : options_.projection_bits)
      text += ' ' + projection + '=' + bits_text(width);
    return text + (options_.mtp ? " mtp" : "") + (options_.indexer ? " indexer" : "");
  }

  Result<void> place(FolderPass& pass) const override {
    TFTF_TRY(check_options());
    TFTF_TRY(check_source(pass.source));
    announce(pass);
    for (const uint32_t shard : pass.source.shards()) {
      pass.begin_shard(shard);
      for (const TensorRef ref : pass.source.tensors(shard)) TFTF_TRY(treat(pass, ref));
      pass.end_shard(numbered_name(prefix(), pass.emitted()));
    }
    if (pass.emitted() == 0) pass.warn("The source holds no tensor of this pass.");
    if (!options_.mtp && !options_.indexer) TFTF_TRY(pass.wanted_sides(kSideFiles));
    return pass.finish();
  }

 private:
  uint32_t ebits() const { return options_.ebits.value_or(options_.mtp || options_.indexer ? 8 : 4); }
  CodeWidth xbits() const { return options_.xbits.value_or(CodeWidth{ebits(), false}); }
  std::string_view prefix() const {
    return options_.mtp ? "out-mtp-" : options_.indexer ? "out-idx-" : "out-";
  }

  Result<void> check_options() const {
    if (options_.mtp && options_.indexer)
      return convert_usage("--mtp and --indexer are passes of their own.");
    std::vector<std::pair<std::string, CodeWidth>> widths{
        {"ebits", {ebits(), false}}, {"io-bits", {options_.io_bits, false}}, {"xbits", xbits()}};
    for (const auto& [kind, bits] : options_.kind_bits)
      widths.push_back({"bits of kind " + std::string(kind_name(kind)), CodeWidth{bits, false}});
    for (const auto& [projection, width] : options_.projection_bits) widths.push_back({projection, width});
    for (const auto& [name, width] : widths) {
      if (width.lattice || (width.bits >= 2 && width.bits <= 8)) continue;
      return convert_usage(name + " is " + std::to_string(width.bits) + ": codes have 2 to 8 bits.");
    }
    size_t lattices = 0;
    std::string shown;
    for (const std::string_view name : {"gate_proj", "up_proj", "down_proj"}) {
      const CodeWidth width = projection_width(name).value_or(xbits());
      lattices += width.lattice;
      shown += (shown.empty() ? "" : ", ") + bits_text(width);
    }
    if (lattices == 0 || lattices == 3) return {};
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "e8 covers all three expert projections or none (gate, up, down have " + shown +
                            "); use --xbits e8, or none of the e8 options."};
  }

  std::optional<CodeWidth> projection_width(std::string_view projection) const {
    for (const auto& [name, width] : options_.projection_bits)
      if (name == projection) return width;
    return std::nullopt;
  }

  // A container is no source: its codes would be taken for values.
  static Result<void> check_source(const FolderSource& source) {
    for (const uint32_t shard : source.shards()) {
      for (const TensorRef ref : source.tensors(shard)) {
        if (ends_with(source.info(ref).name, kPairSuffix))
          return refuse(source, ref, "source-layout", "belongs to a colibri container, which is no source");
      }
    }
    return {};
  }

  void announce(FolderPass& pass) const {
    if (!options_.projection_bits.empty()) {
      std::string text;
      for (const auto& [projection, width] : options_.projection_bits)
        text += (text.empty() ? "" : ", ") + projection + ": " + bits_text(width);
      pass.note("[per-projection expert bits] {" + text + "} (others -> xbits=" + bits_text(xbits()) + ")");
    }
    if (!options_.kind_bits.empty()) {
      std::map<std::string, std::string> sorted;
      for (const auto& [kind, bits] : options_.kind_bits)
        sorted[std::string(kind_name(kind))] = std::to_string(bits) + "bit";
      std::string text;
      for (const auto& [kind, bits] : sorted) text += (text.empty() ? "" : ", ") + kind + "=" + bits;
      pass.note("[MIXED] precision map: " + text);
    }
    const std::string grouping =
        options_.group_size == 0 ? "per-row"
        : ebits() <= 4
            ? "grouped gs=" + std::to_string(options_.group_size) + " (fmt=4)"
            : "PER-ROW (grouped branch needs bits<=4; ebits=" + std::to_string(ebits()) + " disables it)";
    pass.note("[PLAN] mode: " +
              std::string(options_.mtp       ? "MTP head only"
                          : options_.indexer ? "DSA indexer only"
                                             : "main model") +
              " | source: local " + pass.stream.request->input + " | experts " + std::to_string(ebits()) +
              "-bit, embed/lm_head " + std::to_string(options_.io_bits) + "-bit, x " + bits_text(xbits()) +
              "-bit | " + grouping);
    if (options_.mtp && ebits() < 8 && options_.group_size == 0) {
      pass.warn(
          "An MTP layer in int4 with one scale per row accepts next to no draft tokens: half of "
          "eh_proj rounds to zero. --ebits 8 keeps it.");
    }
    if (ebits() == 2 && options_.group_size > 0)
      pass.note("2-bit codes in groups are stored in 4 bits (int4-grouped); --group-size 0 gives int2-row.");
  }

  Result<void> treat(FolderPass& pass, TensorRef ref) const {
    const std::string& name = pass.source.info(ref).name;
    const TensorKind kind = classify(name, pass_);
    if (kind == TensorKind::kSkip || kind == TensorKind::kConsumed) {
      pass.drop(ref, kind == TensorKind::kSkip ? "not in this pass" : kCompanionReason);
      return {};
    }
    Result<StreamTensor> opened = open(pass, ref, kind);
    if (!opened) return std::move(opened).error();
    const bool plain = kind == TensorKind::kF32 || opened->shape.size() != 2;
    if (opened->dtype != DType::F32 && (plain || opened->dtype == DType::F64)) {
      opened->stages.push_back({.op = &transform::kCastStage, .from = opened->dtype, .to = DType::F32});
      opened->dtype = DType::F32;
    }
    if (!plain) return pass.encode(*std::move(opened), target(name, kind));
    pass.stream.tensors.push_back(*std::move(opened));
    return {};
  }

  // spec colibri 4.1.4
  CodeLayout target(const std::string& name, TensorKind kind) const {
    CodeWidth width{ebits(), false};
    const auto own = std::find_if(options_.kind_bits.begin(), options_.kind_bits.end(),
                                  [kind](const auto& entry) { return entry.first == kind; });
    if (own != options_.kind_bits.end()) {
      width = {own->second, false};
    } else if (kind == TensorKind::kIo) {
      width = {options_.io_bits, false};
    } else if (kind == TensorKind::kRouted) {
      width = xbits();
    }
    if (kind == TensorKind::kRouted) {
      for (const auto& [projection, bits] : options_.projection_bits)
        if (ends_with(name, "." + projection + ".weight")) width = bits;
    }
    CodeLayout layout{.bits = width.bits};
    if (width.lattice) {
      layout.format = Format::kE8Lattice;
    } else if (width.bits == 3) {
      layout.format = Format::kInt3G64;
    } else if (options_.group_size > 0 && width.bits <= 4) {
      layout.format = Format::kInt4Grouped;
      layout.group_size = options_.group_size;
    } else {
      layout.format = width.bits <= 2   ? Format::kInt2Row
                      : width.bits <= 4 ? Format::kInt4Row
                                        : Format::kInt8Row;
    }
    return layout;
  }

  // A tensor on its way, spec colibri 4.1.2.
  static Result<StreamTensor> open(const FolderPass& pass, TensorRef ref, TensorKind kind) {
    const FolderSource& source = pass.source;
    const TensorInfo& tensor = source.info(ref);
    StreamTensor opened{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .source = ref};
    if (tensor.dtype == DType::U8 && source.find(tensor.name + std::string(kNvfp4Scale)))
      return open_nvfp4(pass, ref, std::move(opened));
    if (tensor.dtype == DType::F8_E4M3) return open_fp8(source, ref, std::move(opened));
    const bool plain = tensor.dtype == DType::F32 || tensor.dtype == DType::BF16 ||
                       tensor.dtype == DType::F16 || tensor.dtype == DType::F64;
    const bool widened =
        kind == TensorKind::kF32 && !is_floating(tensor.dtype) && can_cast(tensor.dtype, DType::F32);
    if (!plain && !widened) {
      return refuse(source, ref, "source-layout",
                    "is " + std::string(dtype_name(tensor.dtype)) +
                        " without scales of a known layout: its codes would be taken for values");
    }
    return opened;
  }

  static Result<TensorRef> companion(const FolderSource& source, TensorRef ref, std::string_view suffix) {
    const std::string name = source.info(ref).name + std::string(suffix);
    if (const auto here = source.find(ref.shard, name)) return *here;
    const auto other = source.find(name);
    return refuse(source, ref, "missing-scale",
                  "has no " + quote_name(name) + " in its shard" +
                      (other ? "; it is in " + quote_name(source.shard(other->shard).name) : ""));
  }

  static Result<StreamTensor> open_fp8(const FolderSource& source, TensorRef ref, StreamTensor opened) {
    const TensorInfo& tensor = source.info(ref);
    const Result<TensorRef> scale = companion(source, ref, kScaleInvSuffix);
    if (!scale) return scale.error();
    const TensorInfo& scales = source.info(*scale);
    const Shape grid =
        tensor.shape.size() == 2 ? Shape{blocks128(tensor.shape[0]), blocks128(tensor.shape[1])} : Shape{};
    if (tensor.shape.size() != 2 || scales.shape != grid) {
      return refuse(source, ref, "scale-grid",
                    "has shape " + shape_text(tensor.shape) + " and scales of shape " +
                        shape_text(scales.shape) + ", not the grid of blocks of 128 x 128 " +
                        (tensor.shape.size() == 2 ? shape_text(grid) : "of a matrix"));
    }
    if (!is_floating(scales.dtype) || !can_cast(scales.dtype, DType::F32)) {
      return refuse(source, *scale, "source-layout",
                    "is " + std::string(dtype_name(scales.dtype)) + ", which is no dtype of a scale");
    }
    const auto blocks = fp8_blocks(tensor, scales, {128, 128});
    Result<Weight> weight = fp8_grid_weight(*blocks, tensor.shape, ref, *scale);
    if (!weight) return refuse(source, ref, "scale-grid", weight.error().message);
    opened.stages.push_back(
        transform::decode_stage(std::make_shared<const Weight>(*std::move(weight)), DType::F32));
    opened.dtype = DType::F32;
    return opened;
  }

  static Result<StreamTensor> open_nvfp4(const FolderPass& pass, TensorRef ref, StreamTensor opened) {
    const FolderSource& source = pass.source;
    const TensorInfo& tensor = source.info(ref);
    const Result<TensorRef> scale = companion(source, ref, kNvfp4Scale);
    if (!scale) return scale.error();
    const Result<TensorRef> global = companion(source, ref, kNvfp4Global);
    if (!global) return global.error();
    const TensorInfo &scales = source.info(*scale), &second = source.info(*global);
    const auto columns = tensor.shape.size() == 2 ? checked_mul(tensor.shape[1], 2) : std::nullopt;
    const Shape grid = columns ? Shape{tensor.shape[0], ceil_div(*columns, 16)} : Shape{};
    if (!columns || scales.shape != grid || scales.dtype != DType::F8_E4M3) {
      return refuse(source, ref, "scale-grid",
                    "has shape " + shape_text(tensor.shape) + " and scales " +
                        std::string(dtype_name(scales.dtype)) + " " + shape_text(scales.shape) +
                        ", not F8_E4M3 " + (columns ? shape_text(grid) : "of a matrix"));
    }
    if (second.dtype != DType::F32 || element_count(second.shape) != uint64_t{1}) {
      return refuse(
          source, *global, "scale-grid",
          "is " + std::string(dtype_name(second.dtype)) + " " + shape_text(second.shape) + ", not one F32");
    }
    if (const auto bytes = pass.stream.values->get(*global, sizeof(float))) {
      if (!(load_le<float>(bytes->data()) < 1.0f)) {
        return refuse(source, *global, "source-layout",
                      "is not below 1: it looks like the reciprocal that compressed-tensors stores");
      }
    } else if (!pass.stream.values->pending(*global)) {
      return Error{.code = ErrorCode::kIoRead,
                   .message = "The value of " + source.described(*global) + " could not be read.",
                   .file = source.shard(global->shard).name,
                   .tensor = second.name};
    }
    opened.shape[1] = *columns;
    opened.stages.push_back(transform::decode_stage(
        std::make_shared<const Weight>(nvfp4_weight(opened.shape, ref, *scale, *global)), DType::F32));
    opened.dtype = DType::F32;
    return opened;
  }

  static Error refuse(const FolderSource& source, TensorRef ref, const char* reason, const std::string& why) {
    Error error = source.refusal(ref, why + " (" + reason + ")");
    error.found = reason;
    return error;
  }

  ConvertOptions options_;
  Pass pass_;
};

}  // namespace

std::shared_ptr<const transform::Pipe> make_convert(const ConvertOptions& options) {
  return std::make_shared<Convert>(options);
}

}  // namespace tftf::colibri
