#include "container/entry_table.h"

#include <algorithm>

#include "container/dtype_suggestion.h"
#include "container/name_rules.h"
#include "container/repeated_names.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr uint64_t kHighRank = 8;
constexpr size_t kMaxOddNumbers = 1000;  // of one array, kept for ST033
constexpr size_t kExcerpt = 80;

bool is_partition_placeholder(std::string_view name, const Shape& shape) {
  return shape.size() == 1 && shape[0] == 0 &&
         (ends_with(name, ".weight") || ends_with(name, ".bias") ||
          name.find("lora_") != std::string_view::npos);
}

}  // namespace

EntryTable::Field EntryTable::find_field(std::string_view name) {
  // By length first: entries are a hundred thousand and more.
  if (name.size() == 5) return name == "shape" ? kShape : name == "dtype" ? kDType : kNone;
  return name == "data_offsets" ? kOffsets : kNone;
}

EntryTable::EntryTable(std::string_view text, uint64_t text_offset, FindingList& findings)
    : text_(text), text_offset_(text_offset), findings_(findings), names_(text) {}

Diagnostic* EntryTable::add(Rule rule, std::string_view field, std::optional<uint64_t> at) {
  Diagnostic* finding = findings_.add(rule);
  if (!finding) return nullptr;
  finding->subject = name_;
  finding->pointer = entry_pointer(name_, field);
  finding->offset = text_offset_ + at.value_or(key_at_);
  finding->values = {{"tensor", std::string(name_)}};
  return finding;
}

void EntryTable::key(std::string_view name, uint64_t at) {
  entry_ = names_.add(name, at);
  name_ = names_[entry_];
  key_at_ = at;
  open_ = kNone;
  dtype_times_ = shape_.times = offsets_.times = 0;
  check_name(name_, text_offset_ + at, findings_);
}

void EntryTable::not_object(JsonKind kind, uint64_t at) {
  if (Diagnostic* finding = add(Rule::ST028, {}, at))
    finding->values.emplace_back("kind", std::string(json_kind_name(kind)));
}

void EntryTable::field(std::string_view name, uint64_t at) {
  field_at_ = at;
  open_ = find_field(name);
  if (open_ == kDType) {
    ++dtype_times_;
  } else if (open_ != kNone) {
    ArrayField& now = array();
    ++now.times;
    now.usable = now.is_array = false;
  } else if (Diagnostic* finding = add(Rule::ST026, cut_text(name), at)) {
    finding->values.emplace_back("field", cut_text(name, kExcerpt * 50));
  }
}

void EntryTable::value(JsonKind kind, std::string_view text, uint64_t at) {
  if (open_ == kDType) {
    dtype_kind_ = kind;
    dtype_at_ = at;
    dtype_.reset();
    if (kind != JsonKind::kString) return;
    // Neighbours mostly share their dtype.
    const bool again = !spans_.empty() && spans_.back().dtype && dtype_name(*spans_.back().dtype) == text;
    dtype_ = again ? spans_.back().dtype : find_dtype(text);
    if (!dtype_) dtype_text_ = cut_text(text);
  } else if (open_ != kNone) {
    ArrayField& field = array();
    field.begin = at;
    field.excerpt = kind == JsonKind::kString   ? '"' + cut_text(text, kExcerpt) + '"'
                    : kind == JsonKind::kObject ? "an object"
                                                : cut_text(text, kExcerpt);
  }
}

bool EntryTable::begin_array(uint64_t at) {
  if (open_ == kDType) value(JsonKind::kArray, {}, at);
  if (open_ != kShape && open_ != kOffsets) return false;
  ArrayField& field = array();
  field.is_array = field.usable = true;
  field.begin = at;
  field.elements = 0;
  field.values.clear();
  field.odd.clear();
  field.more_odd = 0;
  return true;
}

void EntryTable::element(std::string_view literal, uint64_t at) {
  ArrayField& field = array();
  ++field.elements;
  auto number = json_unsigned(literal);
  if (!number) {
    number = json_whole_number(literal);
    if (!number) {
      field.usable = false;
      return;
    }
    if (field.odd.size() < kMaxOddNumbers)
      field.odd.push_back({at, static_cast<uint32_t>(literal.size())});
    else
      ++field.more_odd;
  }
  if (open_ == kShape || field.elements <= 2) field.values.push_back(*number);
}

void EntryTable::bad_element() {
  ++array().elements;
  array().usable = false;
}

void EntryTable::end_array(uint64_t end) { array().end = end; }

void EntryTable::check_array(const ArrayField& field, std::string_view name, Rule rule) {
  if (field.times == 0) return;
  if (field.is_array) {
    for (const Literal& odd : field.odd)
      if (Diagnostic* finding = add(Rule::ST033, name, odd.at)) {
        finding->values.emplace_back("field", std::string(name));
        finding->values.emplace_back("literal",
                                     cut_text(text_.substr(to_size(odd.at), odd.length), kExcerpt));
      }
    findings_.count(Rule::ST033, field.more_odd);
  }
  const bool wrong_count = &field == &offsets_ && field.elements != 2;
  if (field.usable && !wrong_count) return;
  Diagnostic* finding = add(rule, name, field.begin);
  if (!finding) return;
  finding->values.emplace_back(
      "value", field.is_array
                   ? cut_text(text_.substr(to_size(field.begin), to_size(field.end - field.begin)), kExcerpt)
                   : field.excerpt);
  finding->values.emplace_back("detail", !field.is_array ? "it is no array"
                                         : !field.usable
                                             ? std::string("an element is not an integer in range")
                                             : std::to_string(field.elements) + " elements");
}

