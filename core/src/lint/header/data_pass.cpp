#include "tftf/lint/data_pass.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "lint/colibri/judgement.h"
#include "lint/header/value_pieces.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

// Duplicates of fewer elements say nothing (rule ST086).
constexpr uint64_t kMinDuplicateElements = 64;

struct Task {
  TensorPlace place;
  DType dtype{};
  DType scanned{};  // as which its values are read
  uint32_t stack = PlaceTable::kNone;
  uint32_t scales = PlaceTable::kNone;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
  uint64_t elements = 0;
  uint64_t first_piece = 0;
  uint64_t piece_bytes = 0;

  uint64_t pieces() const { return ceil_div(bytes, piece_bytes); }
};

// Two tasks whose bytes are to be compared.
struct Pair {
  uint32_t one = 0;
  uint32_t other = 0;
  uint64_t first_piece = 0;
  bool equal = true;
};

// Whole elements, and whole bytes of them: F6 packs four into three bytes.
uint64_t piece_bytes_of(DType dtype) {
  return dtype_bits(dtype) == 6 ? DataPass::kMaxPiece / 4 * 3 : DataPass::kMaxPiece;
}

uint64_t elements_in(DType dtype, uint64_t bytes) { return bytes * 8 / dtype_bits(dtype); }

uint64_t index_or_zero(uint64_t index) { return index == Scan::kNone ? 0 : index; }

}  // namespace

// Rows of a colibri weight, or one record.
struct ColibriPiece {
  uint32_t check = 0;  // in LintResult::colibri_checks, or rans_checks
  bool record = false;
  uint64_t first_row = 0;
  uint64_t rows = 0;
};

// Longer records are left to rans-verify, which needs no memory for them.
constexpr uint64_t kMaxRecord = 64 << 20;

struct DataPass::State {
  const LintResult* result;
  uint64_t first_colibri = 0;  // piece of the first stage
  std::vector<ColibriPiece> colibri_pieces;
  std::vector<std::vector<ColibriSeen>> colibri_seen;           // by check
  std::vector<std::optional<colibri::RansFailure>> rans_found;  // by check
  std::vector<Task> tasks;                                      // by file and offset
  std::vector<Scan> scans;                                      // parallel to tasks
  std::vector<double> firsts;
  std::vector<ContentHash> hashes;  // per piece, then per task
  std::vector<Pair> pairs;
  ScalePieces scale_pieces;                // of the second stage, behind those of the pairs
  uint64_t first_scales = 0;               // piece of the second stage
  std::vector<std::vector<bool>> experts;  // by stack: those with an element that is not zero
  std::vector<uint32_t> same;              // per task: one with the same bytes, itself when none is known
  std::vector<std::string> reasons;
  std::vector<bool> bad;
  uint64_t pieces = 0;
  uint64_t bytes = 0;
  int stage = 1;

  size_t task_of(uint64_t piece) const {
    const auto after = std::upper_bound(tasks.begin(), tasks.end(), piece,
                                        [](uint64_t p, const Task& task) { return p < task.first_piece; });
    return static_cast<size_t>(after - tasks.begin()) - 1;
  }
  size_t pair_of(uint64_t piece) const {
    const auto after = std::upper_bound(pairs.begin(), pairs.end(), piece,
                                        [](uint64_t p, const Pair& pair) { return p < pair.first_piece; });
    return static_cast<size_t>(after - pairs.begin()) - 1;
  }
  Part part(const Task& task, uint64_t piece) const {
    const uint64_t begin = piece * task.piece_bytes;
    return {task.place.file, {task.offset + begin, std::min(task.piece_bytes, task.bytes - begin)}};
  }
  const Shape& shape(const Task& task) const {
    return result->files[task.place.file].scan.header.tensors[task.place.tensor].shape;
  }
  uint32_t representative(uint32_t task) const {
    while (same[task] != task) task = same[task];
    return task;
  }
  void find_pairs();
  void find_scales();
  void cut_colibri();
  Part tensor_part(TensorPlace place, uint64_t begin, uint64_t length) const {
    const HeaderScan& scan = result->files[place.file].scan;
    return {place.file,
            {scan.header.data_offset() + scan.header.tensors[place.tensor].begin + begin, length}};
  }
  Piece colibri_piece(const ColibriPiece& piece) const;
};

