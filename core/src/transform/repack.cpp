// `repack`: the codes of a layout stay as they are, bit by bit, in the container of another (quant/code_form.h).
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "decoded.h"
#include "pipe.h"
#include "plane_ops.h"
#include "restamp.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/code_form.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

// Bytes of zero points that are looked at to say whether all are half the range: what is more counts as asymmetric.
constexpr uint64_t kHalfOfRange = SmallValues::kMaxTensor;

// What is rewritten, and what the container as a whole has to say afterwards.
struct RepackWork {
  Stream& stream;
  std::unordered_map<uint64_t, size_t> at{};  // of stored tensors, in the stream
  std::unordered_set<std::string> names{};    // of repacked weights
  std::map<std::string, std::string, std::less<>> stamps{};
  std::unordered_set<size_t> consumed{};                              // tensors that go
  std::unordered_map<size_t, std::vector<StreamTensor>> additions{};  // behind a tensor
  std::vector<StreamTensor> texts{};  // behind all: of any length, they would leave what follows unaligned
  std::vector<PackedModule> modules{};
  bool symmetric = true;
  bool ordered = false;

  static uint64_t key(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }
  StreamTensor* find(TensorRef ref) {
    const auto found = at.find(key(ref));
    return found == at.end() ? nullptr : &stream.tensors[found->second];
  }
};

Error repack_refusal(const RepackWork& work, const QuantMatch& match, std::string_view to,
                     const std::string& why) {
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = "Module " + quote_name(match.module) + " (" + std::string(match.layout) +
                     ") cannot become " + std::string(to) + ": " + why + ".",
          .file = work.stream.file_of(match.weight),
          .tensor = match.module};
}

// "x.weight" of the tensor "x.qweight".
std::string weight_name(const std::string& tensor, std::string_view role) {
  if (role.empty() || role == "weight" || !ends_with(tensor, role)) return tensor;
  const std::string stem = tensor.substr(0, tensor.size() - role.size());
  return stem.empty() || stem.back() == '.' ? stem + "weight" : tensor;
}

class Repack final : public Pipe {
 public:
  // `name`: of the family, or of its one layout.
  Repack(std::string name, std::vector<const QuantFormat*> targets)
      : name_(std::move(name)), targets_(std::move(targets)) {}

  std::string text() const override { return "repack to=" + name_; }

