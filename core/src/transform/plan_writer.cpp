#include "plan_writer.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "side_plan.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {
namespace {

// What the run counts, by phase and item: which tensor of the result, or which divisor, a Value is about.
struct Owners {
  std::vector<std::vector<uint32_t>> by_phase;
};

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
        owners_(std::make_shared<Owners>()) {}

  Result<Transform> write() {
    TFTF_TRY(check_codes());
    if (request_.layout.align) align();
    collect_bundles();
    TFTF_TRY(declare());
    fill_account();
    builder_.hold(stream_.held_bytes);
    TFTF_TRY(lay_out());
    add_divisor_checks();
    if (request_.examine) {
      begin_phase(false);
      for (size_t i = 0; i < stream_.tensors.size(); ++i) add_examination(i);
    } else {
      begin_phase(true);
      for (size_t i = 0; i < stream_.tensors.size(); ++i) add_tensor(i);
    }
    add_drops();
    if (!request_.examine) TFTF_TRY(add_sides());
    count_results();
    Result<Plan> plan = builder_.build();
    if (!plan) return std::move(plan).error();
    account_.bytes_read = plan->read_bytes();
    account_.bytes_written = plan->written_bytes();
    return Transform{*std::move(plan), std::move(account_), tensors_};
  }

 private:
  bool is_sharded_input() const { return stream_.checkpoint->index || stream_.checkpoint->shards.size() > 1; }