// Whole rows, so that neither their codes nor their scales are longer than a piece; longer rows are left alone.
void DataPass::State::cut_colibri() {
  first_colibri = pieces;
  const auto sound = [&](TensorPlace place) { return result->files[place.file].scan.sound; };
  for (uint32_t i = 0; i < result->colibri_checks.size(); ++i) {
    const ColibriCheck& check = result->colibri_checks[i];
    const uint64_t row = std::max(check.row_bytes, check.row_scales * 4);
    if (row == 0 || row > kMaxPiece || !sound(check.weight) || !sound(check.scales)) continue;
    for (uint64_t at = 0; at < check.rows;) {
      const uint64_t rows = std::min(check.rows - at, kMaxPiece / row);
      colibri_pieces.push_back({i, false, at, rows});
      bytes += rows * (check.row_bytes + check.row_scales * 4);
      at += rows;
    }
  }
  for (uint32_t i = 0; i < result->rans_checks.size(); ++i) {
    const TensorPlace place = result->rans_checks[i].record;
    if (!sound(place)) continue;
    const uint64_t length = result->files[place.file].scan.header.tensors[place.tensor].bytes();
    if (length == 0 || length > kMaxRecord) continue;
    colibri_pieces.push_back({i, true, 0, 0});
    bytes += length;
  }
  pieces += colibri_pieces.size();
  colibri_seen.resize(result->colibri_checks.size());
  rans_found.resize(result->rans_checks.size());
}

DataPass::Piece DataPass::State::colibri_piece(const ColibriPiece& piece) const {
  Piece out;
  if (piece.record) {
    const TensorPlace place = result->rans_checks[piece.check].record;
    out.parts[0] = tensor_part(place, 0, result->files[place.file].scan.header.tensors[place.tensor].bytes());
    return out;
  }
  const ColibriCheck& check = result->colibri_checks[piece.check];
  out.count = 2;
  out.parts[0] = tensor_part(check.weight, piece.first_row * check.row_bytes, piece.rows * check.row_bytes);
  const uint64_t scales = check.row_scales * 4;
  out.parts[1] = check.row_scales == 0
                     ? tensor_part(check.scales, 0, 4)
                     : tensor_part(check.scales, piece.first_row * scales, piece.rows * scales);
  return out;
}

DataPass::DataPass(const LintResult& result) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.result = &result;
  PlaceTable stacks, scales;
  for (uint32_t i = 0; i < result.expert_stacks.size(); ++i) stacks.insert(result.expert_stacks[i].tensor, i);
  for (uint32_t i = 0; i < result.scale_checks.size(); ++i) scales.insert(result.scale_checks[i].scales, i);
  for (const ExpertStack& stack : result.expert_stacks) s.experts.emplace_back(to_size(stack.experts));
  s.reasons.resize(result.files.size());
  s.bad.resize(result.files.size());
  for (size_t f = 0; f < result.files.size(); ++f) {
    const HeaderScan& scan = result.files[f].scan;
    if (!scan.sound) continue;
    const size_t begin = s.tasks.size();
    for (size_t t = 0; t < scan.header.tensors.size(); ++t) {
      const TensorInfo& info = scan.header.tensors[t];
      if (info.end <= info.begin) continue;
      Task task;
      task.place = {static_cast<uint32_t>(f), static_cast<uint32_t>(t)};
      task.dtype = task.scanned = info.dtype;
      task.stack = stacks.find(task.place);
      task.scales = scales.find(task.place);
      if (task.scales != PlaceTable::kNone && result.scale_checks[task.scales].exponents)
        task.scanned = DType::F8_E8M0;
      task.offset = scan.header.data_offset() + info.begin;
      task.bytes = info.bytes();
      task.elements = elements_in(info.dtype, task.bytes);
      task.piece_bytes = piece_bytes_of(info.dtype);
      s.tasks.push_back(task);
    }
    std::sort(s.tasks.begin() + static_cast<std::ptrdiff_t>(begin), s.tasks.end(),
              [](const Task& a, const Task& b) { return a.offset < b.offset; });
  }
  for (Task& task : s.tasks) {
    task.first_piece = s.pieces;
    s.pieces += task.pieces();
    s.bytes += task.bytes;
  }
  s.scans.resize(s.tasks.size());
  s.firsts.resize(s.tasks.size());
  s.hashes.resize(to_size(s.pieces));
  s.cut_colibri();
}

