#include "inspect/comparison_report.h"

#include <algorithm>
#include <array>

#include "inspect/json_parts.h"
#include "inspect/text_table.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/base/version.h"

namespace tftf {
namespace {

constexpr std::string_view kPairStatusNames[kPairStatuses] = {"same",      "equal_values", "close",
                                                              "different", "dtype",        "shape",
                                                              "only_left", "only_right",   "not_comparable"};
// What people read in the table.
constexpr std::string_view kPairStatusWords[kPairStatuses] = {"same",      "equal values", "close",
                                                              "different", "other dtype",  "other shape",
                                                              "only left", "only right",   "not comparable"};

constexpr uint64_t kShownText = 60;  // characters of a differing value

OrderedJson side_json(const std::optional<TensorValues>& side) {
  if (!side) return OrderedJson();
  OrderedJson out;
  out["dtype"] = dtype_name(side->stored_dtype());
  out["shape"] = shape_json(side->shape());
  out["layout"] = text_or_null(side->layout());
  return out;
}

OrderedJson optional_json(const std::optional<double>& value) {
  return value ? json_float(*value) : OrderedJson();
}

OrderedJson distance_json(const PairDistance& distance) {
  OrderedJson out;
  out["count"] = json_integer(distance.count);
  out["differing"] = json_integer(distance.differing);
  out["nan"] = {json_integer(distance.nan_left), json_integer(distance.nan_right)};
  out["infinite"] = {json_integer(distance.infinite_left), json_integer(distance.infinite_right)};
  out["unmatched"] = json_integer(distance.unmatched);
  out["max_abs"] = json_float(distance.max_abs);
  out["max_abs_at"] = distance.max_abs > 0 ? json_integer(distance.max_abs_at) : OrderedJson();
  out["max_relative"] = json_float(distance.max_relative);
  out["mean_abs"] = json_float(distance.mean_abs());
  out["relative_l2"] = json_float(distance.relative());
  out["cosine"] = optional_json(distance.cosine());
  out["sqnr_db"] = optional_json(distance.sqnr());
  return out;
}

OrderedJson pair_json(const TensorPair& pair) {
  OrderedJson out;
  out["name"] = pair.name();
  out["status"] = pair_status_name(pair.status);
  out["reason"] = text_or_null(pair.reason);
  out["left"] = side_json(pair.left);
  out["right"] = side_json(pair.right);
  out["distance"] = pair.distance ? distance_json(*pair.distance) : OrderedJson();
  return out;
}

OrderedJson text_or_nothing(const std::optional<std::string>& text) {
  return text ? OrderedJson(*text) : OrderedJson();
}

// On one line: white space is one space.
std::string shown(const std::optional<std::string>& text) {
  if (!text) return "(absent)";
  std::string line;
  for (const char c : *text) {
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!space || line.empty() || line.back() != ' ') line += space ? ' ' : c;
  }
  return escape_text_cut(line, kShownText);
}

void write_differences(const std::vector<TextDifference>& differences, std::string_view title,
                       std::string& out) {
  if (differences.empty()) return;
  out += "\n" + std::string(title) + ":\n";
  for (const TextDifference& one : differences) {
    const std::string place = (one.file.empty() ? "" : escape_text(one.file) + " ") + escape_text(one.key);
    // A file that is on one side only says no more.
    if (!one.file.empty() && one.key.empty() && (!one.left || !one.right))
      out += "  " + place + "only in the " + (one.left ? "left" : "right") + " model\n";
    else
      out += "  " + place + ": " + shown(one.left) + " -> " + shown(one.right) + "\n";
  }
}

std::string side_text(const std::optional<TensorValues>& side) {
  if (!side) return "-";
  const std::string dtype(dtype_info(side->stored_dtype()).torch);
  return (side->layout().empty() ? dtype : std::string(side->layout())) +
         (side->shape().empty() ? "" : " " + cross(side->shape()));
}

std::string plural(uint64_t count, std::string_view one, std::string_view many) {
  return grouped_digits(count) + " " + std::string(count == 1 ? one : many);
}

}  // namespace

std::string_view pair_status_name(PairStatus status) { return kPairStatusNames[static_cast<size_t>(status)]; }

uint64_t ComparisonReport::count(PairStatus status) const {
  return static_cast<uint64_t>(std::count_if(
      pairs.begin(), pairs.end(), [status](const TensorPair& pair) { return pair.status == status; }));
}

bool ComparisonReport::different() const {
  for (const TensorPair& pair : pairs) {
    switch (pair.status) {
      case PairStatus::kSame:
        break;
      case PairStatus::kEqualValues:
      case PairStatus::kClose:
        if (strict && (pair.left->stored_dtype() != pair.right->stored_dtype() ||
                       pair.left->layout() != pair.right->layout()))
          return true;
        break;
      default:
        return true;
    }
  }
  return (!values || strict) && (!metadata.empty() || !config.empty());
}