void EntryTable::check_dtype() {
  if (dtype_times_ == 0 || dtype_) return;
  Diagnostic* finding = add(Rule::ST030, "dtype", dtype_at_);
  if (!finding) return;
  const bool text = dtype_kind_ == JsonKind::kString;
  finding->values.emplace_back("dtype", text ? dtype_text_ : std::string(json_kind_name(dtype_kind_)));
  finding->values.emplace_back("suggestion", text ? dtype_suggestion(dtype_text_) : std::string());
}

void EntryTable::check_shape() {
  const Shape& shape = shape_.values;
  if (is_partition_placeholder(name_, shape)) {
    add(Rule::ST057, "shape", shape_.begin);
  } else if (std::find(shape.begin(), shape.end(), uint64_t{0}) != shape.end()) {
    if (Diagnostic* finding = add(Rule::ST056, "shape", shape_.begin))
      finding->values.emplace_back("shape", shape_value(shape));
  }
  if (shape.size() > kHighRank)
    if (Diagnostic* finding = add(Rule::ST058, "shape", shape_.begin))
      finding->values.emplace_back("rank", uint64_t{shape.size()});
}

std::optional<uint64_t> EntryTable::size_of_shape() {
  const auto elements = element_count(shape_.values);
  const auto bits = elements ? checked_mul(*elements, dtype_bits(*dtype_)) : std::nullopt;
  if (!bits) {
    if (Diagnostic* finding = add(Rule::ST035, "shape", shape_.begin)) {
      finding->values.emplace_back("shape", shape_value(shape_.values));
      finding->values.emplace_back("dtype", std::string(dtype_name(*dtype_)));
    }
    return std::nullopt;
  }
  if (*bits % 8 != 0) {
    if (Diagnostic* finding = add(Rule::ST036, "shape", shape_.begin)) {
      finding->values.emplace_back("elements", *elements);
      finding->values.emplace_back("dtype", std::string(dtype_name(*dtype_)));
      finding->values.emplace_back("bits", *bits);
    }
    return std::nullopt;
  }
  return *bits / 8;
}

void EntryTable::end_object() {
  constexpr std::string_view kNames[] = {"dtype", "shape", "data_offsets"};
  const uint32_t times[] = {dtype_times_, shape_.times, offsets_.times};
  for (size_t i = 0; i < 3; ++i) {
    if (times[i] == 1) continue;
    Diagnostic* finding = add(times[i] == 0 ? Rule::ST027 : Rule::ST025, times[i] == 0 ? "" : kNames[i]);
    if (!finding) continue;
    finding->values.emplace_back("field", std::string(kNames[i]));
    if (times[i] > 1) finding->values.emplace_back("count", uint64_t{times[i]});
  }
  check_dtype();
  check_array(shape_, "shape", Rule::ST032);
  check_array(offsets_, "data_offsets", Rule::ST034);

  const bool has_dtype = dtype_times_ > 0 && dtype_;
  const bool has_shape = shape_.times > 0 && shape_.usable;
  const bool has_offsets = offsets_.times > 0 && offsets_.usable && offsets_.elements == 2;
  if (has_dtype) ++dtype_counts_[static_cast<size_t>(*dtype_)];
  if (has_shape) check_shape();
  const std::optional<uint64_t> size = has_dtype && has_shape ? size_of_shape() : std::nullopt;
  if (!has_offsets) return;

  const uint64_t begin = offsets_.values[0];
  const uint64_t end = offsets_.values[1];
  if (end < begin) {
    if (Diagnostic* finding = add(Rule::ST038, "data_offsets", offsets_.begin)) {
      finding->values.emplace_back("begin", begin);
      finding->values.emplace_back("end", end);
    }
    return;
  }
  if (size && *size == end - begin) {
    ++sizes_match_;
  } else if (size) {
    if (Diagnostic* finding = add(Rule::ST037, "data_offsets", offsets_.begin)) {
      finding->values.emplace_back("dtype", std::string(dtype_name(*dtype_)));
      finding->values.emplace_back("shape", shape_value(shape_.values));
      finding->values.emplace_back("expected", *size);
      finding->values.emplace_back("actual", end - begin);
    }
  }
  spans_.push_back({begin, end, entry_, has_dtype ? dtype_ : std::nullopt});
  if (has_dtype && has_shape)
    tensors_.push_back(
        {std::string(name_), *dtype_, Shape(shape_.values.begin(), shape_.values.end()), begin, end});
}

void EntryTable::sort_spans() {
  auto less = [](const EntrySpan& a, const EntrySpan& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : a.entry < b.entry;
  };
  if (!std::is_sorted(spans_.begin(), spans_.end(), less)) std::sort(spans_.begin(), spans_.end(), less);
}

void EntryTable::finish() {
  check_repeated_names(names_, text_offset_, findings_);
  for (const DTypeInfo& info : all_dtypes()) {
    const uint64_t count = dtype_counts_[static_cast<size_t>(info.dtype)];
    if (count == 0 || info.since == all_dtypes().front().since) continue;
    if (Diagnostic* finding = findings_.add(Rule::ST031)) {
      finding->subject = info.name;
      finding->values = {
          {"dtype", std::string(info.name)}, {"count", count}, {"version", std::string(info.since)}};
    }
  }
}

}  // namespace tftf