DataPass::~DataPass() = default;
DataPass::DataPass(DataPass&&) noexcept = default;
DataPass& DataPass::operator=(DataPass&&) noexcept = default;

uint64_t DataPass::piece_count() const { return state_->pieces; }

uint64_t DataPass::bytes() const { return state_->bytes; }

DataPass::Piece DataPass::piece(uint64_t index) const {
  const State& s = *state_;
  Piece out;
  if (s.stage == 1 && index >= s.first_colibri)
    return s.colibri_piece(s.colibri_pieces[to_size(index - s.first_colibri)]);
  if (s.stage == 1) {
    const Task& task = s.tasks[s.task_of(index)];
    out.parts[0] = s.part(task, index - task.first_piece);
    return out;
  }
  if (index >= s.first_scales) return s.scale_pieces.piece(index - s.first_scales);
  const Pair& pair = s.pairs[s.pair_of(index)];
  out.count = 2;
  out.parts[0] = s.part(s.tasks[pair.one], index - pair.first_piece);
  out.parts[1] = s.part(s.tasks[pair.other], index - pair.first_piece);
  return out;
}

DataPass::Found DataPass::run(uint64_t index, std::array<Bytes, 2> bytes,
                              const KernelTable& kernels) const noexcept {
  const State& s = *state_;
  Found found;
  if (s.stage == 2 && index >= s.first_scales) {
    found.scales = s.scale_pieces.run(index - s.first_scales, bytes[0], bytes[1]);
    return found;
  }
  if (s.stage == 2) {
    found.equal = bytes[0].size() == bytes[1].size() &&
                  std::memcmp(bytes[0].data(), bytes[1].data(), bytes[0].size()) == 0;
    return found;
  }
  if (index >= s.first_colibri) {
    const ColibriPiece& piece = s.colibri_pieces[to_size(index - s.first_colibri)];
    if (piece.record) {
      const RansCheck& check = s.result->rans_checks[piece.check];
      colibri::RansRecordCheck record(s.result->rans_tables[check.table], bytes[0].size());
      record.feed(bytes[0]);
      found.rans = record.finish();
      return found;
    }
    const ColibriCheck& check = s.result->colibri_checks[piece.check];
    found.colibri.resize(check.candidates.size());
    scan_colibri_rows(check, bytes[0], bytes[1], found.colibri);
    return found;
  }
  const Task& task = s.tasks[s.task_of(index)];
  const uint64_t first = elements_in(task.dtype, task.piece_bytes) * (index - task.first_piece);
  kernels.scan(task.scanned, bytes[0].data(), first, elements_in(task.dtype, bytes[0].size()), found.scan);
  if (task.stack != PlaceTable::kNone)
    found.live_experts = live_experts(s.result->expert_stacks[task.stack], task.dtype,
                                      (index - task.first_piece) * task.piece_bytes, bytes[0], found.scan);
  found.hash = content_hash(bytes[0]);
  if (first == 0) {
    found.first = element_as_f64(task.dtype == DType::C64 ? DType::F32 : task.dtype, bytes[0].data(), 0);
  }
  return found;
}