std::string comparison_json(const ComparisonReport& report, const std::string& left,
                            const std::string& right) {
  OrderedJson head;
  head["tool"] = {{"name", "tftf"}, {"version", version()}};
  head["left"] = left;
  head["right"] = right;
  head["values"] = report.values;
  head["tolerance"] = json_float(report.tolerance);
  head["strict"] = report.strict;
  head["different"] = report.different();
  head["tensor_count"] = json_integer(uint64_t{report.pairs.size()});
  for (size_t i = 0; i < kPairStatuses; ++i)
    head["summary"][std::string(kPairStatusNames[i])] =
        json_integer(report.count(static_cast<PairStatus>(i)));
  std::string out = open_document(head);
  const auto write = [&out](std::string_view name, const std::vector<TextDifference>& differences) {
    ArrayWriter array(out, name);
    for (const TextDifference& one : differences) {
      OrderedJson entry;
      if (!one.file.empty()) entry["file"] = one.file;
      entry[one.file.empty() ? "key" : "pointer"] = one.key;
      entry["left"] = text_or_nothing(one.left);
      entry["right"] = text_or_nothing(one.right);
      array.add(entry);
    }
    array.close();
  };
  write("metadata", report.metadata);
  write("config", report.config);
  ArrayWriter tensors(out, "tensors");
  for (const TensorPair& pair : report.pairs)
    if (pair.status != PairStatus::kSame) tensors.add(pair_json(pair));
  tensors.close();
  ArrayWriter notes(out, "notes");
  for (const std::string& note : report.notes) notes.add(note);
  notes.close();
  return out.append(kDocumentEnd);
}

std::string comparison_text(const ComparisonReport& report, uint32_t width, bool ascii) {
  std::string out;
  for (const std::string& note : report.notes) out += "Note     : " + note + "\n";
  out += "Tensors  : " + grouped_digits(report.pairs.size());
  for (size_t i = 0; i < kPairStatuses; ++i)
    if (const uint64_t count = report.count(static_cast<PairStatus>(i)); count > 0)
      out += ", " + grouped_digits(count) + " " + std::string(kPairStatusWords[i]);
  out += report.values ? "\n" : "\nCompared : headers; --values reads the data\n";
  if (report.count(PairStatus::kSame) < report.pairs.size()) {
    std::vector<std::string> head = {"Key", "Status", "Left", "Right"};
    const bool distances = std::any_of(report.pairs.begin(), report.pairs.end(),
                                       [](const TensorPair& pair) { return pair.distance.has_value(); });
    if (distances)
      head.insert(head.end(), {"Differing", "Max abs", "Max relative", "Mean abs", "Relative L2", "SQNR dB"});
    TextTable table(std::move(head));
    for (const TensorPair& pair : report.pairs) {
      if (pair.status == PairStatus::kSame) continue;
      std::string status(kPairStatusWords[static_cast<size_t>(pair.status)]);
      if (!pair.reason.empty()) status += ": " + pair.reason;
      std::vector<std::string> cells = {escape_text(pair.name()), std::move(status), side_text(pair.left),
                                        side_text(pair.right)};
      if (distances && pair.distance) {
        const PairDistance& d = *pair.distance;
        const std::optional<double> sqnr = d.sqnr();
        cells.insert(cells.end(), {grouped_digits(d.differing), short_number(d.max_abs),
                                   short_number(d.max_relative), short_number(d.mean_abs()),
                                   short_number(d.relative()), sqnr ? short_number(*sqnr) : "-"});
      } else if (distances) {
        cells.resize(10, "-");
      }
      table.add(std::move(cells));
    }
    out += "\n";
    table.print(out, width, ascii);
  }
  write_differences(report.metadata, "Metadata", out);
  write_differences(report.config, "Configuration", out);
  return ascii ? ascii_text(out) : out;
}

std::string difference_sentence(const ComparisonReport& report) {
  if (!report.different()) return "";
  std::vector<std::string> parts;
  const uint64_t left = report.count(PairStatus::kOnlyLeft), right = report.count(PairStatus::kOnlyRight);
  uint64_t changed = report.count(PairStatus::kDifferent) + report.count(PairStatus::kDType) +
                     report.count(PairStatus::kShape);
  if (report.strict)
    changed += static_cast<uint64_t>(
        std::count_if(report.pairs.begin(), report.pairs.end(), [](const TensorPair& pair) {
          return (pair.status == PairStatus::kEqualValues || pair.status == PairStatus::kClose) &&
                 (pair.left->stored_dtype() != pair.right->stored_dtype() ||
                  pair.left->layout() != pair.right->layout());
        }));
  if (changed > 0) parts.push_back(plural(changed, "tensor differs", "tensors differ"));
  if (left > 0) parts.push_back(plural(left, "is", "are") + " only in the left model");
  if (right > 0) parts.push_back(plural(right, "is", "are") + " only in the right model");
  if (const uint64_t odd = report.count(PairStatus::kNotComparable); odd > 0)
    parts.push_back(plural(odd, "cannot", "cannot") + " be compared");
  if (!report.values || report.strict) {
    if (!report.metadata.empty()) parts.push_back("metadata differ");
    if (!report.config.empty()) parts.push_back("configuration differs");
  }
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  if (out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out + ".";
}

}  // namespace tftf
