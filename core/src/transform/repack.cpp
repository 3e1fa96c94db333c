// `repack`: the codes of a layout stay as they are, bit by bit, in the container of another. One row per pair of
// layouts.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "pipe.h"
#include "restamp.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/quant/colibri/write_gate.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kBlockScale = "weight_scale_inv";

// What is rewritten, and what the container as a whole has to say afterwards.
struct RepackWork {
  Stream& stream;
  std::unordered_map<uint64_t, size_t> at{};  // of stored tensors, in the stream
  std::unordered_set<std::string> names{};    // of repacked weights
  std::map<std::string, std::string, std::less<>> stamps{};
  std::unordered_set<size_t> consumed{};  // tensors that go
  uint64_t modules = 0;

  // A companion that the new layout has no place for.
  void consume(TensorRef ref) {
    const auto found = at.find(uint64_t{ref.shard} << 32 | ref.tensor);
    if (found != at.end()) consumed.insert(found->second);
  }
  StreamTensor* find(TensorRef ref) {
    const auto found = at.find(uint64_t{ref.shard} << 32 | ref.tensor);
    return found == at.end() ? nullptr : &stream.tensors[found->second];
  }
};

struct Repacking {
  std::string_view from;  // ids of the registry
  std::string_view to;
  // Rewrites weight and companions of a module in place; both are in the stream and were not touched before.
  Result<void> (*module)(RepackWork& work, const QuantMatch& match);
};

Error repack_refusal(const RepackWork& work, const QuantMatch& match, std::string_view to,
                     const std::string& why) {
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = "Module " + quote_name(match.module) + " (" + std::string(match.layout) +
                     ") cannot become " + std::string(to) + ": " + why + ".",
          .file = work.stream.file_of(match.weight),
          .tensor = match.module};
}

// The engine looks up stamps of these, in whatever layer.
bool has_looked_up_stamp(const std::string& name) {
  colibri::Pass every;
  every.layers = INT64_MAX;
  return colibri::is_stampable(colibri::classify(name, every));
}

// As `colibri repack-fp8` does it (spec colibri 4.2), whatever the layer.
Result<void> fp8_block_to_colibri(RepackWork& work, const QuantMatch& match) {
  constexpr std::string_view kTo = "colibri-fp8-e4m3-b128";
  const auto refuse = [&](const std::string& why) { return repack_refusal(work, match, kTo, why); };
  const TensorRef* scale_ref = match.find(kBlockScale);
  StreamTensor* weight = work.find(match.weight);
  StreamTensor* scale = scale_ref == nullptr ? nullptr : work.find(*scale_ref);
  if (scale == nullptr) return refuse("it has no " + std::string(kBlockScale));
  if (weight->dtype != DType::F8_E4M3)
    return refuse("its codes are " + std::string(dtype_name(weight->dtype)));
  if (weight->shape.size() != 2) return refuse("it is no matrix");
  if (match.block[0] != 128 || match.block[1] != 128) {
    return refuse("its blocks are of " + std::to_string(match.block[0]) + " x " +
                  std::to_string(match.block[1]) + ", not of 128 x 128");
  }
  const Shape grid{colibri::blocks128(weight->shape[0]), colibri::blocks128(weight->shape[1])};
  if (scale->shape != grid)
    return refuse("its scales are " + shape_text(scale->shape) + ", not " + shape_text(grid));
  if (scale->dtype != DType::F32 && scale->dtype != DType::BF16 && scale->dtype != DType::F16)
    return refuse("its scales are " + std::string(dtype_name(scale->dtype)));

  const std::string format(colibri::format_info(colibri::Format::kFp8Block128).name);
  colibri::WrittenPair pair{.name = weight->name,
                            .rows = weight->shape[0],
                            .columns = weight->shape[1],
                            .weight_bytes = work.stream.checkpoint->info(match.weight).bytes(),
                            .scale_bytes = grid[0] * grid[1] * 4,
                            .format = colibri::Format::kFp8Block128};
  if (has_looked_up_stamp(weight->name)) {
    pair.stamp = format;
    work.stamps[weight->name] = format;
  }
  if (const colibri::WriteCheck check = colibri::check_written(pair, false); check.refused) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = check.sentence,
                 .file = work.stream.file_of(match.weight),
                 .tensor = weight->name};
  }
  if (auto warning =
          colibri::shape_warning(pair.name, pair.rows, pair.columns, work.stream.checkpoint->config()))
    work.stream.warnings.push_back(*std::move(warning));
  weight->dtype = DType::U8;
  if (scale->dtype != DType::F32)
    scale->stages.push_back({.op = &kCastStage, .from = scale->dtype, .to = DType::F32});
  scale->dtype = DType::F32;
  scale->shape = {grid[0] * grid[1]};
  scale->name = weight->name + ".qs";
  for (const QuantCompanion& companion : match.companions)
    if (companion.role != kBlockScale) work.consume(companion.tensor);
  return {};
}

Result<void> colibri_fp8_to_block(RepackWork& work, const QuantMatch& match) {
  const auto refuse = [&](const std::string& why) { return repack_refusal(work, match, "fp8-block", why); };
  const TensorRef* scale_ref = match.find("qs");
  StreamTensor* weight = work.find(match.weight);
  StreamTensor* scale = scale_ref == nullptr ? nullptr : work.find(*scale_ref);
  if (scale == nullptr) return refuse("it has no .qs");
  if (!match.logical_shape || match.logical_shape->size() != 2)
    return refuse("its rows and columns are not known");
  const Shape& shape = *match.logical_shape;
  weight->dtype = DType::F8_E4M3;
  weight->shape = shape;
  scale->shape = {colibri::blocks128(shape[0]), colibri::blocks128(shape[1])};
  scale->name = weight->name + "_scale_inv";
  return {};
}