void DataPass::add(uint64_t index, const Found& found) {
  State& s = *state_;
  if (s.stage == 2 && index >= s.first_scales) {
    s.scale_pieces.add(index - s.first_scales, found.scales);
    return;
  }
  if (s.stage == 2) {
    Pair& pair = s.pairs[s.pair_of(index)];
    pair.equal = pair.equal && found.equal;
    return;
  }
  if (index >= s.first_colibri) {
    const ColibriPiece& piece = s.colibri_pieces[to_size(index - s.first_colibri)];
    if (piece.record) {
      s.rans_found[piece.check] = found.rans;
      return;
    }
    std::vector<ColibriSeen>& seen = s.colibri_seen[piece.check];
    seen.resize(found.colibri.size());
    for (size_t i = 0; i < seen.size(); ++i) seen[i].merge(found.colibri[i]);
    return;
  }
  const size_t number = s.task_of(index);
  merge(s.scans[number], found.scan);
  for (const auto& [begin, last] : found.live_experts)
    for (uint32_t expert = begin; expert <= last; ++expert) s.experts[s.tasks[number].stack][expert] = true;
  s.hashes[to_size(index)] = found.hash;
  if (index == s.tasks[number].first_piece) s.firsts[number] = found.first;
}

void DataPass::fail(uint32_t file, std::string reason) {
  if (!state_->bad[file]) state_->reasons[file] = std::move(reason);
  state_->bad[file] = true;
}

bool DataPass::failed(uint32_t file) const { return state_->bad[file]; }

void DataPass::State::find_pairs() {
  std::map<std::tuple<DType, Shape, uint64_t, uint64_t>, uint32_t> firsts_of;
  const auto pair_up = [&](uint32_t one, uint32_t other) { pairs.push_back({one, other, 0, true}); };
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    if (bad[task.place.file] || task.elements < kMinDuplicateElements || scans[i].constant ||
        scans[i].zero == scans[i].count)
      continue;
    const auto [entry, fresh] =
        firsts_of.try_emplace({task.dtype, shape(task), hashes[i].high, hashes[i].low}, i);
    if (!fresh) pair_up(entry->second, i);
  }
  const auto find_task = [&](TensorPlace place) -> std::optional<uint32_t> {
    for (uint32_t i = 0; i < tasks.size(); ++i)
      if (tasks[i].place.file == place.file && tasks[i].place.tensor == place.tensor) return i;
    return std::nullopt;
  };
  for (const TiedHead& tied : result->tied_heads) {
    const std::optional<uint32_t> head = find_task(tied.head);
    const std::optional<uint32_t> embedding = find_task(tied.embedding);
    if (!head || !embedding || bad[tied.head.file] || bad[tied.embedding.file]) continue;
    if (hashes[*head] == hashes[*embedding] && tasks[*head].bytes == tasks[*embedding].bytes &&
        tasks[*head].piece_bytes == tasks[*embedding].piece_bytes)
      pair_up(std::min(*head, *embedding), std::max(*head, *embedding));
  }
  for (Pair& pair : pairs) {
    pair.first_piece = pieces;
    pieces += tasks[pair.one].pieces();
    bytes += 2 * tasks[pair.one].bytes;
  }
}

// Scales that are not all positive, of files that could be read.
void DataPass::State::find_scales() {
  std::vector<uint32_t> checks;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].scales == PlaceTable::kNone || (scans[i].zero == 0 && scans[i].negative == 0)) continue;
    const ScaleCheck& check = result->scale_checks[tasks[i].scales];
    if (check.signs && !bad[check.scales.file] && !bad[check.codes.file]) checks.push_back(tasks[i].scales);
  }
  first_scales = pieces;
  scale_pieces.cut(*result, checks);
  pieces += scale_pieces.count();
  bytes += scale_pieces.bytes();
}

