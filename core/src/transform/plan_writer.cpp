#include "plan_writer.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "code_bundles.h"
#include "conversion_items.h"
#include "planned_account.h"
#include "recipe_items.h"
#include "result_files.h"
#include "run_results.h"
#include "side_plan.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {
namespace {

// Lanes shorter than this are read together and written at once, where copies would be calls of their own.
constexpr uint64_t kCopiedLane = 256 << 10;

bool is_copied(const Gather& gather) {
  const GatherForm& form = gather.form;
  return gather.is_plain() && form.is_run() &&
         (gather.lanes.size() == 1 || form.rows * form.cols * form.element_bytes >= kCopiedLane);
}

class Writer {
 public:
  Writer(Stream stream, const LayoutReport& layouts, const std::vector<std::string>& header_sha256,
         const TransformRequest& request, const std::string& work)
      : stream_(std::move(stream)),
        layouts_(layouts),
        header_sha256_(header_sha256),
        request_(request),
        builder_(work, PlanOptions{.tile_bytes = request.tile_bytes}),
        tensors_(std::make_shared<std::vector<DeclaredTensor>>()),
        results_(std::make_shared<RunResults>(tensors_)),
        files_(stream_, request),
        conversions_(builder_, request.tile_bytes),
        recipes_(builder_, request.tile_bytes) {}

  Result<Transform> write() {
    TFTF_TRY(check_codes(stream_, request_.examine));
    if (request_.layout.align) files_.align();
    bundles_ = collect_bundles(stream_);
    TFTF_TRY(declare());
    account_ = account_of(stream_, layouts_, request_);
    builder_.hold(stream_.held_bytes);
    if (stream_.placement && stream_.placement->fill != nullptr) {
      stream_.placement->fill(
          builder_, [this](TensorRef ref) { return stored(ref); }, account_);
    } else {
      TFTF_TRY(files_.lay_out(*tensors_, builder_, account_));
      add_phases();
      count_results();
    }
    add_drops();
    if (!request_.examine) TFTF_TRY(add_sides());
    Result<Plan> plan = builder_.build();
    if (!plan) return std::move(plan).error();
    account_.bytes_read = plan->read_bytes();
    account_.bytes_written = plan->written_bytes();
    Transform made{*std::move(plan), std::move(account_), tensors_};
    if (stream_.placement) hand_over(*stream_.placement, made);
    return made;
  }

 private:
  void add_phases() {
    add_first_phase();
    begin_phase(!request_.examine);
    if (request_.examine) {
      for (size_t i = 0; i < stream_.tensors.size(); ++i) add_examination(i);
      return;
    }
    size_t next = 0;
    for (uint32_t f = 0; f < files_.files().size(); ++f) {
      const PlacedFile& file = files_.files()[f];
      if (file.whole) add_whole(f, file);
      for (; next < file.end; ++next) add_tensor(next);
    }
  }

  void hand_over(Placement& placement, Transform& made) const {
    made.notes = std::move(placement.notes);
    made.manifest_name = std::move(placement.manifest_name);
    made.manifest = std::move(placement.manifest);
    for (const auto& [shard, input] : input_of_) {
      const std::string& name = stream_.checkpoint->shard(shard).name;
      (placement.needed.count(shard) == 0 ? made.consumed : made.needed_later).push_back(name);
    }
    std::sort(made.consumed.begin(), made.consumed.end());
    std::sort(made.needed_later.begin(), made.needed_later.end());
  }

  Result<void> declare() {
    for (const StreamTensor& tensor : stream_.tensors) {
      const auto elements = element_count(tensor.shape);
      const auto bytes = elements ? byte_count(*elements, tensor.dtype) : std::nullopt;
      if (!bytes || (tensor.is_copy() && *bytes != stream_.checkpoint->info(tensor.source).bytes())) {
        return Error{.code = ErrorCode::kRefusedShape,
                     .message = "Tensor " + stream_.described(tensor) + " of shape " +
                                shape_text(tensor.shape) + " has no size that fits its data.",
                     .file = stream_.file_of(tensor.source),
                     .tensor = tensor.name};
      }
      tensors_->push_back(
          {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = *bytes});
    }
    return {};
  }

  Extent whole_input(uint32_t number) {
    const auto [at, fresh] = input_of_.emplace(number, 0);
    const Shard& shard = stream_.checkpoint->shard(number);
    if (fresh) {
      at->second = builder_.add_input(
          {.path = shard.name, .size = shard.size, .header_sha256 = header_sha256_[number]});
    }
    return {.file = at->second, .row_bytes = shard.size};
  }

