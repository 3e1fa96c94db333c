// `tftf-lint`, and the same as `tftf lint`.
#include <ctime>
#include <string>
#include <vector>

#include "commands.h"
#include "lint_output.h"
#include "progress.h"
#include "tftf/base/escape.h"
#include "tftf/lint/report.h"
#include "tftf_native/lint_tree.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {
namespace {

constexpr uint64_t kMaxPolicyFile = 1 << 20;
constexpr uint64_t kMaxBaselineFile = uint64_t{64} << 20;

// A file of the command line that cannot serve is a mistake there: status 1 would say that something was found.
Error usage_of(Error error) {
  if (error.code == ErrorCode::kRefusedInput) error.code = ErrorCode::kUsage;
  return error;
}

Error usage(std::string message) { return {.code = ErrorCode::kUsage, .message = std::move(message)}; }

Result<LintPolicy> read_policy(const CommandLine& line) {
  PolicyWords words{.only = line.values("only"),
                    .ignore = line.values("ignore"),
                    .severities = line.values("severity"),
                    .max_issues = line.number("max-issues"),
                    .fail_on = line.value("fail-on"),
                    .strict = line.has("strict")};
  // A contradiction among the options is told before a configuration that cannot be read.
  Result<LintPolicy> alone = make_policy(words);
  if (!alone || !line.has("config")) return alone;
  Result<std::string> text = read_small_file(line.value("config"), kMaxPolicyFile);
  if (!text) return usage_of(std::move(text).error());
  words.config_file = line.value("config");
  words.config_text = std::move(*text);
  return make_policy(words);
}

Result<ReportFormat> read_format(const CommandLine& line, bool json) {
  if (!line.has("format")) return json ? ReportFormat::kJson : ReportFormat::kText;
  const std::string name = line.value("format");
  const std::optional<ReportFormat> format = find_report_format(name);
  if (!format)
    return usage("There is no report format " + quote_name(name) +
                 "; text, json, sarif, github and junit are.");
  if (json && *format != ReportFormat::kJson)
    return usage("--json is --format json; the command line also says --format " + name + ".");
  return *format;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// Lints every tree in turn; findings[i] belongs to report.inputs[i].
Result<void> lint_trees(Session& session, const CommandLine& line, const std::vector<LintTree>& trees,
                        const LintTree* base, LintReport& report, std::vector<PathFindings>& findings) {
  DataPassOptions data;
  data.threads = session.common.threads;
  Result<const KernelTable*> kernels = session.kernels();
  if (!kernels) return std::move(kernels).error();
  data.kernels = *kernels;
  data.stop = &Session::stop_requested();
  ProgressBar bar(session.common);
  data.progress = [&](const DataPassProgress& p) {
    bar.update(p.comparing ? "comparing" : "reading", p.done, p.total);
  };
  for (const LintTree& tree : trees) {
    LintResult result = run_linter(tree, base, session.common.max_header);
    if (result.base_problem)
      return Error{.code = ErrorCode::kUsagePath,
                   .message = "--base " + quote_name(line.value("base")) +
                              " cannot serve: " + *result.base_problem + ".",
                   .file = line.value("base")};
    TFTF_TRY(check_linted(result, tree.input.given));
    if (line.has("data")) TFTF_TRY(run_data_pass(tree, result, data));
    ReportInput input;
    input.given = tree.input.given;
    input.is_folder = tree.input.main.empty();
    input.place = place_prefix(tree.input.given, input.is_folder);
    input.files = std::move(result.files);
    input.folders = std::move(result.folders);
    input.skipped_links = tree.skipped_links;
    report.inputs.push_back(std::move(input));
    findings.push_back({std::move(result.findings), std::move(result.omitted)});
  }
  return {};
}

std::vector<BaselineScope> scopes_of(const LintReport& report, const std::vector<LintTree>& trees) {
  std::vector<BaselineScope> scopes;
  for (size_t i = 0; i < report.inputs.size(); ++i)
    scopes.push_back({report.inputs[i].place, is_index_name(trees[i].input.main) ? "" : trees[i].input.main});
  return scopes;
}

int write_baseline(Session& session, const std::string& path, const LintReport& report,
                   const std::vector<LintTree>& trees, const std::vector<PathFindings>& findings) {
  const std::string text = baseline_text(findings, scopes_of(report, trees), report.policy);
  if (auto written = write_report(path, text); !written) return session.fail(written.error());
  uint64_t count = 0;
  for (const PathFindings& one : findings) {
    for (const Diagnostic& finding : one.findings) count += report.policy.reports(finding.rule) ? 1 : 0;
    for (const OmittedFindings& omitted : one.omitted)
      if (report.policy.reports(omitted.rule)) count += omitted.count;
  }
  session.note(std::to_string(count) + (count == 1 ? " finding is" : " findings are") +
               " known from now on: " + escape_text(path) + ".");
  return 0;
}

Result<std::vector<BaselineEntry>> read_baseline(const std::string& path) {
  Result<std::string> text = read_small_file(path, kMaxBaselineFile);
  if (!text) return usage_of(std::move(text).error());
  return parse_baseline(path, *text);
}

}  // namespace

int run_rules(Session& session, const CommandLine& line) {
  const bool colour = colours_wanted();
  if (line.words.empty()) {
    session.print(session.common.json ? rules_json() : rules_text(colour));
    return 0;
  }
  const Result<std::vector<Rule>> rule = parse_rule_list(line.words[0]);
  if (!rule || rule->size() != 1)
    return session.fail(
        usage("There is no rule " + quote_name(line.words[0]) + ". The list: tftf-lint rules."));
  session.print(session.common.json ? rule_json(rule->front()) : rule_text(rule->front(), colour));
  return 0;
}

int run_lint(Session& session, const CommandLine& line) {
  Result<ReportFormat> format = read_format(line, session.common.json);
  if (!format) return session.fail(format.error());
  session.common.json = *format == ReportFormat::kJson;
  LintReport report;
  Result<LintPolicy> policy = read_policy(line);
  if (!policy) return session.fail(policy.error());
  report.policy = std::move(*policy);
  std::optional<std::vector<BaselineEntry>> known;
  if (line.has("baseline")) {
    auto entries = read_baseline(line.value("baseline"));
    if (!entries) return session.fail(entries.error());
    known = *std::move(entries);
  }
  report.with_data = line.has("data");
  report.with_base = line.has("base");
  if (line.has("timestamp")) report.timestamp = now_text();

  std::vector<LintTree> trees;
  for (const std::string& path : line.words) {
    Result<LintTree> tree = read_lint_tree(path);
    if (!tree) return session.fail(tree.error());
    trees.push_back(std::move(*tree));
  }
  std::optional<LintTree> base;
  if (report.with_base) {
    Result<LintTree> tree = read_lint_folder(line.value("base"));
    if (!tree) return session.fail(tree.error());
    base = std::move(*tree);
  }
  const std::string output = line.value("output");
  for (const char* option : {"output", "write-baseline"}) {
    if (!line.has(option)) continue;
    if (Result<void> fine = check_report_target(std::string("--") + option, line.value(option), trees); !fine)
      return session.fail(fine.error());
  }

  std::vector<PathFindings> findings;
  if (Result<void> done = lint_trees(session, line, trees, base ? &*base : nullptr, report, findings); !done)
    return session.fail(done.error());
  if (line.has("write-baseline"))
    return write_baseline(session, line.value("write-baseline"), report, trees, findings);
  if (known)
    report.baseline = use_baseline(findings, scopes_of(report, trees), *known,
                                   [&](Rule rule) { return is_rule_checked(report, rule); });
  report.issues = apply_policy(findings, report.policy);
  TextStyle style;
  style.colour = !line.has("output") && colours_wanted();
  style.quiet = session.common.quiet;
  style.verbose = session.common.verbose;
  const std::string text = render_report(report, *format, style);
  if (!line.has("output")) {
    session.print(text);
  } else if (Result<void> written = write_report(output, text); !written) {
    // The report is not lost: who asked for it gets it here, and no second document behind it.
    session.print(text);
    session.common.json = false;
    return session.fail(written.error());
  }
  return report.issues.failed ? 1 : 0;
}

}  // namespace tftf::cli