bool DataPass::next_stage() {
  State& s = *state_;
  if (s.stage == 2) {
    for (const Pair& pair : s.pairs) {
      const bool read = !s.bad[s.tasks[pair.one].place.file] && !s.bad[s.tasks[pair.other].place.file];
      if (read && pair.equal) s.same[s.representative(pair.other)] = s.representative(pair.one);
    }
    s.stage = 3;
    s.pieces = s.bytes = 0;
    return false;
  }
  if (s.stage != 1) return false;
  // One hash a tensor: of its only piece, else of the list of its pieces' hashes.
  std::vector<ContentHash> of_tasks(s.tasks.size());
  for (size_t i = 0; i < s.tasks.size(); ++i) {
    const ContentHash* begin = s.hashes.data() + s.tasks[i].first_piece;
    const uint64_t count = s.tasks[i].pieces();
    of_tasks[i] = count == 1 ? *begin
                             : content_hash({reinterpret_cast<const std::byte*>(begin),
                                             static_cast<size_t>(count * sizeof(ContentHash))});
  }
  s.hashes = std::move(of_tasks);
  s.same.resize(s.tasks.size());
  for (uint32_t i = 0; i < s.same.size(); ++i) s.same[i] = i;
  s.stage = 2;
  s.pieces = s.bytes = 0;
  s.find_pairs();
  s.find_scales();
  return s.pieces != 0 || next_stage();
}

void DataPass::amend(LintResult& result) const {
  const State& s = *state_;
  std::vector<std::vector<ColibriSeen>> seen = s.colibri_seen;
  for (size_t i = 0; i < seen.size(); ++i) {
    const ColibriCheck& check = result.colibri_checks[i];
    if (s.bad[check.weight.file] || s.bad[check.scales.file]) seen[i].clear();
  }
  judge_colibri(result, seen);
  for (size_t i = 0; i < s.rans_found.size(); ++i) {
    const TensorPlace place = result.rans_checks[i].record;
    if (!s.rans_found[i] || s.bad[place.file]) continue;
    const LintedFile& file = result.files[place.file];
    result.findings.push_back(rans_finding(file.path, file.scan.header.tensors[place.tensor].name,
                                           colibri::rans_fault_class(s.rans_found[i]->fault),
                                           s.rans_found[i]->detail));
  }
}

std::vector<FileStatistics> DataPass::take() {
  State& s = *state_;
  std::vector<FileStatistics> out(s.result->files.size());
  for (size_t f = 0; f < out.size(); ++f) {
    if (s.bad[f])
      out[f].unreadable = std::move(s.reasons[f]);
    else if (s.result->files[f].scan.sound)
      out[f].tensors.resize(s.result->files[f].scan.header.tensors.size());
  }
  for (uint32_t i = 0; i < s.tasks.size(); ++i) {
    const Task& task = s.tasks[i];
    if (s.bad[task.place.file]) continue;
    const Scan& scan = s.scans[i];
    TensorStatistics& to = out[task.place.file].tensors[task.place.tensor];
    to.nan_count = scan.nan;
    to.first_nan = index_or_zero(scan.first_nan);
    to.infinity_count = scan.inf;
    to.first_infinity = index_or_zero(scan.first_inf);
    to.subnormal_count = scan.subnormal;
    to.extreme_count = scan.extreme;
    to.largest = scan_max_magnitude(task.dtype, scan);
    to.bool_count = scan.bad_bool;
    to.first_bool = index_or_zero(scan.first_bad_bool);
    to.all_zero = task.scanned == task.dtype ? scan.zero == scan.count : scan.all_zero_bits();
    to.zero_bytes = scan.all_zero_bits();
    to.constant = scan.constant;
    to.hash[0] = uint64_t{s.representative(i)} + 1;
    to.first = s.firsts[i];
    if (const auto scales = s.scale_pieces.seen().find(task.scales); scales != s.scale_pieces.seen().end())
      to.scales = scales->second;
    if (task.stack == PlaceTable::kNone || to.all_zero) continue;
    const std::vector<bool>& live = s.experts[task.stack];
    for (size_t expert = 0; expert < live.size(); ++expert)
      if (!live[expert]) to.zero_experts.push_back(expert);
  }
  return out;
}

}  // namespace tftf
