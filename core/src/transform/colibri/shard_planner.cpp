#include "transform/colibri/shard_planner.h"

#include <algorithm>
#include <set>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/quant/registry.h"
#include "tftf/transform/output_layout.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kOwnKeys = "colibri.";

// One of the things that fill an output.
struct Piece {
  enum class Kind : uint8_t { kCopy, kLiteral, kSteps };
  Kind kind = Kind::kCopy;
  MadeTensors made;   // of kCopy and kLiteral one tensor
  std::string bytes;  // kLiteral
};

struct PlannedShard {
  uint32_t source = 0;
  std::string name;
  std::vector<Piece> pieces;
  std::map<std::string, std::string, std::less<>> stamps;
  std::optional<Metadata> metadata;  // the tool's own
  bool whole_file = false;
};

}  // namespace

std::string numbered_name(std::string_view prefix, uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(prefix) + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits +
         ".safetensors";
}

Metadata shard_metadata(const Metadata& input, const Metadata& own) {
  Metadata all = own;
  for (const auto& [key, value] : input)
    if (!key.starts_with(kOwnKeys) && !is_data_hash_key(key)) all.emplace_back(key, value);
  std::sort(all.begin(), all.end());
  return all;
}

struct ShardPlanner::State {
  const FolderContext context;
  PlanBuilder builder;
  std::vector<PlannedShard> shards;
  std::optional<PlannedShard> open;
  std::set<std::string> declared;
  std::vector<std::pair<std::string, std::string>> dropped;  // name, reason
  std::vector<SideOutput> sides;
  Account account;
  std::vector<std::string> notes;
  std::unordered_map<uint32_t, uint32_t> input_of;  // shard to input
  // By item of the writing phase.
  std::shared_ptr<std::vector<std::function<Result<void>(const Value&)>>> checks =
      std::make_shared<std::vector<std::function<Result<void>(const Value&)>>>();
  bool checked = false;

  State(const FolderContext& c, std::string work)
      : context(c), builder(std::move(work), PlanOptions{.tile_bytes = c.request.tile_bytes}) {}

  Extent whole_input(uint32_t shard) {
    const auto [at, fresh] = input_of.emplace(shard, 0);
    const Shard& file = context.source.shard(shard);
    if (fresh) {
      at->second = builder.add_input(
          {.path = file.name, .size = file.size, .header_sha256 = context.header_sha256[shard]});
    }
    return {.file = at->second, .row_bytes = file.size};
  }

  Extent stored(TensorRef ref) {
    const TensorInfo& tensor = context.source.info(ref);
    return slice(whole_input(ref.shard), context.source.shard(ref.shard).header.data_offset() + tensor.begin,
                 tensor.bytes());
  }

  Metadata metadata_of(const PlannedShard& shard) const {
    if (shard.metadata) return *shard.metadata;
    Metadata own;
    if (!declared.empty())
      own.emplace_back(kDeclarationKey, declaration_text({declared.begin(), declared.end()}));
    if (!shard.stamps.empty()) own.emplace_back(kStampKey, stamp_text(shard.stamps));
    return shard_metadata(context.source.shard(shard.source).header.metadata, own);
  }

  Result<void> lay_out(const PlannedShard& shard) {
    std::vector<OutputEntry> entries;
    for (const Piece& piece : shard.pieces)
      entries.insert(entries.end(), piece.made.tensors.begin(), piece.made.tensors.end());
    sort_in_reference_order(entries);
    std::vector<uint64_t> begins;
    Result<std::string> header = write_header(entries, metadata_of(shard), HeaderForm::kReference, &begins);
    if (!header) return std::move(header).error();
    const uint64_t header_bytes = header->size();
    const uint64_t size = header_bytes + begins.back();
    const uint32_t file = builder.add_output({.name = shard.name, .size = size}, *std::move(header));
    std::unordered_map<std::string_view, Extent> place;
    for (size_t i = 0; i < entries.size(); ++i) {
      place[entries[i].name] = {
          .file = file, .offset = header_bytes + begins[i], .row_bytes = begins[i + 1] - begins[i]};
    }
    for (const Piece& piece : shard.pieces) add_piece(piece, place);
    account.files.push_back({shard.name, entries.size(), size});
    account.tensors_out += entries.size();
    return {};
  }

