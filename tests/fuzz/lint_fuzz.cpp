// The linter: any folder, the data pass included. Requests stay inside the files, answers may come in any order,
// findings are ordered, and no report lets a control character of a file through.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "input.h"
#include "packed_folder.h"
#include "tftf/lint/data_pass.h"
#include "tftf/lint/linter.h"
#include "tftf/lint/policy.h"
#include "tftf/lint/report.h"
#include "tftf/simd/kernels.h"

namespace {

using tftf::fuzz::require;

using tftf::Bytes;
using tftf::fuzz::PackedFile;

Bytes part_of(std::string_view content, tftf::ByteRange range) {
  require(range.offset <= content.size() && range.length <= content.size() - range.offset);
  return tftf::as_bytes(content.substr(range.offset, range.length));
}

tftf::LintInput input_of(const std::vector<PackedFile>& files) {
  tftf::LintInput input;
  input.given = "model";
  std::set<std::string> folders;
  for (const PackedFile& file : files) {
    input.entries.push_back({.path = file.path, .size = file.content.size()});
    for (std::string& folder : tftf::fuzz::folders_of(file.path)) folders.insert(std::move(folder));
  }
  for (const std::string& folder : folders) input.entries.push_back({.path = folder, .is_folder = true});
  return input;
}

tftf::LintResult lint(const std::vector<PackedFile>& files, bool backwards) {
  tftf::Linter linter(input_of(files), {});
  for (auto wanted = linter.want(); !wanted.empty(); wanted = linter.want()) {
    if (backwards) std::reverse(wanted.begin(), wanted.end());
    for (const tftf::LintRequest& request : wanted) {
      require(request.entry < files.size() && request.file == files[request.entry].path);
      linter.supply(request, part_of(files[request.entry].content, request.range));
    }
  }
  return linter.take();
}

void pass_over_data(const std::vector<PackedFile>& files, tftf::LintResult& result) {
  tftf::DataPass pass(result);
  do {
    for (uint64_t i = 0; i < pass.piece_count(); i++) {
      const tftf::DataPass::Piece piece = pass.piece(i);
      std::array<Bytes, 2> bytes;
      for (uint32_t part = 0; part < piece.count; part++) {
        const auto& from = piece.parts[part];
        bytes[part] = part_of(files[result.files[from.file].entry].content, from.range);
      }
      pass.add(i, pass.run(i, bytes, tftf::best_kernels()));
    }
  } while (pass.next_stage());
  for (tftf::Diagnostic& finding : tftf::check_data(result, pass.take()))
    result.findings.push_back(std::move(finding));
  tftf::sort_findings(result.findings);
}

// SARIF tells all rules whatever was found, which takes longer than everything else: one input in sixteen is asked for it.
std::string report(tftf::LintResult result, bool sarif) {
  tftf::LintReport report;
  report.with_data = true;
  std::vector<tftf::PathFindings> paths(1);
  paths[0].findings = std::move(result.findings);
  paths[0].omitted = std::move(result.omitted);
  report.issues = tftf::apply_policy(paths, report.policy);
  report.inputs.push_back(
      {.given = "model", .is_folder = true, .files = result.files, .folders = result.folders});
  for (const auto format :
       {tftf::ReportFormat::kText, tftf::ReportFormat::kGithub, tftf::ReportFormat::kJunit,
        tftf::ReportFormat::kSarif, tftf::ReportFormat::kJson}) {
    if (format == tftf::ReportFormat::kSarif && !sarif) continue;
    // JSON keeps everything raw that it may (spec cli 5), and DEL it may.
    const bool json = format == tftf::ReportFormat::kSarif || format == tftf::ReportFormat::kJson;
    for (const char c : tftf::render_report(report, format))
      require(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && (json || c != 0x7F)));
  }
  return tftf::json_report(report);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto files = tftf::fuzz::unpack_folder({reinterpret_cast<const char*>(data), size});
  tftf::LintResult forwards = lint(files, false);
  tftf::LintResult backwards = lint(files, true);
  pass_over_data(files, forwards);
  pass_over_data(files, backwards);
  const bool sarif = size % 16 == 0;
  require(report(std::move(forwards), sarif) == report(std::move(backwards), sarif));
  return 0;
}