  Extent stored(TensorRef ref) {
    const TensorInfo& info = stream_.checkpoint->info(ref);
    return slice(whole_input(ref.shard),
                 stream_.checkpoint->shard(ref.shard).header.data_offset() + info.begin, info.bytes());
  }

  void begin_phase(bool writes) {
    builder_.begin_phase(writes, false);
    results_->begin_phase();
  }

  void add_divisor_checks() {
    for (const TensorRef ref : stream_.divisors) {
      const TensorInfo& info = stream_.checkpoint->info(ref);
      Item item{.op = &kCheckScaleOp};
      item.in = {stored(ref)};
      item.in_dtype = info.dtype;
      item.units = info.bytes() * 8 / dtype_bits(info.dtype);
      item.units_per_tile = tile_units(request_.tile_bytes, dtype_bits(info.dtype));
      PlanEntry entry{
          .kind = PlanEntry::Kind::kMeasure, .name = info.name, .dtype = info.dtype, .shape = info.shape};
      entry.from = {item.in[0]};
      item.tensor = builder_.add_tensor(std::move(entry));
      builder_.add_item(std::move(item));
      results_->item_of_divisor(info.name, stream_.file_of(ref));
    }
  }

  void add_plane_checks() {
    for (const std::shared_ptr<const PlaneCheck>& check : stream_.checks) {
      const TensorInfo& info = stream_.checkpoint->info(check->tensor);
      Item item = check_item(check, stored(check->tensor), request_.tile_bytes);
      PlanEntry entry{.kind = PlanEntry::Kind::kMeasure,
                      .name = info.name,
                      .dtype = info.dtype,
                      .shape = info.shape,
                      .from = {item.in[0]},
                      .word = std::string(item.op->id)};
      item.tensor = builder_.add_tensor(std::move(entry));
      builder_.add_item(std::move(item));
      results_->item_of_check(check);
    }
  }

  // What has to be known before anything is written: divisors, and what encoders measure.
  void add_first_phase() {
    const auto measures = [](const StreamTensor& tensor) {
      return !tensor.stages.empty() && tensor.stages.back().op->encodes &&
             tensor.stages.back().encoded->encoder->measure != nullptr;
    };
    const auto& tensors = stream_.tensors;
    if (stream_.divisors.empty() && stream_.checks.empty() &&
        std::none_of(tensors.begin(), tensors.end(), measures))
      return;
    begin_phase(false);
    add_divisor_checks();
    add_plane_checks();
    for (const StreamTensor& tensor : tensors) {
      if (!measures(tensor)) continue;
      const uint32_t table = results_->item_of_measure(tensor.stages.back().encoded, tensor.name);
      tables_.emplace(tensor.bundle, table);
      PlanEntry entry{.kind = PlanEntry::Kind::kMeasure,
                      .name = tensor.name,
                      .dtype = tensor.gather != nullptr ? tensor.stages.front().from
                                                        : stream_.checkpoint->info(tensor.source).dtype,
                      .shape = tensor.shape};
      conversions_.add(conversion_of(tensor), std::move(entry), &kMeasureOp, {});
    }
  }

  // What is gathered reads its lanes as they lie, or sends its sources their own way.
  void gather(const StreamTensor& tensor, Conversion& conversion) {
    const Gather& gather = *tensor.gather;
    conversion.gather = tensor.gather;
    conversion.in = tensor.stages.empty() ? tensor.dtype : tensor.stages.front().from;
    conversion.elements = gather.form.elements();
    // What fills no whole bytes is moved in bytes.
    if (dtype_bits(conversion.in) < 8) conversion.in = conversion.out = DType::U8;
    if (!gather.is_plain()) {
      for (const GatherSource& source : gather.sources) {
        if (source.way != nullptr) {
          conversion.ways.push_back(conversion_of(*source.way));
        } else {
          conversion.ways.push_back({.name = tensor.name, .stages = no_stages_});
          Conversion& way = conversion.ways.back();
          const TensorInfo& info = stream_.checkpoint->info(source.ref);
          way.in = way.out = info.dtype;
          way.from = {stored(source.ref)};
          way.elements = info.bytes() * 8 / dtype_bits(info.dtype);
        }
      }
      return;
    }
    const uint64_t size = gather.form.element_bytes;
    for (const GatherLane& lane : gather.lanes)
      conversion.from.push_back(
          slice(stored(gather.sources[lane.source].ref), lane.base * size, gather.form.span() * size));
  }