  void add_piece(const Piece& piece, const std::unordered_map<std::string_view, Extent>& place) {
    const MadeTensors& made = piece.made;
    std::vector<Extent> from, to;
    for (const TensorRef ref : made.from) from.push_back(stored(ref));
    for (const OutputEntry& tensor : made.tensors) to.push_back(place.at(tensor.name));
    const OutputEntry& first = made.tensors[0];
    PlanEntry entry{.name = first.name, .dtype = first.dtype, .shape = first.shape, .to = to[0]};
    switch (piece.kind) {
      case Piece::Kind::kCopy:
        entry.from = std::move(from);
        builder.add_copy(std::move(entry));
        ++account.copied;
        return;
      case Piece::Kind::kLiteral:
        entry.bytes = piece.bytes;
        builder.add_literal(std::move(entry));
        ++account.changed;
        return;
      case Piece::Kind::kSteps:
        break;
    }
    account.changed += made.tensors.size();
    if (!from.empty()) {
      entry.from = {from[0]};
      entry.with.assign(from.begin() + 1, from.end());
    }
    entry.word = made.word;
    std::vector<Item> items = made.items(from, to);
    const uint32_t index = builder.add_tensor(std::move(entry));
    for (Item& item : items) {
      item.tensor = index;
      builder.add_item(std::move(item));
      checks->push_back(made.check);
      checked = checked || made.check != nullptr;
    }
    for (size_t i = 1; i < made.tensors.size(); ++i) {
      const OutputEntry& also = made.tensors[i];
      builder.add_note({.kind = PlanEntry::Kind::kAlso,
                        .name = also.name,
                        .dtype = also.dtype,
                        .shape = also.shape,
                        .to = to[i]});
    }
  }

  void add_whole_file(const PlannedShard& shard) {
    const Shard& from = context.source.shard(shard.source);
    const uint32_t file = builder.add_output(
        {.name = shard.name, .size = from.size, .header_bytes = from.header.data_offset()}, {});
    PlanEntry entry{.name = shard.name, .dtype = DType::U8, .shape = {from.size}};
    entry.to = {.file = file, .row_bytes = from.size};
    entry.from = {whole_input(shard.source)};
    builder.add_copy(std::move(entry));
    account.files.push_back({shard.name, from.header.tensors.size(), from.size});
    account.tensors_out += from.header.tensors.size();
    account.copied += from.header.tensors.size();
  }

  std::vector<PlannedFile> planned_files() const {
    std::vector<PlannedFile> files;
    for (const PlannedShard& shard : shards) {
      PlannedFile& file = files.emplace_back();
      file.name = shard.name;
      file.stamps = shard.stamps;
      if (shard.whole_file) {
        for (const TensorInfo& tensor : context.source.shard(shard.source).header.tensors)
          file.tensors.push_back(tensor.name);
      }
      for (const Piece& piece : shard.pieces)
        for (const OutputEntry& tensor : piece.made.tensors) file.tensors.push_back(tensor.name);
    }
    return files;
  }

  void fill_account() {
    account.input = context.request.input;
    account.output = context.request.output;
    account.dry_run = context.request.dry_run;
    for (const uint32_t s : context.source.shards())
      account.tensors_in += context.source.shard(s).header.tensors.size();
    for (const auto& [name, reason] : dropped) {
      auto group = std::find_if(account.dropped.begin(), account.dropped.end(),
                                [&reason = reason](const Account::Dropped& d) { return d.reason == reason; });
      if (group == account.dropped.end()) group = account.dropped.insert(group, {reason, {}});
      group->names.push_back(name);
      builder.add_note({.kind = PlanEntry::Kind::kDrop, .name = name, .word = reason});
    }
    const LayoutReport layouts = detect_layouts(context.source.checkpoint(), context.values);
    for (const QuantFinding& finding : layouts.findings)
      account.layouts.push_back({std::string(finding.layout), finding.matches.size(), finding.evidence});
  }

  // A file of the earlier converter's own bookkeeping: ours is the journal.
  void report_progress_files() {
    if (context.existing == nullptr) return;
    for (const FileEntry& file : context.existing->listing.files) {
      if (file.name.starts_with(".") && file.name.ends_with("progress.json")) {
        account.warnings.push_back(quote_name(file.name) +
                                   " of another converter is in the output folder and is ignored.");
      }
    }
  }
};

ShardPlanner::ShardPlanner(const FolderContext& context, std::string work)
    : state_(std::make_unique<State>(context, std::move(work))) {}
ShardPlanner::~ShardPlanner() = default;

void ShardPlanner::begin_shard(uint32_t shard) { state_->open.emplace().source = shard; }

void ShardPlanner::copy(TensorRef from, OutputEntry to) {
  Piece& piece = state_->open->pieces.emplace_back();
  piece.made.tensors.push_back(std::move(to));
  piece.made.from = {from};
}

void ShardPlanner::literal(OutputEntry to, std::string bytes) {
  Piece& piece = state_->open->pieces.emplace_back();
  piece.kind = Piece::Kind::kLiteral;
  piece.made.tensors.push_back(std::move(to));
  piece.bytes = std::move(bytes);
}

