// Pairs of weights and scales: what a reader makes of each.
#include "lint/colibri/rules.h"

#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/readings.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf {
namespace {

using colibri::Format;
using colibri::Refusal;

std::string quoted_stamp(const std::optional<std::string>& stamp) {
  return stamp ? quote_name(*stamp) : "missing";
}

std::string format_name(Format format) { return std::string(colibri::format_info(format).name); }

bool is_probed(uint64_t group) {
  return std::find(std::begin(colibri::kProbedGroupSizes), std::end(colibri::kProbedGroupSizes), group) !=
         std::end(colibri::kProbedGroupSizes);
}

std::string reading_text(const colibri::Reading& reading) {
  if (reading.format != Format::kInt4Grouped) return format_name(reading.format);
  return colibri_format_text(reading.format, reading.least_group) +
         (reading.most_group == reading.least_group ? "" : " to " + std::to_string(reading.most_group));
}

std::string scales_text(const TensorInfo& scales) {
  return std::string(dtype_name(scales.dtype)) + " " + shape_text(scales.shape) + " of " +
         std::to_string(scales.bytes()) + " bytes";
}

// What the inferred format needs.
uint64_t expected_scale_bytes(const ColibriPair& pair, Format format) {
  const auto count = colibri::scale_count(format, pair.sizes.rows, pair.sizes.columns, 1);
  return count ? *count * 4 : 0;
}

void report_scale_bytes(FileFindings& findings, const ColibriPair& pair, Format format) {
  Diagnostic* finding = colibri_pair_finding(findings, Rule::CO002, pair);
  if (!finding) return;
  finding->values.emplace_back("format", format_name(format));
  finding->values.emplace_back("expected", expected_scale_bytes(pair, format));
  finding->values.emplace_back("found", scales_text(pair.scales.info()));
}

// Types and shapes that the resolver does not look at; false when nothing more can be said of the pair.
bool check_types(FileFindings& findings, const ColibriPair& pair, const JsonValue* config) {
  const TensorInfo& weight = pair.weight.info();
  const TensorInfo& scales = pair.scales.info();
  if (weight.dtype != DType::U8) {
    if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO001, pair))
      finding->values.emplace_back("detail", "it is " + std::string(dtype_name(weight.dtype)) + ", not U8");
    return false;
  }
  const bool byte_scales = scales.dtype == DType::U8 || scales.dtype == DType::F8_E8M0;
  if (byte_scales && pair.shape &&
      colibri::weight_bytes(Format::kInt8Row, pair.sizes.rows, pair.sizes.columns) == weight.bytes()) {
    colibri_pair_finding(findings, Rule::CO005, pair);
    return false;
  }
  if (scales.dtype != DType::F32 || scales.shape.size() != 1 || scales.bytes() == 0) {
    if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO002, pair)) {
      finding->values.emplace_back("format", std::string("a quantised weight"));
      finding->values.emplace_back("expected", std::string("a row of F32, so many"));
      finding->values.emplace_back("found", scales_text(scales));
    }
    return false;
  }
  if (config && weight.shape.size() == 2)
    if (const auto implied = colibri::implied_shape(weight.name, *config);
        implied && implied->first != weight.shape[0]) {
      if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO001, pair))
        finding->values.emplace_back("detail", "it has " + std::to_string(weight.shape[0]) +
                                                   " rows where config.json implies " +
                                                   std::to_string(implied->first));
      return false;
    }
  return true;
}

