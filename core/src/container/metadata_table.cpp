#include "container/metadata_table.h"

#include <algorithm>
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr std::string_view kName = "__metadata__";
constexpr std::string_view kFormats[] = {"pt", "tf", "flax", "np", "mlx", "paddle"};
constexpr std::string_view kActiveMarkup[] = {"<script", "<iframe", "<img", "<svg", "javascript:"};

// The first of kActiveMarkup that the text contains, ASCII case ignored.
std::string_view find_markup(std::string_view text) {
  auto contains = [text](std::string_view lower) {
    // Every mark has one character without case, which is quick to look for.
    const char pivot = lower[0] == '<' ? '<' : ':';
    const size_t before = lower.find(pivot);
    for (size_t at = text.find(pivot); at != std::string_view::npos; at = text.find(pivot, at + 1)) {
      if (at < before) continue;
      const std::string_view here = text.substr(at - before, lower.size());
      if (std::equal(here.begin(), here.end(), lower.begin(), lower.end(),
                     [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; }))
        return true;
    }
    return false;
  };
  for (std::string_view mark : kActiveMarkup)
    if (contains(mark)) return mark;
  return {};
}

std::string metadata_pointer(std::string_view key) {
  const std::string_view keys[] = {kName, key};
  return json_pointer(keys);
}

}  // namespace

void MetadataTable::begin(uint64_t at) {
  ++times_;
  at_ = at;
  kind_ = JsonKind::kNull;
  keys_.clear();
  values_.clear();
  kinds_.clear();
}

void MetadataTable::key(std::string_view name, uint64_t at) { keys_.add(name, at); }

void MetadataTable::value(JsonKind kind, std::string_view decoded, uint64_t at) {
  kinds_.push_back(static_cast<uint8_t>(kind));
  values_.add(kind == JsonKind::kString ? decoded : text_.substr(to_size(at + 1), 0), at);
}

std::string MetadataTable::shown(uint32_t number) const {
  const JsonKind kind = kind_of(number);
  if (kind == JsonKind::kString) return cut_text(values_[number]);
  const std::string_view token = text_.substr(to_size(values_.token_at(number)));
  if (kind == JsonKind::kNumber) return cut_text(token.substr(0, token.find_first_of(",} \t\r\n")));
  if (kind == JsonKind::kArray) return cut_text(token.substr(0, token.find(']') + 1));
  return std::string(json_kind_name(kind));
}

void MetadataTable::check(FindingList& findings) {
  auto add = [&](Rule rule) {
    Diagnostic* finding = findings.add(rule);
    if (finding && times_ > 0) {
      finding->pointer = json_pointer({&kName, 1});
      finding->offset = text_offset_ + at_;
    }
    return finding;
  };
  if (times_ == 0) {
    add(Rule::ST044);
    return;
  }
  if (times_ > 1)
    if (Diagnostic* finding = add(Rule::ST024)) finding->values = {{"count", times_}};
  if (kind_ == JsonKind::kNull) {
    add(Rule::ST046);
  } else if (kind_ != JsonKind::kObject) {
    if (Diagnostic* finding = add(Rule::ST045))
      finding->values = {{"kind", std::string(json_kind_name(kind_))}};
  } else if (keys_.size() == 0) {
    add(Rule::ST048);
  } else {
    check_object(findings);
  }
}

void MetadataTable::check_object(FindingList& findings) {
  // Equal keys stand together, in file order: the last of a run is the one that counts.
  std::vector<uint32_t> by_key(keys_.size());
  for (uint32_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
  std::sort(by_key.begin(), by_key.end(), [this](uint32_t a, uint32_t b) {
    const int order = keys_[a].compare(keys_[b]);
    return order != 0 ? order < 0 : a < b;
  });
  struct Kept {
    uint32_t first;
    uint32_t last;
    uint32_t count;
  };
  std::vector<Kept> kept;
  for (size_t begin = 0, end = 0; begin < by_key.size(); begin = end) {
    while (end < by_key.size() && keys_[by_key[end]] == keys_[by_key[begin]]) ++end;
    kept.push_back({by_key[begin], by_key[end - 1], static_cast<uint32_t>(end - begin)});
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.first < b.first; });

  auto find = [&](std::string_view key) {
    std::optional<uint32_t> found;
    for (const Kept& one : kept)
      if (keys_[one.last] == key) found = one.last;
    return found;
  };
  const auto dtype = find("dtype");
  const auto shape = find("shape");
  const auto offsets = find("data_offsets");
  const bool tensor_like = dtype && shape && offsets &&
                           (kind_of(*shape) == JsonKind::kArray || kind_of(*offsets) == JsonKind::kArray);
  if (tensor_like) {
    if (Diagnostic* finding = findings.add(Rule::ST050)) {
      finding->pointer = json_pointer({&kName, 1});
      finding->offset = text_offset_ + at_;
      finding->values = {{"dtype", shown(*dtype)}, {"shape", shown(*shape)}};
    }
  } else {
    check_format(find("format"), findings);
  }
  for (uint32_t i = 0; i < keys_.size(); ++i) check_entry(i, tensor_like, findings);
  metadata_.reserve(kept.size());
  for (const Kept& one : kept) {
    const std::string_view key = keys_[one.last];
    if (one.count > 1)
      if (Diagnostic* finding = findings.add(Rule::ST023)) {
        finding->subject = key;
        finding->pointer = metadata_pointer(key);
        finding->offset = text_offset_ + keys_.token_at(one.last);
        finding->values = {{"key", std::string(key)}, {"count", uint64_t{one.count}}};
      }
    if (kind_of(one.last) == JsonKind::kString)
      metadata_.emplace_back(key, values_[one.last]);
    else
      others_.emplace_back(key);
  }
}

void MetadataTable::check_entry(uint32_t number, bool tensor_like, FindingList& findings) {
  auto add = [&](Rule rule) {
    Diagnostic* finding = findings.add(rule);
    if (finding) {
      finding->subject = keys_[number];
      finding->pointer = metadata_pointer(keys_[number]);
      finding->offset = text_offset_ + keys_.token_at(number);
      finding->values = {{"key", std::string(keys_[number])}};
    }
    return finding;
  };
  const bool is_string = kind_of(number) == JsonKind::kString;
  if (!is_string && !tensor_like)
    if (Diagnostic* finding = add(Rule::ST047))
      finding->values.emplace_back("kind", std::string(json_kind_name(kind_of(number))));
  std::string_view found = find_markup(keys_[number]);
  if (found.empty() && is_string) found = find_markup(values_[number]);
  if (!found.empty())
    if (Diagnostic* finding = add(Rule::ST069)) finding->values.emplace_back("found", std::string(found));
}

void MetadataTable::check_format(std::optional<uint32_t> format, FindingList& findings) {
  if (format && kind_of(*format) == JsonKind::kString &&
      std::find(std::begin(kFormats), std::end(kFormats), values_[*format]) != std::end(kFormats))
    return;
  Diagnostic* finding = findings.add(Rule::ST049);
  if (!finding) return;
  const std::string_view keys[] = {kName, "format"};
  finding->pointer = json_pointer({keys, format ? size_t{2} : size_t{1}});
  finding->offset = text_offset_ + (format ? keys_.token_at(*format) : at_);
  finding->values.emplace_back("value", DiagnosticValue());
  if (format) finding->values.back().second = shown(*format);
}

}  // namespace tftf
