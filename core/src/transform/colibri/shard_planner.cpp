#include "transform/colibri/shard_planner.h"

#include <algorithm>
#include <set>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/transform/output_layout.h"
#include "transform/colibri/folder_frame.h"

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

struct ShardPlanner::State : FolderFrame {
  std::vector<PlannedShard> shards;
  std::optional<PlannedShard> open;
  std::set<std::string> declared;
  // By item of the writing phase.
  std::shared_ptr<std::vector<std::function<Result<void>(const Value&)>>> checks =
      std::make_shared<std::vector<std::function<Result<void>(const Value&)>>>();
  bool checked = false;

  using FolderFrame::FolderFrame;

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

void ShardPlanner::drop(TensorRef tensor, std::string reason) { state_->drop(tensor, std::move(reason)); }

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
  if (auto warning =
          shape_warning(pair.name, pair.rows, pair.columns, state_->context.source.checkpoint().config()))
    warn(*std::move(warning));
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

Result<bool> ShardPlanner::side(std::string_view name, bool required) { return state_->side(name, required); }

void ShardPlanner::side_text(std::string name, std::string text) {
  state_->add_side({.name = std::move(name), .copied = false, .bytes = std::move(text)});
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
  if (state.checked) {
    state.builder.on_finish(PlanBuilder::Finish(
        [checks = state.checks](size_t, std::span<const Value> values, Tables&) -> Result<void> {
          for (size_t i = 0; i < values.size(); ++i)
            if ((*checks)[i] != nullptr) TFTF_TRY((*checks)[i](values[i]));
          return {};
        }));
  }
  return state.finish();
}

}  // namespace tftf::colibri