void ShardPlanner::make(MadeTensors made) {
  Piece& piece = state_->open->pieces.emplace_back();
  piece.kind = Piece::Kind::kSteps;
  piece.made = std::move(made);
}

void ShardPlanner::drop(TensorRef tensor, std::string reason) {
  state_->dropped.emplace_back(state_->context.source.info(tensor).name, std::move(reason));
}

void ShardPlanner::stamp(const std::string& weight, Format format) {
  state_->open->stamps[weight] = std::string(format_info(format).name);
}

void ShardPlanner::metadata(Metadata all) { state_->open->metadata = std::move(all); }

void ShardPlanner::declare(Format format) { state_->declared.emplace(format_info(format).name); }

Result<void> ShardPlanner::check(const WrittenPair& pair) {
  const WriteCheck seen = check_written(pair, state_->context.request.strict);
  if (seen.refused) {
    return Error{.code = ErrorCode::kRefusedUnsupported, .message = seen.sentence, .tensor = pair.name};
  }
  if (seen.verdict != WriteVerdict::kFine) warn(seen.sentence);
  ++state_->account.left_quantised;
  const JsonValue* config = state_->context.source.checkpoint().config();
  if (config == nullptr) return {};
  const auto implied = implied_shape(pair.name, *config);
  if (implied && *implied != std::pair{pair.rows, pair.columns}) {
    warn("Tensor " + quote_name(pair.name) + " is [" + std::to_string(pair.rows) + "," +
         std::to_string(pair.columns) + "], and its reader takes [" + std::to_string(implied->first) + "," +
         std::to_string(implied->second) + "] from config.json.");
  }
  return {};
}

bool ShardPlanner::end_shard(std::string name) {
  State& state = *state_;
  const bool emits = !state.open->pieces.empty();
  if (emits) {
    state.open->name = std::move(name);
    state.shards.push_back(*std::move(state.open));
  }
  state.open.reset();
  return emits;
}

void ShardPlanner::copy_file(uint32_t shard, std::string name) {
  PlannedShard& whole = state_->shards.emplace_back();
  whole.source = shard;
  whole.name = std::move(name);
  whole.whole_file = true;
}

uint64_t ShardPlanner::emitted() const { return state_->shards.size(); }

Result<bool> ShardPlanner::side(std::string_view name, bool required) {
  const bool there = state_->context.source.has_file(name);
  if (there) {
    state_->sides.push_back({.name = std::string(name)});
  } else if (required) {
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = quote_name(name) + " is not in " + quote_name(state_->context.request.input) +
                            ": a container without it cannot be loaded.",
                 .file = std::string(name)};
  }
  return there;
}

void ShardPlanner::side_text(std::string name, std::string text) {
  state_->sides.push_back({.name = std::move(name), .copied = false, .bytes = std::move(text)});
}

void ShardPlanner::warn(std::string sentence) { state_->account.warnings.push_back(std::move(sentence)); }
void ShardPlanner::note(std::string sentence) { state_->notes.push_back(std::move(sentence)); }

Result<FolderPlan> ShardPlanner::finish() {
  State& state = *state_;
  const Result<uint64_t> stamps = check_outputs(state.context.existing, state.planned_files());
  if (!stamps) return stamps.error();
  if (*stamps > 0) {
    note(grouped_digits(*stamps) + " of at most " + grouped_digits(kStampCap) +
         " stamps are used, all passes in the output folder together.");
  }
  state.builder.begin_phase(true, false);
  for (const PlannedShard& shard : state.shards) {
    if (shard.whole_file) {
      state.add_whole_file(shard);
    } else {
      TFTF_TRY(state.lay_out(shard));
    }
  }
  state.fill_account();
  state.report_progress_files();
  for (SideOutput& side : state.sides) state.builder.add_side(std::move(side));
  if (state.checked) {
    state.builder.on_finish(PlanBuilder::Finish(
        [checks = state.checks](size_t, std::span<const Value> values, Tables&) -> Result<void> {
          for (size_t i = 0; i < values.size(); ++i)
            if ((*checks)[i] != nullptr) TFTF_TRY((*checks)[i](values[i]));
          return {};
        }));
  }
  Result<Plan> plan = state.builder.build();
  if (!plan) return std::move(plan).error();
  state.account.bytes_read = plan->read_bytes();
  state.account.bytes_written = plan->written_bytes();
  FolderPlan result{
      .plan = *std::move(plan), .account = std::move(state.account), .notes = std::move(state.notes)};
  for (const auto& input : result.plan.inputs()) result.consumed.push_back(input.path);
  return result;
}

}  // namespace tftf::colibri