void report_refusal(FileFindings& findings, const ColibriPair& pair) {
  const colibri::Resolution& resolution = *pair.resolution;
  constexpr Rule kRules[] = {Rule::CO003, Rule::CO001, Rule::CO004, Rule::CO005,
                             Rule::CO002, Rule::CO006, Rule::CO007};
  const Refusal refusal = *resolution.refusal;
  if (refusal == Refusal::kScaleBytesMismatch) return report_scale_bytes(findings, pair, resolution.inferred);
  Diagnostic* finding = colibri_pair_finding(findings, kRules[static_cast<size_t>(refusal)], pair);
  if (!finding) return;
  finding->values.emplace_back("class", std::string(colibri::refusal_class(refusal)));
  finding->values.emplace_back("stamp", quoted_stamp(pair.sizes.stamp));
  finding->values.emplace_back("format", colibri_format_text(resolution.inferred, 0));
  if (refusal == Refusal::kUnknownWeightBytes)
    finding->values.emplace_back("detail", std::string("no format takes that"));
  if (refusal == Refusal::kFmt6Collision) {
    std::vector<std::string> readings;
    for (const colibri::Reading& reading : colibri::possible_readings(
             pair.sizes.rows, pair.sizes.columns, pair.sizes.weight_bytes, pair.sizes.scale_bytes))
      readings.push_back(reading_text(reading));
    if (colibri::blocks128(pair.sizes.rows) * colibri::blocks128(pair.sizes.columns) == 4)
      readings.emplace_back("fp8-e4m3-b128 with UE8M0 scales");
    finding->values.emplace_back("readings", std::move(readings));
  }
}

void check_landmine(FileFindings& findings, const ColibriPair& pair, bool declares_fp8) {
  if (!pair.resolution->landmine || pair.sizes.stamp) return;
  if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO012, pair)) {
    finding->values.emplace_back("format", std::string("int8-row"));
    finding->values.emplace_back(
        "detail",
        std::string(
            pair.sizes.routed
                ? "If it is FP8, this container cannot hold it: a routed expert's stamp is not consulted."
                : "If it is FP8, stamp it fp8-e4m3-b128; if it is int8, stamp it int8-row."));
  }
  if (declares_fp8) colibri_pair_finding(findings, Rule::CO013, pair);
}

void check_groups(FileFindings& findings, const ColibriPair& pair) {
  if (pair.resolution->format != Format::kInt4Grouped) return;
  const uint64_t columns = pair.sizes.columns;
  const uint64_t taken = pair.resolution->group_size;
  const uint64_t groups = ceil_div(columns, taken);
  std::vector<std::string> others;
  for (const uint64_t other : colibri::kProbedGroupSizes)
    if (other != taken && other < columns && ceil_div(columns, other) == groups)
      others.push_back(std::to_string(other));
  if (others.empty()) return;
  if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO016, pair)) {
    std::string list;
    for (const std::string& other : others) list += (list.empty() ? "" : ", ") + other;
    finding->values.emplace_back("groups", groups);
    finding->values.emplace_back("group_size", taken);
    finding->values.emplace_back("detail",
                                 "written with " + list + " it would be misread; check with --data");
  }
}

void check_aliases(FileFindings& findings, const ColibriPair& pair) {
  if (pair.sizes.stamp) return;
  const Format format = *pair.resolution->format;
  std::vector<std::string> others;
  for (const colibri::Reading& reading : colibri::possible_readings(
           pair.sizes.rows, pair.sizes.columns, pair.sizes.weight_bytes, pair.sizes.scale_bytes)) {
    if (reading.format == format) continue;
    if (pair.resolution->landmine && reading.format == Format::kFp8Block128) continue;  // CO012
    others.push_back(reading_text(reading));
  }
  const bool odd_lattice = format == Format::kE8Lattice && pair.sizes.columns % colibri::kE8Block != 0;
  if (others.empty() && !odd_lattice) return;
  if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO017, pair)) {
    std::string detail = "no writer makes it at columns that are no multiple of 256";
    if (!others.empty()) {
      detail = "its sizes are also those of ";
      for (size_t i = 0; i < others.size(); ++i) detail += (i ? ", " : "") + others[i];
    }
    finding->values.emplace_back("format", colibri_format_text(format, pair.resolution->group_size));
    finding->values.emplace_back("detail", std::move(detail));
  }
}