constexpr Repacking kRepackings[] = {
    {"fp8-block", "colibri-fp8-e4m3-b128", fp8_block_to_colibri},
    {"colibri-fp8-e4m3-b128", "fp8-block", colibri_fp8_to_block},
};

const Repacking* find_repacking(std::string_view from, std::string_view to) {
  for (const Repacking& row : kRepackings)
    if (row.from == from && row.to == to) return &row;
  return nullptr;
}

class Repack final : public Pipe {
 public:
  explicit Repack(std::string_view to) : to_(to) {}

  std::string text() const override { return "repack to=" + std::string(to_); }

  Result<void> apply(Stream& stream) const override {
    RepackWork work{stream};
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      const StreamTensor& tensor = stream.tensors[i];
      if (!tensor.added && tensor.stages.empty())
        work.at.emplace(uint64_t{tensor.source.shard} << 32 | tensor.source.tensor, i);
    }
    for (const QuantProblem& problem : stream.layouts->problems) {
      if (find_repacking(problem.layout, to_) == nullptr) continue;
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be repacked: " + problem.what + ".",
                   .tensor = problem.module};
    }
    for (const QuantFinding& finding : stream.layouts->findings) TFTF_TRY(repack(work, finding));
    if (work.modules == 0) return nothing_to_repack(stream);
    drop_consumed(work);
    stream.adds_format = true;
    TFTF_TRY(restamp(stream, work.names, work.stamps));
    if (to_ != "fp8-block") return check_stamps(work);
    describe(stream, work);
    return {};
  }

 private:
  static void drop_consumed(RepackWork& work) {
    Stream& stream = work.stream;
    std::vector<StreamTensor> kept;
    kept.reserve(stream.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      if (work.consumed.count(i) == 0) {
        kept.push_back(std::move(stream.tensors[i]));
      } else {
        stream.dropped.push_back({stream.checkpoint->info(stream.tensors[i].source).name, "companion"});
      }
    }
    stream.tensors = std::move(kept);
  }

  Result<void> repack(RepackWork& work, const QuantFinding& finding) const {
    const Repacking* row = find_repacking(finding.layout, to_);
    if (row == nullptr) {
      work.stream.warnings.push_back(grouped_digits(finding.matches.size()) +
                                     (finding.matches.size() == 1 ? " module stays " : " modules stay ") +
                                     std::string(finding.layout) + ".");
      return {};
    }
    for (const QuantMatch& match : finding.matches) {
      if (work.find(match.weight) == nullptr) continue;  // left out by an earlier pipe
      TFTF_TRY(row->module(work, match));
      work.names.insert(work.find(match.weight)->name);
      ++work.modules;
    }
    return {};
  }

  Error nothing_to_repack(const Stream& stream) const {
    std::string found, wanted;
    for (const QuantFinding& finding : stream.layouts->findings)
      found += (found.empty() ? "" : ", ") + std::string(finding.layout);
    for (const Repacking& row : kRepackings)
      if (row.to == to_) wanted += (wanted.empty() ? "" : ", ") + std::string(row.from);
    return {.code = ErrorCode::kRefusedMissing,
            .message = "Nothing in the model can be repacked to " + std::string(to_) + ": " + wanted +
                       " is needed, found is " + (found.empty() ? "no quantised layout" : found) + ".",
            .expected = wanted,
            .found = found};
  }

  static Result<void> check_stamps(const RepackWork& work) {
    if (work.stamps.size() <= colibri::kStampCap) return {};
    return Error{.code = ErrorCode::kRefusedOutput,
                 .message = grouped_digits(work.stamps.size()) +
                            " weights would be stamped, and readers stop at " +
                            grouped_digits(colibri::kStampCap) + " (stamp-cap)."};
  }

  // A configuration that says nothing of the layout, or of another one, is made to.
  void describe(Stream& stream, const RepackWork& work) const {
    const JsonValue* config = stream.checkpoint->config();
    const JsonValue* section = config == nullptr ? nullptr : config->find("quantization_config");
    if (section != nullptr && section->is_object() && section->string("quant_method") == "fp8") return;
    std::vector<std::string> plain;
    for (const StreamTensor& tensor : stream.tensors) {
      if (tensor.shape.size() == 2 && ends_with(tensor.name, ".weight") && work.names.count(tensor.name) == 0)
        plain.push_back(tensor.name.substr(0, tensor.name.size() - 7));
    }
    stream.quantization_config = find_quant_format(to_)->encoder->config({plain, {}});
  }

  std::string_view to_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_repack(const Operation& operation) {
  return std::unique_ptr<Pipe>(
      std::make_unique<Repack>(find_quant_format(operation.find("to")->front())->id));
}

std::string repack_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    const TensorInfo& info = checkpoint.info(ref);
    if (info.dtype == DType::F8_E4M3 || ends_with(info.name, ".qs")) return "";
  }
  return "It holds nothing in a layout that can be repacked.";
}

}  // namespace tftf::transform