  Conversion conversion_of(const StreamTensor& tensor) {
    if (tensor.gather != nullptr) {
      Conversion conversion{.name = tensor.name, .stages = tensor.stages};
      conversion.out = tensor.dtype;
      gather(tensor, conversion);
      if (const auto table = tables_.find(tensor.bundle); tensor.bundle != 0 && table != tables_.end())
        conversion.table = table->second;
      return conversion;
    }
    const TensorInfo& info = stream_.checkpoint->info(tensor.source);
    Conversion conversion{.name = tensor.name, .stages = tensor.stages, .provided = tensor.provided};
    conversion.in = tensor.provided != nullptr ? tensor.provided->dtype : info.dtype;
    conversion.out = tensor.dtype;
    if (tensor.provided == nullptr) conversion.from = {stored(tensor.source)};
    const bool decodes = !tensor.stages.empty() && tensor.stages.front().op->decodes;
    if (decodes) {
      const Weight& weight = *tensor.stages.front().weight;
      conversion.from.clear();
      for (const WeightPart& part : weight.parts) conversion.from.push_back(stored(part.tensor));
      conversion.elements = weight.elements;
    } else {
      const uint64_t bytes = tensor.provided != nullptr ? tensor.provided->bytes.size() : info.bytes();
      conversion.elements = bytes * 8 / dtype_bits(conversion.in);
    }
    if (const auto table = tables_.find(tensor.bundle); tensor.bundle != 0 && table != tables_.end())
      conversion.table = table->second;
    return conversion;
  }

  void add_tensor(size_t i) {
    const StreamTensor& tensor = stream_.tensors[i];
    if (tensor.output > 0) return;  // an `also` of the tensor with the stages
    PlanEntry entry{
        .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .to = files_.range_of(i)};
    if (tensor.literal) {
      entry.bytes = *tensor.literal;
      builder_.add_literal(std::move(entry));
      return;
    }
    if (tensor.measured) {
      Item item{.op = &kTableOp};
      item.units = 1;
      item.out = {files_.range_of(i)};
      item.arg[2] = tables_.at(tensor.bundle);
      item.arg[3] = *tensor.measured;
      item.tensor = builder_.add_tensor(std::move(entry));
      builder_.add_item(std::move(item));
      results_->item_of_nobody();
      return;
    }
    if (tensor.recipe != nullptr) return add_recipe(tensor, std::move(entry));
    if (tensor.plane != nullptr || tensor.words) {
      Item item =
          tensor.plane != nullptr
              ? plane_item(tensor.plane, stored(tensor.source), files_.range_of(i), request_.tile_bytes)
              : words_item(*tensor.words, files_.range_of(i), request_.tile_bytes);
      entry.from = item.in;
      entry.word = tensor.plane != nullptr ? tensor.plane->word : item.op->id;
      item.tensor = builder_.add_tensor(std::move(entry));
      builder_.add_item(std::move(item));
      results_->item_of_nobody();
      return;
    }
    if (tensor.is_copy()) {
      if (tensor.provided == nullptr) entry.from = {stored(tensor.source)};
      builder_.add_copy(std::move(entry));
      return;
    }
    if (tensor.stages.empty() && is_copied(*tensor.gather)) {
      Conversion conversion{.name = tensor.name, .stages = tensor.stages};
      gather(tensor, conversion);
      entry.from = std::move(conversion.from);
      builder_.add_copy(std::move(entry));
      return;
    }
    std::vector<Extent> outputs{files_.range_of(i)};
    std::vector<PlanEntry> also;
    if (tensor.bundle != 0) {
      for (const size_t member : bundles_[tensor.bundle]) {
        if (member == i) continue;
        outputs.push_back(files_.range_of(member));
        const DeclaredTensor& made = (*tensors_)[member];
        also.push_back({.kind = PlanEntry::Kind::kAlso,
                        .name = made.name,
                        .dtype = made.dtype,
                        .shape = made.shape,
                        .to = files_.range_of(member)});
      }
      (*tensors_)[i].quantised_to = tensor.stages.back().op->word(tensor.stages.back());
      (*tensors_)[i].unfit = tensor.stages.back().encoded->unfit;
    }
    const size_t items = conversions_.add(conversion_of(tensor), std::move(entry), &kConvertOp,
                                          std::move(outputs), std::move(also));
    for (size_t n = 0; n < items; ++n) results_->item_of_tensor(static_cast<uint32_t>(i));
  }

