// FP8 with block scales to fp8-e4m3-b128: the codes stay, the scales become a row of F32, residents get stamps
// (spec colibri 4.2).
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/simd/cast.h"
#include "tftf/transform/colibri/folder_tools.h"
#include "transform/colibri/folder_pass.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kScaleSuffix = "_scale_inv";

class RepackFp8 final : public FolderTool {
 public:
  explicit RepackFp8(const RepackFp8Options& options)
      : FolderTool(options.strict), options_(options), pass_{.layers = options.layers, .mtp = options.mtp} {}

  std::string text() const override {
    return "colibri repack-fp8 n_layers=" + std::to_string(options_.layers) + (options_.mtp ? " mtp" : "") +
           (options_.pass_plain ? " pass-plain" : "");
  }

  Result<void> place(FolderPass& pass) const override {
    const TransformRequest& request = *pass.stream.request;
    pass.declare(Format::kFp8Block128);
    Seen seen;
    for (const uint32_t shard : pass.source.shards()) {
      pass.begin_shard(shard);
      for (const TensorRef ref : pass.source.tensors(shard)) TFTF_TRY(treat(pass, ref, seen));
      pass.end_shard(numbered_name(options_.mtp ? "out-mtp-fp8pass-" : "out-fp8pass-", pass.emitted()));
    }
    for (const auto& [name, required] :
         {std::pair{"config.json", true}, {"tokenizer.json", true}, {"generation_config.json", false}}) {
      if (auto side = pass.side(name, required); !side) return std::move(side).error();
    }
    if (pass.emitted() == 0 && !request.dry_run) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = quote_name(request.input) + " holds no tensor of this pass.",
                   .file = request.input};
    }
    if (pass.emitted() == 0) pass.warn("The source holds no tensor of this pass: a run would be refused.");
    if (seen.ambiguous > 0) {
      pass.note(grouped_digits(seen.ambiguous) +
                " of them have a shape at which int8-row has the same sizes; they are read as FP8 by their "
                "stamps alone.");
    }
    return pass.finish();
  }

 private:
  struct Seen {
    uint64_t ambiguous = 0;  // stamped ones at which the sizes fit int8 too
  };

  Result<void> treat(FolderPass& pass, TensorRef ref, Seen& seen) const {
    const TensorInfo& tensor = pass.source.info(ref);
    const TensorKind kind = classify(tensor.name, pass_);
    switch (kind) {
      case TensorKind::kSkip:
        pass.drop(ref, "not in this pass");
        return {};
      case TensorKind::kConsumed:
        pass.drop(ref, kCompanionReason);
        return {};
      case TensorKind::kF32:
      case TensorKind::kIo:
        return pass_through(pass, ref);
      case TensorKind::kCatchAll:
        if (options_.pass_plain && is_floating(tensor.dtype) && dtype_bits(tensor.dtype) >= 16)
          return pass_through(pass, ref);
        break;
      default:
        break;
    }
    return repack(pass, ref, kind, seen);
  }

  // Their scale would be dropped and the codes read as values.
  static Result<void> pass_through(FolderPass& pass, TensorRef ref) {
    const FolderSource& source = pass.source;
    const TensorInfo& tensor = source.info(ref);
    const bool scaled = source.find(ref.shard, tensor.name + std::string(kScaleSuffix)).has_value();
    if (is_fp8(tensor.dtype) || tensor.dtype == DType::U8 || scaled) {
      return source.refusal(
          ref, scaled ? "has a scale, and is of a kind that is copied as it is: the scale would be lost"
                      : "is " + std::string(dtype_name(tensor.dtype)) +
                            ", and is of a kind that is copied as it is: its codes would be read as values");
    }
    pass.copy(ref, {tensor.name, tensor.dtype, tensor.shape});
    return {};
  }

  Result<void> repack(FolderPass& pass, TensorRef ref, TensorKind kind, Seen& seen) const {
    const FolderSource& source = pass.source;
    const TensorInfo& tensor = source.info(ref);
    if (tensor.dtype != DType::F8_E4M3) {
      return source.refusal(
          ref, "is " + std::string(dtype_name(tensor.dtype)) + " where F8_E4M3 is needed (kind " +
                   std::string(kind_name(kind)) + ")" +
                   (kind == TensorKind::kCatchAll ? "; --pass-plain copies plain floats of this kind" : ""));
    }
    const std::string scale_name = tensor.name + std::string(kScaleSuffix);
    const auto scale = source.find(ref.shard, scale_name);
    if (!scale) {
      const auto other = source.find(scale_name);
      return source.refusal(ref,
                            "has no " + quote_name(scale_name) + " in its shard" +
                                (other ? "; it is in " + quote_name(source.shard(other->shard).name) : ""));
    }
    if (tensor.shape.size() != 2)
      return source.refusal(ref,
                            "has shape " + shape_text(tensor.shape) + " where rows and columns are needed");
    const uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const Shape grid{blocks128(rows), blocks128(columns)};
    const TensorInfo& scales = source.info(*scale);
    if (scales.shape != grid) {
      return source.refusal(ref, "has scales of shape " + shape_text(scales.shape) + " where " +
                                     shape_text(grid) + " are needed for " + shape_text(tensor.shape));
    }
    WrittenPair pair{.name = tensor.name,
                     .rows = rows,
                     .columns = columns,
                     .weight_bytes = tensor.bytes(),
                     .scale_bytes = grid[0] * grid[1] * 4,
                     .format = Format::kFp8Block128};
    if (is_stampable(kind)) {
      pair.stamp = std::string(format_info(Format::kFp8Block128).name);
      pass.stamp(tensor.name, Format::kFp8Block128);
      if (grid[0] * grid[1] == rows) ++seen.ambiguous;
    }
    TFTF_TRY(pass.check(pair));
    pass.copy(ref, {tensor.name, DType::U8, tensor.shape});
    if (scales.dtype != DType::F32 && scales.dtype != DType::BF16 && scales.dtype != DType::F16) {
      return source.refusal(*scale,
                            "is " + std::string(dtype_name(scales.dtype)) + " where a float scale is needed");
    }
    transform::StreamTensor& made = pass.copy(*scale, {tensor.name + ".qs", DType::F32, {grid[0] * grid[1]}});
    if (scales.dtype != DType::F32)
      made.stages.push_back({.op = &transform::kCastStage, .from = scales.dtype, .to = DType::F32});
    return {};
  }

  RepackFp8Options options_;
  Pass pass_;
};

}  // namespace

std::shared_ptr<const transform::Pipe> make_repack_fp8(const RepackFp8Options& options) {
  return std::make_shared<RepackFp8>(options);
}

}  // namespace tftf::colibri