void check_format(FileFindings& findings, const ColibriPair& pair) {
  const Format format = *pair.resolution->format;
  const TensorInfo& weight = pair.weight.info();
  const bool embedding = weight.name == "model.embed_tokens.weight" || weight.name == "lm_head.weight";
  if (embedding && (format == Format::kE8Lattice || format == Format::kFp8Block128))
    if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO021, pair))
      finding->values.emplace_back("format", format_name(format));
  if (format != Format::kE8Lattice) return;
  const auto tag = pair.scales.file->colibri.tag(pair.scales.number);
  if (!tag || *tag == colibri::kE8Tag) return;
  if (Diagnostic* finding = colibri_pair_finding(findings, Rule::CO026, pair)) {
    finding->values.emplace_back("format", format_name(format));
    finding->values.emplace_back("found", static_cast<double>(*tag));
  }
}

}  // namespace

Diagnostic* colibri_pair_finding(FileFindings& findings, Rule rule, const ColibriPair& pair) {
  Diagnostic* finding = findings.of(std::string(pair.weight.file->path)).add(rule);
  if (!finding) return nullptr;
  const std::string& name = pair.weight.info().name;
  finding->subject = name;
  finding->values = {{"tensor", name}};
  for (const auto& [key, value] :
       {std::pair("rows", pair.sizes.rows), std::pair("columns", pair.sizes.columns)})
    finding->values.emplace_back(key, pair.shape ? DiagnosticValue(value) : DiagnosticValue("?"));
  finding->values.emplace_back("weight_bytes", pair.sizes.weight_bytes);
  finding->values.emplace_back("scale_bytes", pair.sizes.scale_bytes);
  return finding;
}

std::string colibri_format_text(Format format, uint64_t group_size) {
  return format_name(format) + (group_size != 0 ? " with group size " + std::to_string(group_size) : "");
}

void check_colibri_pairs(FileFindings& findings, const ColibriInput& input) {
  for (const ColibriPair& pair : input.container->pairs) {
    if (!check_types(findings, pair, input.container->config()) || !pair.resolution) continue;
    if (pair.resolution->refusal) {
      report_refusal(findings, pair);
      continue;
    }
    check_landmine(findings, pair, input.container->declares_fp8);
    check_groups(findings, pair);
    check_aliases(findings, pair);
    check_format(findings, pair);
  }
}

std::vector<ColibriCheck> colibri_checks(const ColibriInput& input) {
  std::vector<ColibriCheck> checks;
  for (const ColibriPair& pair : input.container->pairs) {
    if (!pair.resolution || !pair.resolution->format) continue;
    const Format taken = *pair.resolution->format;
    const auto readings = colibri::possible_readings(pair.sizes.rows, pair.sizes.columns,
                                                     pair.sizes.weight_bytes, pair.sizes.scale_bytes);
    if (taken != Format::kInt4Grouped && (pair.sizes.stamp || readings.size() < 2)) continue;
    ColibriCheck check;
    check.weight = input.place_of(pair.weight);
    check.scales = input.place_of(pair.scales);
    check.rows = pair.sizes.rows;
    check.columns = pair.sizes.columns;
    check.row_bytes = pair.sizes.weight_bytes / pair.sizes.rows;
    check.row_scales = pair.sizes.scale_bytes / 4 / pair.sizes.rows;
    check.tag_is_six = pair.scales.file->colibri.tag(pair.scales.number) == colibri::kE8Tag;
    check.candidates.push_back({taken, pair.resolution->group_size});
    for (const colibri::Reading& reading : readings) {
      if (reading.format != Format::kInt4Grouped) {
        if (reading.format != taken) check.candidates.push_back({reading.format, 0});
        continue;
      }
      // Sizes near the true one may fit by chance: those that are in use come first.
      for (const bool in_use : {true, false})
        for (uint64_t group = reading.least_group; group <= reading.most_group; ++group)
          if (is_probed(group) == in_use && group != pair.resolution->group_size)
            check.candidates.push_back({reading.format, group});
    }
    // FP8's scales are no whole number a row; they say nothing about its codes.
    if (pair.sizes.scale_bytes / 4 != check.row_scales * check.rows) check.row_scales = 0;
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace tftf
