// `info` for people (spec tftf 1.7): the facts first, then the tensors or their dtypes.
#include <algorithm>

#include "inspect/text_table.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/base/utf8.h"
#include "tftf/inspect/info.h"

namespace tftf {
namespace {

constexpr size_t kMaxMetadata = 300;  // characters of one value
constexpr size_t kMaxMissing = 5;

std::string bytes_text(uint64_t bytes) {
  const std::string exact = grouped_digits(bytes) + " bytes";
  return bytes < 1024 ? exact : size_text(bytes) + " (" + exact + ")";
}

// 7,241,732,096 with "7.24 billion" where that helps.
std::string count_text(uint64_t count) {
  struct Unit {
    uint64_t size;
    std::string_view name;
  };
  for (const Unit unit :
       {Unit{1'000'000'000'000, " trillion"}, Unit{1'000'000'000, " billion"}, Unit{1'000'000, " million"}})
    if (count >= unit.size)
      return ratio_text(count, unit.size, 2).append(unit.name) + " (" + grouped_digits(count) + ")";
  return grouped_digits(count);
}

class Writer {
 public:
  Writer(const ModelInfo& info, const InfoTextOptions& options)
      : info_(info),
        checkpoint_(*info.checkpoint),
        options_(options),
        rows_(filtered_rows(info, options.filter)) {}

  std::string write() {
    facts();
    layouts();
    adapter();
    notes();
    metadata();
    if (options_.dtype_summary)
      dtypes();
    else if (!rows_.empty())
      tensors();
    return std::move(out_);
  }

 private:
  void line(std::string_view key, const std::string& value) {
    out_ += padded(std::string(key), 9) + ": " + value + "\n";
  }
  void facts();
  void names(const NameFacts& names);
  void layouts();
  void adapter();
  void notes();
  void metadata();
  void dtypes();
  void tensors();

  const ModelInfo& info_;
  const Checkpoint& checkpoint_;
  const InfoTextOptions& options_;
  std::vector<const TensorRow*> rows_;
  std::string out_;
};

void Writer::facts() {
  std::string model = escape_text(checkpoint_.listing.given);
  if (checkpoint_.index)
    model += "  [sharded, " + std::to_string(checkpoint_.shards.size()) + " files]";
  else if (checkpoint_.shards.size() > 1)
    model += "  [" + std::to_string(checkpoint_.shards.size()) + " files]";
  line("Model", model);
  std::string kind(model_kind_name(info_.kind));
  if (!info_.family.empty()) kind += ", " + escape_text(info_.family);
  line("Kind", kind);
  std::string tensors = grouped_digits(info_.rows.size());
  if (!options_.filter.empty()) tensors += "  (showing " + grouped_digits(rows_.size()) + " after filter)";
  line("Tensors", tensors);
  if (!info_.rows.empty()) {
    line("Data", bytes_text(info_.data_bytes));
    std::string parameters = info_.logical_parameters ? count_text(*info_.logical_parameters)
                                                      : "not known, a quantised layout hides shapes";
    if (info_.logical_parameters && *info_.logical_parameters != info_.stored_elements)
      parameters += ", stored as " + grouped_digits(info_.stored_elements) + " elements";
    line("Elements", parameters);
    std::string dtypes;
    for (const DTypeTotal& total : info_.dtypes)
      dtypes +=
          (dtypes.empty() ? "" : ", ") + std::string(dtype_name(total.dtype)) + " " + size_text(total.bytes);
    line("Dtypes", dtypes);
  }
  if (info_.has_config) {
    std::string config;
    for (const auto& [name, value] :
         {std::pair<std::string_view, const std::string&>("model_type", info_.model_type),
          {"dtype", info_.dtype},
          {"quant_method", info_.quant_method}})
      if (!value.empty())
        config += (config.empty() ? "" : ", ") + std::string(name) + " " + escape_text(value);
    line("Config", config.empty() ? "says neither model_type nor dtype" : config);
  }
  if (info_.names) names(*info_.names);
  if (checkpoint_.index) {
    const ShardIndex& index = *checkpoint_.index;
    std::string text = escape_text(index.file) + ": " + grouped_digits(index.weight_map.size()) + " tensors";
    if (const JsonValue* total = index.metadata.get("total_size"))
      text += ", total_size " + escape_text(total->brief());
    line("Index", text);
  }
  if (!info_.missing_shards.empty()) {
    std::string text = grouped_digits(info_.missing_shards.size()) + " of " +
                       grouped_digits(checkpoint_.shards.size()) + " files: ";
    for (size_t i = 0; i < info_.missing_shards.size() && i < kMaxMissing; ++i)
      text += (i > 0 ? ", " : "") + escape_text(info_.missing_shards[i]);
    line("Missing", text + (info_.missing_shards.size() > kMaxMissing ? ", …" : ""));
  }
}

void Writer::names(const NameFacts& names) {
  const uint64_t moving = std::max(names.to4, names.to5);
  if (moving > 0)
    line("Names", "of " + std::string(name_layout_text(names.layout)) + ", " + grouped_digits(moving) +
                      " would move to " + std::string(name_layout_text(other_layout(names.layout))));
  else
    line("Names", "the same in transformers-4 and transformers-5");
  if (names.split + names.fused == 0) return;
  std::string text;
  if (names.split > 0)
    text = "split in " + grouped_digits(names.split) + (names.split == 1 ? " container" : " containers");
  if (names.fused > 0)
    text += std::string(text.empty() ? "" : ", ") + "fused in " + grouped_digits(names.fused) +
            (names.fused == 1 ? " container" : " containers");
  if (names.mixed > 0) text += ", both forms side by side in " + grouped_digits(names.mixed);
  line("Experts", text);
}

void Writer::layouts() {
  for (const LayoutTotal& layout : info_.layouts) {
    std::string text = std::string(layout.id) + ", " + grouped_digits(layout.modules) +
                       (layout.modules == 1 ? " module, " : " modules, ") + size_text(layout.bytes);
    if (layout.logical_parameters) text += " for " + count_text(*layout.logical_parameters) + " parameters";
    line("Layout", text);
    out_ += "           " + layout.evidence + "\n";
  }
}

void Writer::adapter() {
  if (!info_.adapter) return;
  const AdapterSurvey& survey = *info_.adapter;
  std::string text = survey.family ? std::string(adapter_family_id(*survey.family)) : "no known family";
  if (survey.ambiguous) text += " and others, mixed";
  for (const auto& [form, count] : survey.forms) text += ", " + grouped_digits(count) + " " + form;
  if (!survey.ranks.empty()) {
    text += survey.ranks.size() == 1 ? ", rank " : ", ranks ";
    size_t shown = 0;
    for (const auto& [rank, count] : survey.ranks) {
      if (shown == 6) {
        text += ", …";
        break;
      }
      text += (shown++ > 0 ? ", " : "") + std::to_string(rank);
    }
  }
  if (survey.alphas.size() == 1)
    text += ", alpha " + survey.alphas[0].first;
  else if (survey.alphas.size() > 1)
    text += ", " + std::to_string(survey.alphas.size()) + " alphas";
  text += ", scale " + std::string(adapter_scale_name(survey.scale));
  line("Adapter", text);
  for (const std::string& evidence : survey.evidence) out_ += "           " + evidence + "\n";
  if (!survey.unpaired.empty())
    out_ += "           " + grouped_digits(survey.unpaired.size()) + " modules lack a part, first " +
            quote_name(survey.unpaired[0]) + "\n";
  if (survey.unexplained > 0)
    out_ += "           " + grouped_digits(survey.unexplained) + " tensors are no part of an adapter\n";
}

void Writer::notes() {
  for (const std::string& note : info_.notes) line("Note", note);
}

void Writer::metadata() {
  std::vector<std::pair<std::string, std::string>> all;
  if (checkpoint_.index)
    for (const auto& [key, value] : checkpoint_.index->metadata.members)
      all.emplace_back(key, value.is_string() ? escape_text(value.text) : escape_text(value.brief()));
  for (const auto& [key, value] : info_.metadata) {
    const uint64_t length = count_code_points(value);
    // Long before it is escaped: kohya's training records have hundreds of kilobytes.
    std::string shown = escape_text(std::string_view(value).substr(0, 4 * kMaxMetadata));
    if (length > kMaxMetadata)
      shown = cut(std::move(shown), kMaxMetadata) + " (" + grouped_digits(length) + " characters)";
    all.emplace_back(key, std::move(shown));
  }
  if (all.empty()) return;
  out_ += "\nFile metadata:\n";
  for (const auto& [key, value] : all) out_ += "  " + escape_text(key) + ": " + value + "\n";
}

void Writer::dtypes() {
  std::vector<DTypeTotal> totals;
  for (const TensorRow* row : rows_) {
    const TensorInfo& stored = checkpoint_.info(row->tensor);
    auto total =
        std::find_if(totals.begin(), totals.end(), [&](const auto& t) { return t.dtype == stored.dtype; });
    if (total == totals.end()) total = totals.insert(total, DTypeTotal{stored.dtype, 0, 0, 0});
    ++total->tensors;
    total->bytes += stored.bytes();
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const auto& a, const auto& b) { return a.tensors > b.tensors; });
  out_ += "\nDtype summary:\n";
  for (const DTypeTotal& total : totals) {
    std::string count = std::to_string(total.tensors);
    if (count.size() < 6) count.insert(0, 6 - count.size(), ' ');
    out_ += "  " + padded(std::string(dtype_info(total.dtype).torch), 16) + "  " + count + " tensors  " +
            bytes_text(total.bytes) + "\n";
  }
}

void Writer::tensors() {
  const bool sharded = checkpoint_.shards.size() > 1;
  const bool layout = !info_.layouts.empty();
  uint64_t bytes = 0;
  for (const TensorRow* row : rows_) bytes += checkpoint_.info(row->tensor).bytes();
  std::vector<std::string> head = {"Key", "Dtype", "Shape"};
  out_ += "\n";
  if (options_.fold) {
    head.insert(head.end(), {"Count", "Bytes"});
    TextTable table(std::move(head));
    for (const FoldedRow& row : fold_rows(info_, rows_))
      table.add({escape_text(row.pattern), std::string(dtype_info(row.dtype).torch), cross(row.shape),
                 row.count > 1 ? "×" + grouped_digits(row.count) : "", size_text(row.bytes)});
    table.print(out_, options_.width, options_.ascii);
  } else {
    if (options_.offsets) head.insert(head.end(), {"Begin", "End"});
    if (options_.offsets && sharded) head.emplace_back("File");
    if (layout) head.emplace_back("Layout");
    TextTable table(std::move(head));
    for (const TensorRow* row : rows_) {
      const TensorInfo& stored = checkpoint_.info(row->tensor);
      std::vector<std::string> cells = {escape_text(stored.name), std::string(dtype_info(stored.dtype).torch),
                                        cross(stored.shape)};
      if (options_.offsets)
        cells.insert(cells.end(), {std::to_string(stored.begin), std::to_string(stored.end)});
      if (options_.offsets && sharded)
        cells.push_back(escape_text(checkpoint_.shards[row->tensor.shard].name));
      if (layout) {
        std::string cell(row->layout);
        if (row->logical_dtype)
          cell += " " + std::string(dtype_info(*row->logical_dtype).torch) +
                  (row->logical_shape ? " " + cross(*row->logical_shape) : "");
        else if (row->companion_of)
          cell = "  part of it";
        cells.push_back(std::move(cell));
      }
      table.add(std::move(cells));
    }
    table.print(out_, options_.width, options_.ascii);
  }
  out_ += "\nTotal tensor data: " + ratio_text(bytes, uint64_t{1} << 30, 3) + " GiB  (" +
          grouped_digits(bytes) + " bytes)\n";
}

}  // namespace

std::string info_text(const ModelInfo& info, const InfoTextOptions& options) {
  std::string text = Writer(info, options).write();
  return options.ascii ? ascii_text(text) : text;
}

}  // namespace tftf