  // Codes are final: nothing is done with them after they were made, and they stay together.
  Result<void> check_codes() const {
    std::map<uint32_t, uint32_t> outputs;  // by bundle
    for (const StreamTensor& tensor : stream_.tensors) {
      const auto stray = std::find_if(tensor.stages.begin(), tensor.stages.end(),
                                      [](const Stage& stage) { return stage.op->encodes; });
      const bool changed = stray != tensor.stages.end()
                               ? stray + 1 != tensor.stages.end()
                               : (tensor.output > 0 || tensor.literal) && !tensor.stages.empty();
      if (changed || (request_.examine && tensor.bundle != 0)) {
        return Error{.code = ErrorCode::kRefusedUnsupported,
                     .message = "Tensor " + stream_.described(tensor) +
                                (changed ? " would be changed after it was quantised; quantising comes last."
                                         : " would be quantised, and its values are not examined then."),
                     .file = stream_.file_of(tensor.source),
                     .tensor = tensor.name};
      }
      if (tensor.bundle != 0 && !tensor.literal) ++outputs[tensor.bundle];
    }
    for (const StreamTensor& tensor : stream_.tensors) {
      if (tensor.bundle == 0 || tensor.literal || outputs[tensor.bundle] == tensor.outputs) continue;
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Of tensor " + stream_.described(tensor) +
                              " codes or scales would be left out after it was quantised.",
                   .file = stream_.file_of(tensor.source),
                   .tensor = tensor.name};
    }
    return {};
  }

  void collect_bundles() {
    for (size_t i = 0; i < stream_.tensors.size(); ++i) {
      const StreamTensor& tensor = stream_.tensors[i];
      if (tensor.bundle == 0 || tensor.literal) continue;
      std::vector<size_t>& members = bundles_[tensor.bundle];
      members.resize(std::max<size_t>(members.size(), tensor.output + size_t{1}));
      members[tensor.output] = i;
    }
  }

  // Shards are packed in reading order, and ordered inside.
  void align() {
    std::vector<uint64_t> bytes;
    for (const StreamTensor& tensor : stream_.tensors) {
      const auto elements = element_count(tensor.shape);
      bytes.push_back(elements ? byte_count(*elements, tensor.dtype).value_or(0) : 0);
    }
    starts_ = starts(bytes);
    for (size_t s = 0; s < starts_.size(); ++s) {
      const auto first = stream_.tensors.begin() + static_cast<ptrdiff_t>(starts_[s]);
      const auto end = s + 1 < starts_.size()
                           ? stream_.tensors.begin() + static_cast<ptrdiff_t>(starts_[s + 1])
                           : stream_.tensors.end();
      std::sort(first, end, [](const StreamTensor& a, const StreamTensor& b) {
        const uint32_t rank_a = dtype_info(a.dtype).rank, rank_b = dtype_info(b.dtype).rank;
        return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
      });
    }
  }

  std::vector<size_t> starts(const std::vector<uint64_t>& bytes) const {
    if (request_.layout.single_file) return {0};
    return pack_shards(bytes, request_.layout.max_shard_size);
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

  void fill_account() {
    account_.command = request_.command;
    account_.input = request_.input;
    account_.output = request_.output;
    account_.dry_run = request_.dry_run;
    account_.tensors_in = stream_.checkpoint->order.size() + stream_.checkpoint->unlisted.size();
    account_.tensors_out = stream_.tensors.size();
    for (const StreamTensor& tensor : stream_.tensors)
      ++(tensor.is_copy() ? account_.copied : account_.changed);
    for (const Dropped& drop : stream_.dropped) {
      auto group = std::find_if(account_.dropped.begin(), account_.dropped.end(),
                                [&](const Account::Dropped& d) { return d.reason == drop.reason; });
      if (group == account_.dropped.end()) group = account_.dropped.insert(group, {drop.reason, {}});
      group->names.push_back(drop.name);
    }
    for (const QuantFinding& finding : layouts_.findings) {
      account_.layouts.push_back({std::string(finding.layout), finding.matches.size(), finding.evidence});
    }
    count_left_quantised();
    account_.merges = stream_.merges;
    account_.warnings = stream_.warnings;
  }

  // Modules whose codes are in the result as they were, and those whose codes a cast has taken for numbers.
  void count_left_quantised() {
    std::unordered_map<uint64_t, const StreamTensor*> by_source;
    const auto key = [](TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; };
    for (const StreamTensor& tensor : stream_.tensors) {
      if (tensor.output == 0 && !tensor.literal) by_source.emplace(key(tensor.source), &tensor);
    }
    for (const QuantFinding& finding : layouts_.findings) {
      uint64_t cast = 0;
      for (const QuantMatch& match : finding.matches) {
        const auto at = by_source.find(key(match.weight));
        if (at == by_source.end()) continue;
        const std::vector<Stage>& stages = at->second->stages;
        if (stages.empty()) {
          ++account_.left_quantised;
        } else if (stages[0].op == &kCastStage && !is_fp8(stages[0].from)) {
          ++cast;
        }
      }
      if (cast > 0) {
        stream_.warnings.push_back("The codes of " + grouped_digits(cast) + " module" +
                                   (cast == 1 ? "" : "s") + " of layout " + std::string(finding.layout) +
                                   " were cast like numbers; --cast-floats-only leaves them alone.");
      }
    }
    if (stream_.dequantises && account_.left_quantised > 0) {
      stream_.warnings.push_back(grouped_digits(account_.left_quantised) + " module" +
                                 (account_.left_quantised == 1 ? " stays" : "s stay") +
                                 " quantised, and so does the quantisation section of config.json.");
    }
  }

  // Outputs with their headers, and where each tensor goes.
  Result<void> lay_out() {
    std::vector<uint64_t> bytes;
    for (const DeclaredTensor& tensor : *tensors_) bytes.push_back(tensor.bytes);
    if (!request_.layout.align) starts_ = starts(bytes);
    const bool changed = account_.changed > 0 || !stream_.dropped.empty() || stream_.renamed;
    const Metadata metadata = metadata_of_result(changed);
    to_.resize(tensors_->size());
    shard_of_.resize(tensors_->size());
    for (size_t s = 0; s < starts_.size(); ++s) {
      const size_t first = starts_[s], end = s + 1 < starts_.size() ? starts_[s + 1] : tensors_->size();
      std::vector<OutputEntry> entries;
      for (size_t i = first; i < end; ++i) {
        const DeclaredTensor& tensor = (*tensors_)[i];
        entries.push_back({tensor.name, tensor.dtype, tensor.shape});
      }
      std::vector<uint64_t> begins;
      Result<std::string> header = write_header(entries, metadata, HeaderForm::kTftf, &begins);
      if (!header) return std::move(header).error();
      const uint64_t size = header->size() + begins.back();
      const std::string name =
          request_.layout.single_file ? request_.layout.single_name : shard_name(s, starts_.size());
      for (size_t i = first; i < end; ++i) {
        shard_of_[i] = static_cast<uint32_t>(s);
        to_[i] = {.file = static_cast<uint32_t>(s),
                  .offset = header->size() + begins[i - first],
                  .row_bytes = (*tensors_)[i].bytes};
      }
      account_.files.push_back({name, end - first, size});
      if (request_.examine) continue;
      builder_.add_output({.name = name, .size = size}, *std::move(header));
    }
    return check_names();
  }

  Metadata metadata_of_result(bool changed) const {
    Metadata metadata =
        output_metadata(*stream_.checkpoint, is_sharded_input() || stream_.adds_format, changed);
    for (const auto& [key, value] : stream_.metadata) {
      const auto at = std::find_if(metadata.begin(), metadata.end(),
                                   [&key = key](const auto& member) { return member.first == key; });
      if (value.empty()) {
        if (at != metadata.end()) metadata.erase(at);
      } else if (at != metadata.end()) {
        at->second = value;
      } else {
        metadata.emplace_back(key, value);
      }
    }
    return metadata;
  }

  // Every shard's header is checked for equal names by write_header(); across shards it is done here.
  Result<void> check_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(tensors_->size());
    for (const DeclaredTensor& tensor : *tensors_) {
      if (names.insert(tensor.name).second) continue;
      return Error{.code = ErrorCode::kRefusedCollision,
                   .message = "Tensor " + quote_name(tensor.name) + " would be written twice.",
                   .tensor = tensor.name};
    }
    return {};
  }

  Extent stored(TensorRef ref) {
    const auto [at, fresh] = input_of_.emplace(ref.shard, 0);
    const Shard& shard = stream_.checkpoint->shards[ref.shard];
    if (fresh) {
      at->second = builder_.add_input(
          {.path = shard.name, .size = shard.size, .header_sha256 = header_sha256_[ref.shard]});
    }
    const TensorInfo& info = stream_.checkpoint->info(ref);
    return {.file = at->second, .offset = shard.header.data_offset() + info.begin, .row_bytes = info.bytes()};
  }

  void begin_phase(bool writes) {
    builder_.begin_phase(writes, false);
    owners_->by_phase.emplace_back();
  }

  void add_divisor_checks() {
    if (stream_.divisors.empty()) return;
    begin_phase(false);
    for (uint32_t d = 0; d < stream_.divisors.size(); ++d) {
      const TensorInfo& info = stream_.checkpoint->info(stream_.divisors[d]);
      Item item{.op = &kCheckScaleOp};
      item.in[0] = stored(stream_.divisors[d]);
      item.in_count = 1;
      item.in_dtype = info.dtype;
      item.units = info.bytes() * 8 / dtype_bits(info.dtype);
      item.units_per_tile = tile_units(request_.tile_bytes, dtype_bits(info.dtype));
      PlanEntry entry{
          .kind = PlanEntry::Kind::kMeasure, .name = info.name, .dtype = info.dtype, .shape = info.shape};
      entry.from = {item.in[0]};
      item.tensor = builder_.add_tensor(std::move(entry));
      builder_.add_item(std::move(item));
      owners_->by_phase.back().push_back(d);
    }
  }

  void add_tensor(size_t i) {
    const StreamTensor& tensor = stream_.tensors[i];
    if (tensor.output > 0) return;  // an `also` of the tensor with the stages
    PlanEntry entry{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .to = to_[i]};
    if (tensor.literal) {
      entry.bytes = *tensor.literal;
      builder_.add_literal(std::move(entry));
      return;
    }
    if (tensor.provided == nullptr) entry.from = {stored(tensor.source)};
    if (tensor.stages.empty()) {
      builder_.add_copy(std::move(entry));
    } else {
      add_conversion(i, std::move(entry), &kConvertOp);
    }
  }

  void add_examination(size_t i) {
    const StreamTensor& tensor = stream_.tensors[i];
    PlanEntry entry{
        .kind = PlanEntry::Kind::kMeasure, .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    if (tensor.provided == nullptr) entry.from = {stored(tensor.source)};
    add_conversion(i, std::move(entry), &kExamineOp);
  }

  void add_conversion(size_t i, PlanEntry entry, const TileOp* op) {
    const StreamTensor& tensor = stream_.tensors[i];
    const TensorInfo& info = stream_.checkpoint->info(tensor.source);
    const bool provided = tensor.provided != nullptr;
    const DType in = provided ? tensor.provided->dtype : info.dtype;
    const std::shared_ptr<const Chain> chain = shared_chain(in, tensor);
    std::vector<Extent> companions;
    // Parts that have a scale grid or an expert's factors of their own are items of their own.
    uint64_t parts = 1, matrices = 1;
    bool scaled = false;
    for (const Stage& stage : tensor.stages) {
      parts = std::max(parts, stage.geometry.matrices);
      scaled = scaled || !stage.companions.empty();
      if (stage.merge != nullptr) matrices = std::max(matrices, stage.merge->matrices);
      for (const TensorRef ref : stage.companions) companions.push_back(stored(ref));
    }
    if (!scaled) parts = std::max(parts, matrices);
    entry.with = companions;
    entry.word = chain->word();
    if (entry.word.empty()) entry.word = op->id;
    const uint64_t elements =
        chain->decodes() ? tensor.stages.front().elements
                         : (provided ? tensor.provided->bytes.size() : info.bytes()) * 8 / dtype_bits(in);
    const Extent whole = provided ? Extent{} : entry.from[0];
    const uint32_t index = builder_.add_tensor(std::move(entry));
    std::vector<Extent> outputs{to_[i]};
    if (tensor.bundle != 0) {
      for (const size_t member : bundles_[tensor.bundle]) {
        if (member == i) continue;
        outputs.push_back(to_[member]);
        const DeclaredTensor& also = (*tensors_)[member];
        builder_.add_note({.kind = PlanEntry::Kind::kAlso,
                           .name = also.name,
                           .dtype = also.dtype,
                           .shape = also.shape,
                           .to = to_[member]});
      }
      (*tensors_)[i].quantised_to = chain->stages.back().op->word(chain->stages.back());
    }
    for (uint64_t part = 0; elements > 0 && part < parts; ++part) {
      Item item{.op = op, .in_dtype = chain->in, .out_dtype = chain->out, .tensor = index, .context = chain};
      const auto cut = [part, parts](const Extent& extent) {
        return slice(extent, extent.row_bytes / parts * part, extent.row_bytes / parts);
      };
      item.units = elements / parts;
      item.units_per_tile = chain->units_per_tile(request_.tile_bytes);
      item.in[0] = cut(whole);
      item.in_count = provided ? 0 : 1;
      for (const Extent& companion : companions) item.in[item.in_count++] = cut(companion);
      if (op == &kConvertOp) {
        for (const Extent& output : outputs) item.out[item.out_count++] = cut(output);
      }
      item.arg[1] = std::max<uint64_t>(1, matrices / parts);
      item.arg[0] = part * item.arg[1];
      add_resident(item, chain);
      add_gatherings(item, *chain);
      builder_.add_item(std::move(item));
      owners_->by_phase.back().push_back(static_cast<uint32_t>(i));
    }
  }

  // What the stages of an item need ready: factors of adapters.
  struct ReadyContext {
    std::shared_ptr<const Chain> chain;
    uint64_t first_matrix = 0, matrices = 1;
  };
  void add_resident(Item& item, const std::shared_ptr<const Chain>& chain) {
    const uint64_t bytes = chain->ready_bytes(item.arg[1]);
    if (bytes == 0) return;
    Resident resident;
    resident.ready_bytes = bytes;
    resident.context = std::make_shared<const ReadyContext>(ReadyContext{chain, item.arg[0], item.arg[1]});
    resident.prepare = [](Bytes, std::span<std::byte> ready, const void* context) noexcept {
      const auto& c = *static_cast<const ReadyContext*>(context);
      c.chain->prepare(c.first_matrix, c.matrices, ready.data());
    };
    item.residents[0] = builder_.add_resident(std::move(resident));
    item.resident_count = 1;
  }

  // What stages have to know of the whole item first: norms of columns.
  void add_gatherings(Item& item, const Chain& chain) {
    for (const size_t stage : chain.gatherings()) {
      auto first = std::make_shared<Chain>();
      first->stages.assign(chain.stages.begin(), chain.stages.begin() + static_cast<ptrdiff_t>(stage) + 1);
      first->in = chain.in;
      first->out = chain.stages[stage].to;
      first->provided = chain.provided;
      auto gather = std::make_shared<Item>(item);
      gather->op = &kGatherOp;
      gather->out_count = 0;
      gather->out_dtype = first->out;
      gather->units_per_tile = first->units_per_tile(request_.tile_bytes);
      gather->context = std::move(first);
      Resident resident;
      resident.ready_bytes = chain.stages[stage].op->gathered_bytes(chain.stages[stage], item.arg[1]);
      resident.gather = std::move(gather);
      item.residents[item.resident_count++] = builder_.add_resident(std::move(resident));
    }
  }

  // Tensors with equal ways share one object: there may be a hundred thousand of them.
  std::shared_ptr<const Chain> shared_chain(DType in, const StreamTensor& tensor) {
    std::string key(dtype_name(in));
    if (tensor.provided != nullptr) key += " saved " + tensor.name;
    for (const Stage& stage : tensor.stages) {
      const Fp8Geometry& g = stage.geometry;
      key += ' ' + stage.op->word(stage) + ' ' + std::string(dtype_name(stage.to)) + ' ' +
             std::string(dtype_name(stage.scale_dtype)) + ' ' + stage.codec_key;
      // A merge is one tensor's own.
      if (stage.merge != nullptr) key += ' ' + tensor.name;
      for (const uint64_t n :
           {g.matrices, g.rows, g.cols, g.block_rows, g.block_cols, g.row_stride, g.col_stride}) {
        key += ' ' + std::to_string(n);
      }
    }
    std::shared_ptr<const Chain>& chain = chains_[key];
    if (chain == nullptr) {
      auto fresh = std::make_shared<Chain>(Chain{tensor.stages, in, tensor.dtype, tensor.provided});
      for (Stage& stage : fresh->stages) {  // the items have these
        stage.companions.clear();
        stage.elements = 0;
      }
      chain = fresh;
    }
    return chain;
  }

  void add_drops() {
    for (const Dropped& drop : stream_.dropped) {
      builder_.add_note({.kind = PlanEntry::Kind::kDrop, .name = drop.name, .word = drop.reason});
    }
  }

  Result<void> add_sides() {
    Result<SidePlan> sides = plan_sides(stream_, account_.left_quantised, request_);
    if (!sides) return std::move(sides).error();
    account_.config = std::move(sides->changes);
    account_.config_written = !request_.layout.single_file;
    for (std::string& warning : sides->warnings) account_.warnings.push_back(std::move(warning));
    for (SideOutput& side : sides->files) builder_.add_side(std::move(side));
    if (request_.layout.single_file) return {};
    std::vector<std::pair<std::string, std::string>> map;
    uint64_t total = 0;
    for (size_t i = 0; i < tensors_->size(); ++i) {
      map.emplace_back((*tensors_)[i].name, account_.files[shard_of_[i]].name);
      total += (*tensors_)[i].bytes;
    }
    const ShardIndex* old = stream_.checkpoint->index ? &*stream_.checkpoint->index : nullptr;
    builder_.add_side({.name = std::string(kIndexName),
                       .copied = false,
                       .bytes = index_text(old, total, map),
                       .is_index = true});
    return {};
  }

  // Counts of the run go to the tensors; a divisor that cannot divide ends it.
  void count_results() {
    std::vector<std::pair<std::string, std::string>> divisors;  // name, file
    for (const TensorRef ref : stream_.divisors) {
      divisors.emplace_back(stream_.checkpoint->info(ref).name, stream_.file_of(ref));
    }
    const size_t main_phase = divisors.empty() ? 0 : 1;
    builder_.on_finish(
        PlanBuilder::Finish([tensors = tensors_, owners = owners_, divisors, main_phase](
                                size_t phase, std::span<const Value> values, Tables&) -> Result<void> {
          const DeclaredTensor* spoilt = nullptr;
          uint64_t spoilt_values = 0;
          for (size_t i = 0; i < values.size(); ++i) {
            const uint32_t owner = owners->by_phase[phase][i];
            const Value& value = values[i];
            if (phase < main_phase) {
              if (value.n[0] + value.n[1] > 0) return bad_divisor(divisors[owner], value);
              continue;
            }
            DeclaredTensor& tensor = (*tensors)[owner];
            tensor.became_infinite += value.n[0];
            tensor.nan += value.n[1];
            tensor.infinite += value.n[2];
            tensor.norm_clamped = tensor.norm_clamped || value.x[0] > 0;
            if (value.x[1] > 0) return broken_codes(tensor);
            if (value.n[3] > 0 && spoilt == nullptr) {
              spoilt = &tensor;
              spoilt_values = value.n[3];
            }
          }
          if (spoilt != nullptr) return not_finite(*spoilt, spoilt_values);
          return {};
        }));
  }

  static Error broken_codes(const DeclaredTensor& tensor) {
    return {.code = ErrorCode::kRefusedInput,
            .message = "The codes that tensor " + quote_name(tensor.name) +
                       " is made of are broken; tftf lint --data and tftf colibri rans-verify say where.",
            .tensor = tensor.name};
  }

  static Error not_finite(const DeclaredTensor& tensor, uint64_t values) {
    if (!tensor.quantised_to.empty()) {
      return {.code = ErrorCode::kRefusedValues,
              .message = "Tensor " + quote_name(tensor.name) + " holds " + grouped_digits(values) + " value" +
                         (values == 1 ? "" : "s") + " that " + (values == 1 ? "is" : "are") +
                         " NaN, infinite or too large to be quantised (" + tensor.quantised_to + ").",
              .tensor = tensor.name};
    }
    return {.code = ErrorCode::kRefusedValues,
            .message = "Merging makes " + grouped_digits(values) + " finite value" +
                       (values == 1 ? "" : "s") + " of tensor " + quote_name(tensor.name) +
                       " infinite or NaN; --allow-nonfinite writes them.",
            .tensor = tensor.name};
  }

  static Error bad_divisor(const std::pair<std::string, std::string>& divisor, const Value& value) {
    return {.code = ErrorCode::kRefusedValues,
            .message = "Tensor " + quote_name(divisor.first) + " of " + quote_name(divisor.second) +
                       " is a divisor and holds " + grouped_digits(value.n[0]) + " zeros and " +
                       grouped_digits(value.n[1]) + " values that are not finite.",
            .file = divisor.second,
            .tensor = divisor.first};
  }

  Stream stream_;
  const LayoutReport& layouts_;
  const std::vector<std::string>& header_sha256_;
  const TransformRequest& request_;
  PlanBuilder builder_;
  Account account_;
  std::shared_ptr<std::vector<DeclaredTensor>> tensors_;
  std::shared_ptr<Owners> owners_;
  std::vector<size_t> starts_;                       // first tensor of each output
  std::vector<Extent> to_;                           // by tensor
  std::map<uint32_t, std::vector<size_t>> bundles_;  // tensors of each, by output
  std::vector<uint32_t> shard_of_;                   // by tensor, of the result
  std::map<uint32_t, uint32_t> input_of_;            // shard to input
  std::unordered_map<std::string, std::shared_ptr<const Chain>> chains_;
};

}  // namespace

Result<Transform> write_plan(Stream stream, const LayoutReport& layouts,
                             const std::vector<std::string>& header_sha256, const TransformRequest& request,
                             const std::string& work) {
  return Writer(std::move(stream), layouts, header_sha256, request, work).write();
}

}  // namespace tftf::transform
