// The report object of spec lint-rules 2, and the catalogue as data.
#include <map>

#include "lint/report/parts.h"
#include "tftf/base/dtype.h"
#include "tftf/base/version.h"

namespace tftf {
namespace {

OrderedJson value_json(const DiagnosticValue& value) {
  struct Visitor {
    OrderedJson operator()(std::monostate) const { return nullptr; }
    OrderedJson operator()(const std::string& text) const { return text; }
    OrderedJson operator()(uint64_t number) const { return json_integer(number); }
    OrderedJson operator()(int64_t number) const { return json_integer(number); }
    OrderedJson operator()(double number) const { return json_float(number); }
    OrderedJson operator()(const std::vector<std::string>& list) const { return list; }
    OrderedJson operator()(const std::vector<uint64_t>& list) const {
      OrderedJson out = OrderedJson::array();
      for (uint64_t item : list) out.push_back(json_integer(item));
      return out;
    }
  };
  return std::visit(Visitor{}, value);
}

OrderedJson values_json(const Diagnostic& finding) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, value] : finding.values) out[name] = value_json(value);
  // A rule whose subject is the tensor need not repeat it among its values; the message has it either way.
  if (finding.subject && !out.contains("tensor") &&
      rule_info(finding.rule).message.find("{tensor}") != std::string_view::npos)
    out["tensor"] = *finding.subject;
  return out;
}

OrderedJson issue_json(const Issue& issue, bool several) {
  const Diagnostic& finding = issue.finding;
  OrderedJson out;
  out["rule"] = rule_info(finding.rule).id;
  out["name"] = rule_info(finding.rule).name;
  out["severity"] = static_cast<int>(issue.severity);
  out["message"] = message(finding);
  if (several) out["input"] = issue.input;
  out["file"] = finding.file;
  out["subject"] = finding.subject ? OrderedJson(*finding.subject) : OrderedJson(nullptr);
  out["pointer"] = finding.pointer.empty() ? OrderedJson(nullptr) : OrderedJson(finding.pointer);
  out["offset"] = finding.offset ? json_integer(*finding.offset) : OrderedJson(nullptr);
  out["values"] = values_json(finding);
  return out;
}

OrderedJson file_json(const LintedFile& file) {
  struct Sum {
    uint64_t tensors = 0, elements = 0, bytes = 0;
  };
  const Header& header = file.scan.header;
  std::map<DType, Sum> sums;  // in rank order
  for (const TensorInfo& tensor : header.tensors) {
    Sum& sum = sums[tensor.dtype];
    ++sum.tensors;
    sum.elements += element_count(tensor.shape).value_or(0);
    sum.bytes += tensor.end >= tensor.begin ? tensor.bytes() : 0;
  }
  OrderedJson dtypes = OrderedJson::object();
  for (const auto& [dtype, sum] : sums)
    dtypes[std::string(dtype_name(dtype))] = {{"tensors", json_integer(sum.tensors)},
                                              {"elements", json_integer(sum.elements)},
                                              {"bytes", json_integer(sum.bytes)}};
  OrderedJson format = nullptr;
  OrderedJson keys = OrderedJson::array();
  for (const auto& [key, value] : header.metadata) {
    keys.push_back(key);
    if (key == "format") format = value;
  }
  OrderedJson out;
  out["file"] = file.path;
  out["size"] = json_integer(file.scan.file_size);
  out["headerLength"] = json_integer(header.header_length);
  out["tensors"] = json_integer(static_cast<uint64_t>(header.tensors.size()));
  out["dtypes"] = std::move(dtypes);
  out["format"] = std::move(format);
  out["metadataKeys"] = std::move(keys);
  return out;
}

// The index that loaders take: model.safetensors.index.json, else the first.
OrderedJson index_json(const LintedFolder& folder) {
  OrderedJson out = nullptr;
  for (const std::string& index : folder.indexes)
    if (out.is_null() || index == "model.safetensors.index.json") out = index;
  return out;
}

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

OrderedJson folder_json(const LintedFolder& folder) {
  OrderedJson adapter = nullptr;
  if (folder.adapter) {
    adapter = OrderedJson::object();
    adapter["peftType"] = text_or_null(folder.adapter->peft_type);
    adapter["rank"] = folder.adapter->rank ? json_integer(*folder.adapter->rank) : OrderedJson(nullptr);
    adapter["alpha"] = text_or_null(folder.adapter->alpha);
    adapter["baseModel"] = text_or_null(folder.adapter->base_model);
    adapter["modules"] = json_integer(folder.adapter->modules);
  }
  OrderedJson out;
  out["folder"] = folder.folder;
  out["shards"] = folder.shards;
  out["index"] = index_json(folder);
  out["modelType"] = text_or_null(folder.model_type);
  out["adapter"] = std::move(adapter);
  return out;
}

}  // namespace

std::string json_report(const LintReport& report) {
  const bool several = report.inputs.size() != 1;
  OrderedJson given = OrderedJson::array();
  OrderedJson files = OrderedJson::array();
  OrderedJson folders = OrderedJson::array();
  for (size_t number = 0; number < report.inputs.size(); ++number) {
    const ReportInput& input = report.inputs[number];
    given.push_back(input.given);
    const auto add = [&](OrderedJson& list, OrderedJson item) {
      if (several) item["input"] = number;
      list.push_back(std::move(item));
    };
    for (const LintedFile& file : input.files)
      if (file.scan.readable) add(files, file_json(file));
    for (const LintedFolder& folder : input.folders) add(folders, folder_json(folder));
  }
  OrderedJson messages = OrderedJson::array();
  for (const Issue& issue : report.issues.issues) messages.push_back(issue_json(issue, several));

  OrderedJson skipped = OrderedJson::array();
  for (size_t number = 0; number < report.inputs.size(); ++number) {
    for (const std::string& link : report.inputs[number].skipped_links) {
      OrderedJson item = {{"file", link}};
      if (several) item["input"] = number;
      skipped.push_back(std::move(item));
    }
  }

  OrderedJson out;
  out["validator"] = {{"name", "tftf-lint"}, {"version", version()}};
  out["input"] = several ? given : given[0];
  if (!report.timestamp.empty()) out["timestamp"] = report.timestamp;
  out["issues"] = {{"numErrors", json_integer(report.issues.counts[0])},
                   {"numWarnings", json_integer(report.issues.counts[1])},
                   {"numInfos", json_integer(report.issues.counts[2])},
                   {"numHints", json_integer(report.issues.counts[3])},
                   {"messages", std::move(messages)},
                   {"truncated", report.issues.truncated()}};
  if (report.baseline) {
    OrderedJson stale = OrderedJson::array();
    for (const BaselineEntry& entry : report.baseline->stale)
      stale.push_back({{"rule", entry.rule},
                       {"file", entry.file},
                       {"subject", entry.subject ? OrderedJson(*entry.subject) : OrderedJson(nullptr)},
                       {"count", json_integer(entry.count)}});
    out["baseline"] = {{"known", json_integer(report.baseline->known)}, {"stale", std::move(stale)}};
  }
  out["info"] = {
      {"files", std::move(files)}, {"folders", std::move(folders)}, {"skippedLinks", std::move(skipped)}};
  return json_text(out);
}

std::string rules_json() {
  OrderedJson rules = OrderedJson::array();
  for (const RuleInfo& info : all_rules()) rules.push_back(rule_object(info));
  return json_text({{"rules", std::move(rules)}});
}

std::string rule_json(Rule rule) { return json_text(rule_object(rule_info(rule))); }

}  // namespace tftf