  void add_recipe(const StreamTensor& tensor, PlanEntry entry) {
    if (const auto runs = runs_of_recipe(*tensor.recipe)) {
      for (const StoredRun& run : *runs)
        entry.from.push_back(slice(stored(run.tensor), run.begin, run.bytes));
      builder_.add_copy(std::move(entry));
      return;
    }
    for (const TensorRef ref : recipe_sources(*tensor.recipe)) entry.with.push_back(stored(ref));
    Item item = recipes_.item(tensor.recipe, entry.with, entry.to);
    entry.word = item.op->id;
    item.tensor = builder_.add_tensor(std::move(entry));
    builder_.add_item(std::move(item));
    results_->item_of_nobody();
  }

  void add_whole(uint32_t f, const PlacedFile& file) {
    const Extent from = whole_input(*file.whole);
    PlanEntry entry{.name = file.name, .dtype = DType::U8, .shape = {from.row_bytes}};
    entry.to = {.file = f, .row_bytes = from.row_bytes};
    entry.from = {from};
    builder_.add_copy(std::move(entry));
  }

  void add_examination(size_t i) {
    const StreamTensor& tensor = stream_.tensors[i];
    PlanEntry entry{
        .kind = PlanEntry::Kind::kMeasure, .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    const size_t items = conversions_.add(conversion_of(tensor), std::move(entry), &kExamineOp, {});
    for (size_t n = 0; n < items; ++n) results_->item_of_tensor(static_cast<uint32_t>(i));
  }

  void add_drops() {
    for (const Dropped& drop : stream_.dropped) {
      builder_.add_note({.kind = PlanEntry::Kind::kDrop, .name = drop.name, .word = drop.reason});
    }
  }

  Result<void> add_sides() {
    if (stream_.placement) {
      for (const std::string& name : stream_.placement->sides) builder_.add_side({.name = name});
      for (const auto& [name, text] : stream_.placement->made_sides)
        builder_.add_side({.name = name, .copied = false, .bytes = text});
      return {};
    }
    Result<SidePlan> sides = plan_sides(stream_, account_.left_quantised, request_);
    if (!sides) return std::move(sides).error();
    account_.config = std::move(sides->changes);
    account_.config_written = !request_.layout.single_file;
    for (std::string& warning : sides->warnings) account_.warnings.push_back(std::move(warning));
    for (SideOutput& side : sides->files) builder_.add_side(std::move(side));
    if (request_.layout.single_file || files_.names().one_file) return {};
    std::vector<std::pair<std::string_view, std::string_view>> map;
    map.reserve(tensors_->size());
    uint64_t total = 0;
    for (size_t i = 0; i < tensors_->size(); ++i) {
      map.emplace_back((*tensors_)[i].name, account_.files[files_.file_of(i)].name);
      total += (*tensors_)[i].bytes;
    }
    const ShardIndex* old = stream_.checkpoint->index ? &*stream_.checkpoint->index : nullptr;
    builder_.add_side({.name = files_.names().index(),
                       .copied = false,
                       .bytes = index_text(old, total, map),
                       .is_index = true});
    return {};
  }

  void count_results() {
    builder_.on_finish(PlanBuilder::Finish(
        [results = results_](size_t phase, std::span<const Value> values, Tables& tables) {
          return results->finish(phase, values, tables);
        }));
  }

  Stream stream_;
  const LayoutReport& layouts_;
  const std::vector<std::string>& header_sha256_;
  const TransformRequest& request_;
  PlanBuilder builder_;
  Account account_;
  std::shared_ptr<std::vector<DeclaredTensor>> tensors_;
  std::shared_ptr<RunResults> results_;
  ResultFiles files_;
  ConversionItems conversions_;
  RecipeItems recipes_;
  CodeBundles bundles_;
  std::map<uint32_t, uint32_t> input_of_;  // shard to input
  std::map<uint32_t, uint32_t> tables_;    // of what is measured, by bundle
  const std::vector<Stage> no_stages_{};
};

}  // namespace

Result<Transform> write_plan(Stream stream, const LayoutReport& layouts,
                             const std::vector<std::string>& header_sha256, const TransformRequest& request,
                             const std::string& work) {
  return Writer(std::move(stream), layouts, header_sha256, request, work).write();
}

}  // namespace tftf::transform
