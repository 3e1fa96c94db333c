// What the detection of quantised layouts says of a checkpoint, as findings: the linter, `info` and `dequant` judge by one
// function.
#pragma once

#include <string>
#include <unordered_set>

#include "lint/layout/quant_rules.h"
#include "tftf/quant/format.h"

namespace tftf {

// The modules of which a more special rule has said that their scale is missing, stale or without a weight.
std::unordered_set<std::string> modules_with_findings(FileFindings& findings, const QuantFacts& facts);

// QT300 and QT309. Modules in `named` have a finding of a more special rule.
void report_layout_problems(FileFindings& out, const QuantFacts& facts, const LayoutReport& report,
                            const std::unordered_set<std::string>& named);

}  // namespace tftf
