#include "container/layout.h"

#include <algorithm>

#include "container/name_rules.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// A finding about the tensor `entry`, at a place in the data section (nothing when it is past all files).
Diagnostic* add_finding(FindingList& findings, Rule rule, std::string_view tensor, DataSection data,
                        uint64_t at) {
  Diagnostic* finding = findings.add(rule);
  if (!finding) return nullptr;
  finding->subject = tensor;
  finding->pointer = entry_pointer(tensor);
  finding->offset = checked_add(data.offset, at);
  finding->values = {{"tensor", std::string(tensor)}};
  return finding;
}

// Holes and overlaps, in the order of the data. Says whether there was none.
bool check_tiling(const EntryTable& entries, DataSection data, FindingList& findings) {
  const TextList& names = entries.names();
  bool tiles = true;
  uint64_t cursor = 0;
  const EntrySpan* reached = nullptr;  // the last non-empty entry that reached the cursor
  for (const EntrySpan& span : entries.spans()) {
    if (span.begin > cursor) {
      tiles = false;
      if (Diagnostic* finding = add_finding(findings, Rule::ST042, names[span.entry], data, cursor)) {
        finding->values.emplace_back("begin", cursor);
        finding->values.emplace_back("end", span.begin);
      }
    } else if (span.begin < cursor) {
      tiles = false;
      // `reached` is not null: only a non-empty entry moves the cursor.
      if (names[span.entry] != names[reached->entry])
        if (Diagnostic* finding = add_finding(findings, Rule::ST043, names[span.entry], data, span.begin)) {
          finding->values.emplace_back("begin", span.begin);
          finding->values.emplace_back("end", span.end);
          finding->values.emplace_back("other", std::string(names[reached->entry]));
          finding->values.emplace_back("obegin", reached->begin);
          finding->values.emplace_back("oend", reached->end);
        }
    }
    if (span.end >= cursor && span.end > span.begin) {
      cursor = span.end;
      reached = &span;
    }
    cursor = std::max(cursor, span.end);
  }
  return tiles;
}

uint64_t furthest_end(const std::vector<EntrySpan>& spans) {
  uint64_t end = 0;
  for (const EntrySpan& span : spans) end = std::max(end, span.end);
  return end;
}

void check_short_data(const EntryTable& entries, DataSection data, uint64_t end, bool tiles,
                      FindingList& findings) {
  const auto& spans = entries.spans();
  const TextList& names = entries.names();
  if (!tiles || !entries.all_sizes_match()) {
    for (const EntrySpan& span : spans) {
      if (span.end <= data.size) continue;
      if (Diagnostic* finding = add_finding(findings, Rule::ST039, names[span.entry], data, span.begin)) {
        finding->values.emplace_back("end", span.end);
        finding->values.emplace_back("available", data.size);
      }
    }
    return;
  }
  auto past_end = [&](const EntrySpan& span) { return span.end > data.size; };
  const auto first = std::find_if(spans.begin(), spans.end(), past_end);
  if (Diagnostic* finding = findings.add(Rule::ST040)) {
    finding->offset = data.offset + data.size;
    finding->values = {{"missing", end - data.size},
                       {"expected", end},
                       {"affected", static_cast<uint64_t>(std::count_if(first, spans.end(), past_end))},
                       {"total", uint64_t{names.size()}},
                       {"tensor", std::string(names[first->entry])}};
  }
}

// The reference writer's order: dtype rank descending, then name.
bool reference_less(const TextList& names, const EntrySpan& a, const EntrySpan& b) {
  const uint32_t rank_a = dtype_info(*a.dtype).rank;
  const uint32_t rank_b = dtype_info(*b.dtype).rank;
  return rank_a != rank_b ? rank_a > rank_b : names[a.entry] < names[b.entry];
}

// The first span of the reference order whose begin differs from that of a file written in this order.
const EntrySpan* find_out_of_order(const TextList& names, const std::vector<EntrySpan>& spans,
                                   std::vector<EntrySpan>& sorted) {
  auto less = [&names](const EntrySpan& a, const EntrySpan& b) { return reference_less(names, a, b); };
  if (std::is_sorted(spans.begin(), spans.end(), less)) return nullptr;
  // The order of data agrees with the reference order up to the last position whose span is not the least of
  // those from there on. Usually the least one already lies elsewhere, and nothing has to be sorted.
  size_t differs = 0;
  const EntrySpan* least = &spans.back();
  const EntrySpan* candidate = nullptr;
  for (size_t i = spans.size() - 1; i-- > 0;) {
    if (less(spans[i], *least)) {
      least = &spans[i];
    } else {
      differs = i;
      candidate = least;
    }
  }
  if (candidate && candidate->begin != spans[differs].begin) return candidate;
  // Empty tensors can stand in another order and yet have the right offsets.
  sorted = spans;
  std::sort(sorted.begin(), sorted.end(), less);
  uint64_t begin = 0;
  for (const EntrySpan& span : sorted) {
    if (span.begin != begin) return &span;
    begin += span.end - span.begin;
  }
  return nullptr;
}

}  // namespace

std::optional<size_t> check_layout(const EntryTable& entries, DataSection data, FindingList& findings) {
  const bool tiles = check_tiling(entries, data, findings);
  const uint64_t end = furthest_end(entries.spans());
  if (end > data.size) check_short_data(entries, data, end, tiles, findings);
  if (end >= data.size) return std::nullopt;
  Diagnostic* finding = findings.add(Rule::ST041);
  if (!finding) return std::nullopt;
  finding->offset = data.offset + end;
  finding->values = {{"count", data.size - end}, {"offset", data.offset + end}, {"sniff", std::string()}};
  return findings.size() - 1;
}

void check_alignment(const EntryTable& entries, DataSection data, FindingList& findings) {
  if (data.offset % 8 != 0)
    if (Diagnostic* finding = findings.add(Rule::ST051)) {
      finding->offset = data.offset;
      finding->values = {{"offset", data.offset}};
    }
  for (const EntrySpan& span : entries.spans()) {
    if (!span.dtype || span.end == span.begin) continue;
    const DTypeInfo& dtype = dtype_info(*span.dtype);
    // Alignments divide 2^64: an overflow of the sum keeps the remainder.
    if ((data.offset + span.begin) % dtype.align == 0) continue;
    const auto at = checked_add(data.offset, span.begin);
    if (Diagnostic* finding =
            add_finding(findings, Rule::ST052, entries.names()[span.entry], data, span.begin)) {
      finding->values.emplace_back("dtype", std::string(dtype.name));
      finding->values.emplace_back("offset", DiagnosticValue());
      if (at) finding->values.back().second = *at;
      finding->values.emplace_back("align", uint64_t{dtype.align});
    }
  }
}

void check_reference_order(const EntryTable& entries, DataSection data, FindingList& findings) {
  std::vector<EntrySpan> sorted;
  if (const EntrySpan* span = find_out_of_order(entries.names(), entries.spans(), sorted))
    add_finding(findings, Rule::ST053, entries.names()[span->entry], data, span->begin);
}

void check_header_order(const std::vector<TensorInfo>& tensors, DataSection data, FindingList& findings) {
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].begin < tensors[i - 1].begin) {
      add_finding(findings, Rule::ST054, tensors[i].name, data, tensors[i].begin);
      return;
    }
}

}  // namespace tftf