  Result<void> apply(Stream& stream) const override {
    TFTF_TRY(check_moved_codes(stream, "repacked"));
    RepackWork work{stream};
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      const StreamTensor& tensor = stream.tensors[i];
      if (!tensor.added && tensor.is_copy()) work.at.emplace(RepackWork::key(tensor.source), i);
    }
    for (const QuantProblem& problem : stream.layouts->problems) {
      const QuantFormat* from = find_quant_format(problem.layout);
      // Broken modules may have no layout of their own yet, but a common name: then those of integers are meant.
      const bool meant = from == nullptr ? takes_integers() : target_of(*from) != nullptr;
      if (!meant) continue;
      return Error{.code = ErrorCode::kRefusedShape,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be repacked: " + problem.what + ".",
                   .tensor = problem.module};
    }
    for (const QuantFinding& finding : stream.layouts->findings) TFTF_TRY(repack(work, finding));
    if (work.modules.empty()) return nothing_to_repack(stream);
    rebuild(work);
    stream.adds_format = true;
    TFTF_TRY(restamp(stream, work.names, work.stamps));
    TFTF_TRY(check_stamps(work));
    return describe(stream, work);
  }

 private:
  // Consumed tensors go, new ones come behind the codes they belong to.
  static void rebuild(RepackWork& work) {
    Stream& stream = work.stream;
    std::vector<StreamTensor> kept;
    kept.reserve(stream.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      if (work.consumed.count(i) == 0) {
        kept.push_back(std::move(stream.tensors[i]));
      } else {
        stream.dropped.push_back({stream.checkpoint->info(stream.tensors[i].source).name, "companion"});
      }
      const auto more = work.additions.find(i);
      if (more == work.additions.end()) continue;
      for (StreamTensor& tensor : more->second) kept.push_back(std::move(tensor));
    }
    for (StreamTensor& tensor : work.texts) kept.push_back(std::move(tensor));
    stream.tensors = std::move(kept);
  }

  Result<void> repack(RepackWork& work, const QuantFinding& finding) const {
    const QuantFormat* from = find_quant_format(finding.layout);
    const QuantFormat* to = from == nullptr ? nullptr : target_of(*from);
    if (to == nullptr) {
      work.stream.warnings.push_back(grouped_digits(finding.matches.size()) +
                                     (finding.matches.size() == 1 ? " module stays " : " modules stay ") +
                                     std::string(finding.layout) + ".");
      return {};
    }
    for (const TensorRef extra : finding.extras) {
      const StreamTensor* tensor = work.find(extra);
      if (tensor == nullptr || !to->codes->refuses_extras) continue;
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Tensor " + work.stream.described(*tensor) + " belongs to " +
                              std::string(finding.layout) + " and to no weight, and " + std::string(to->id) +
                              " has no place for it; `run --key-filter --exclude` leaves it out.",
                   .file = work.stream.file_of(extra),
                   .tensor = tensor->name};
    }
    for (const QuantMatch& match : finding.matches) {
      if (work.find(match.weight) == nullptr) continue;  // left out by an earlier pipe
      TFTF_TRY(repack(work, *from, *to, match));
    }
    for (const TensorRef extra : finding.extras) {
      const auto found = work.at.find(RepackWork::key(extra));
      if (from->codes->extras_go && found != work.at.end()) work.consumed.insert(found->second);
    }
    return {};
  }

  Result<void> repack(RepackWork& work, const QuantFormat& format, const QuantFormat& to,
                      const QuantMatch& match) const {
    const auto refused = [&](Error error) {
      if (error.tensor.empty()) return repack_refusal(work, match, to.id, error.message);
      if (error.file.empty()) error.file = work.stream.file_of(match.weight);
      return error;
    };
    Result<CodeForm> from = format.codes->codes(*work.stream.open, match);
    if (!from) return refused(std::move(from).error());
    const CodePlane* index = from->find(PlaneRole::kIndex);
    const PackRequest request{weight_name(work.find(match.weight)->name, match.role), work.stream.config(),
                              work.stream.checkpoint->info(match.weight).bytes(),
                              index != nullptr && may_be_ordered(work, *index, from->group)};
    Result<PackedCodes> packed = to.codes->pack(*from, request);
    if (!packed) return refused(std::move(packed).error());
    if (!packed->warning.empty()) work.stream.warnings.push_back(packed->warning);
    PackedModule module{request.name, from->bits, from->group == from->inputs ? 0 : from->group};
    module.kind = from->kind;
    std::copy_n(from->block, 2, module.block);
    for (const CodePlane& plane : packed->planes) {
      const CodePlane* source = from->find(plane.role);
      module.zeros = module.zeros || plane.role == PlaneRole::kZeros;
      module.ordered = module.ordered || plane.role == PlaneRole::kIndex;
      module.inputs = module.inputs || plane.role == PlaneRole::kActivations;
      if (auto result = source == nullptr ? add(work, match, plane) : change(work, to, *source, plane);
          !result)
        return refused(std::move(result).error());
    }
    TFTF_TRY(check(work, to, match, *from, *packed));
    consume(work, match, *packed, *from);
    if (packed->stamp) work.stamps[request.name] = *packed->stamp;
    work.names.insert(work.find(match.weight)->name);
    work.modules.push_back(std::move(module));
    return {};
  }

  // A tensor of the source becomes one of the result.
  static Result<void> change(RepackWork& work, const QuantFormat& target, const CodePlane& from,
                             const CodePlane& to) {
    StreamTensor* tensor = work.find(from.tensor);
    if (tensor == nullptr) return no_place("a tensor that it consists of was left out or changed before");
    const bool turned = from.form.packing == nullptr && to.form.packing == nullptr &&
                        from.form.outputs_first != to.form.outputs_first;
    if (to.reciprocal) {
      tensor->stages.push_back({.op = &kReciprocalStage, .from = DType::F32, .to = DType::F32});
      work.stream.divisors.push_back(from.tensor);
    } else if (turned || (from.form.packing != nullptr && !from.form.stores_like(to.form))) {
      tensor->plane = std::make_shared<const PlaneChange>(
          PlaneChange{from.form, to.form, "repack to " + std::string(target.id)});
      TFTF_TRY(check_plane(*tensor->plane));
    } else if (to.role == PlaneRole::kScales && from.form.dtype != to.form.dtype) {
      tensor->stages.push_back({.op = &kCastStage, .from = from.form.dtype, .to = to.form.dtype});
    }
    work.stream.renamed = work.stream.renamed || tensor->name != to.name;
    tensor->name = to.name;
    tensor->dtype = to.form.dtype;
    tensor->shape = to.form.shape;
    return {};
  }

  // A tensor of the result that the source does not have.
  static Result<void> add(RepackWork& work, const QuantMatch& match, const CodePlane& plane) {
    if (!plane.words && !plane.text)
      return no_place("it has nothing that " + quote_name(plane.name) + " could be made of");
    StreamTensor tensor;
    tensor.name = plane.name;
    tensor.dtype = plane.form.dtype;
    tensor.shape = plane.form.shape;
    tensor.source = match.weight;
    tensor.added = true;
    tensor.words = plane.words;
    tensor.literal = plane.text;
    if (plane.text)
      work.texts.push_back(std::move(tensor));
    else
      work.additions[work.at.at(RepackWork::key(match.weight))].push_back(std::move(tensor));
    return {};
  }

  // What only the values show.
  static Result<void> check(RepackWork& work, const QuantFormat& to, const QuantMatch& match,
                            const CodeForm& from, const PackedCodes& packed) {
    const auto find = [&packed](PlaneRole role) -> const CodePlane* {
      for (const CodePlane& plane : packed.planes)
        if (plane.role == role) return &plane;
      return nullptr;
    };
    const CodePlane *index = from.find(PlaneRole::kIndex), *zeros = from.find(PlaneRole::kZeros);
    if (index != nullptr && find(PlaneRole::kIndex) == nullptr) {
      work.stream.checks.push_back(std::make_shared<const PlaneCheck>(
          PlaneCheck{index->tensor, index->form, from.group, 0, std::nullopt,
                     repack_refusal(work, match, to.id, packed.needs_order)}));
    } else if (index != nullptr) {
      work.ordered = work.ordered || may_be_ordered(work, *index, from.group);
    }
    const CodePlane* made = find(PlaneRole::kZeros);
    if (zeros != nullptr && made == nullptr && packed.only_zero)
      work.stream.checks.push_back(std::make_shared<const PlaneCheck>(
          PlaneCheck{zeros->tensor, zeros->form, 0, 0, packed.only_zero,
                     repack_refusal(work, match, to.id, packed.needs_zero)}));
    if (zeros == nullptr || made == nullptr) return {};
    const uint32_t least = std::max(zeros->form.least, made->form.least);
    if (least > 0) {
      const std::string why = made->form.least > 0
                                  ? packed.needs_zero
                                  : "a zero point is " + std::to_string(1u << from.bits) +
                                        ", which has no code of " + std::to_string(from.bits) + " bits";
      work.stream.checks.push_back(std::make_shared<const PlaneCheck>(PlaneCheck{
          zeros->tensor, zeros->form, 0, least, std::nullopt, repack_refusal(work, match, to.id, why)}));
    }
    work.symmetric = work.symmetric && is_symmetric(work, *zeros);
    return {};
  }

  static bool may_be_ordered(RepackWork& work, const CodePlane& index, uint64_t group) {
    const auto bytes = work.stream.values->get(index.tensor);
    if (!bytes) return true;
    for (uint64_t k = 0; k < bytes->size() / 4; ++k)
      if (load_le<uint32_t>(bytes->data() + to_size(k * 4)) != k / group) return true;
    return false;
  }

  static bool is_symmetric(RepackWork& work, const CodePlane& zeros) {
    if (!work.symmetric || work.stream.checkpoint->info(zeros.tensor).bytes() > kHalfOfRange) return false;
    const auto bytes = work.stream.values->get(zeros.tensor);
    if (!bytes) return false;
    const PlaneForm& form = zeros.form;
    std::vector<uint8_t> values(to_size(form.rows * form.columns));
    form.packing->unpack(form, {0, form.rows}, bytes->data(), values.data());
    const uint32_t half = 1u << (form.bits - 1);
    return std::all_of(values.begin(), values.end(), [half](uint8_t value) { return value == half; });
  }

  // Companions that the new layout has no place for.
  static void consume(RepackWork& work, const QuantMatch& match, const PackedCodes& packed,
                      const CodeForm& from) {
    for (const QuantCompanion& companion : match.companions) {
      const bool used = std::any_of(from.planes.begin(), from.planes.end(), [&](const CodePlane& plane) {
        return RepackWork::key(plane.tensor) == RepackWork::key(companion.tensor) &&
               std::any_of(packed.planes.begin(), packed.planes.end(),
                           [&](const CodePlane& made) { return made.role == plane.role; });
      });
      const auto found = work.at.find(RepackWork::key(companion.tensor));
      if (!used && found != work.at.end()) work.consumed.insert(found->second);
    }
  }

  Error nothing_to_repack(const Stream& stream) const {
    std::string found, wanted;
    for (const QuantFinding& finding : stream.layouts->findings)
      found += (found.empty() ? "" : ", ") + std::string(finding.layout);
    for (const QuantFormat* format : quant_formats())
      if (target_of(*format) != nullptr) wanted += (wanted.empty() ? "" : ", ") + std::string(format->id);
    return {.code = ErrorCode::kRefusedMissing,
            .message = "Nothing in the model can be repacked to " + name_ + ": " +
                       (wanted.find(',') == std::string::npos ? "" : "one of ") + wanted +
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
  Result<void> describe(Stream& stream, const RepackWork& work) const {
    const CodeLayout& codes = *targets_.front()->codes;  // all of a family say it alike
    stream.section_goes = codes.describes_itself &&
                          std::all_of(stream.layouts->findings.begin(), stream.layouts->findings.end(),
                                      [this](const QuantFinding& finding) {
                                        const QuantFormat* from = find_quant_format(finding.layout);
                                        return from != nullptr && (target_of(*from) != nullptr ||
                                                                   std::find(targets_.begin(), targets_.end(),
                                                                             from) != targets_.end());
                                      });
    if (codes.config == nullptr) return {};
    std::vector<std::string> plain;
    for (const StreamTensor& tensor : stream.tensors) {
      if (tensor.shape.size() == 2 && ends_with(tensor.name, ".weight") && work.names.count(tensor.name) == 0)
        plain.push_back(tensor.name.substr(0, tensor.name.size() - 7));
    }
    const JsonValue* config = stream.config();
    const PackedModel model{work.modules, plain, work.symmetric, work.ordered};
    Result<std::string> section =
        codes.config(model, config == nullptr ? nullptr : config->find("quantization_config"));
    if (!section) return std::move(section).error();
    stream.quantization_config = *std::move(section);
    return {};
  }

  const QuantFormat* target_of(const QuantFormat& from) const {
    for (const QuantFormat* to : targets_)
      if (can_repack(from, *to)) return to;
    return nullptr;
  }
  bool takes_integers() const {
    return std::any_of(targets_.begin(), targets_.end(),
                       [](const QuantFormat* to) { return to->codes->kind == CodeKind::kInteger; });
  }

  std::string name_;
  std::vector<const QuantFormat*> targets_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_repack(const Operation& operation) {
  const std::string& to = operation.find("to")->front();
  std::vector<const QuantFormat*> targets;
  if (to == "compressed-tensors") {
    for (const QuantFormat* format : quant_formats())
      if (format->id.starts_with("ct-") && format->codes != nullptr && format->codes->pack != nullptr)
        targets.push_back(format);
    return std::unique_ptr<Pipe>(std::make_unique<Repack>(to, std::move(targets)));
  }
  const QuantFormat* format = find_quant_format(to);
  return std::unique_ptr<Pipe>(
      std::make_unique<Repack>(std::string(format->id), std::vector<const QuantFormat*>{format}));
}

std::string repack_obstacle(const Checkpoint& checkpoint) {
  SmallValues values(checkpoint);
  const LayoutReport report = detect_layouts(checkpoint, values);
  for (const QuantFinding& finding : report.findings) {
    const QuantFormat* format = find_quant_format(finding.layout);
    if (format != nullptr && !repack_targets(*format).empty()) return "";
  }
  return "It holds nothing in a layout that can be repacked.";
}

}  // namespace tftf::transform
