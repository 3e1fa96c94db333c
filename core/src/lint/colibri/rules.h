// The CO rules (spec colibri 10).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lint/colibri/facts.h"
#include "lint/colibri/reads.h"
#include "lint/file_findings.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf {

// What the rules about a container look at.
struct ColibriInput {
  const ColibriContainer* container = nullptr;
  std::string place;        // as findings name the folder, or the path of the one file
  std::string config_path;  // of config.json, empty without one
  bool is_folder = false;
  bool complete = false;  // every shard of the folder could be read
  const colibri::RansManifest* manifest = nullptr;
  std::vector<std::string> shard_names;  // base names of all shards, also unreadable ones
  std::function<TensorPlace(const ColibriTensor&)> place_of{};  // in the result
};

// Pairs: CO001 to CO007, CO012, CO013, CO016, CO017, CO021, CO026.
void check_colibri_pairs(FileFindings& findings, const ColibriInput& input);
// The pairs whose reading the data pass judges: those of CO012, CO016 and CO017, and every int4-grouped one.
std::vector<ColibriCheck> colibri_checks(const ColibriInput& input);
// Stamps and lone tensors: CO008 to CO011, CO014, CO015, CO018, CO020, CO027, CO110.
void check_colibri_stamps(FileFindings& findings, const ColibriInput& input);
// The model as a whole: CO019, CO022 to CO024.
void check_colibri_model(FileFindings& findings, const ColibriInput& input);
// CO025; records whose heads are sound are left for the data pass.
void check_colibri_rans(FileFindings& findings, const ColibriInput& input, LintResult& result);

// A finding about a weight, with the values that all rules about pairs have; null when it is only counted.
Diagnostic* colibri_pair_finding(FileFindings& findings, Rule rule, const ColibriPair& pair);

// "int4-grouped with group size 48".
std::string colibri_format_text(colibri::Format format, uint64_t group_size);

}  // namespace tftf
