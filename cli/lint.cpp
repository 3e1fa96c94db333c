// `tftf-lint`, and the same as `tftf lint`.
#include <charconv>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "lint_output.h"
#include "options.h"
#include "progress.h"
#include "tftf/base/escape.h"
#include "tftf/base/version.h"
#include "tftf/lint/report.h"
#include "tftf_native/lint_tree.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {
namespace {

struct LintArguments {
  std::vector<std::string> paths;
  bool data = false;
  std::string base;
  std::string format;
  std::string output;
  std::vector<std::string> ignore;
  std::vector<std::string> only;
  std::vector<std::string> severities;
  std::optional<uint64_t> max_issues;
  std::string fail_on;
  bool strict = false;
  std::string config;
  std::string baseline;
  std::string write_baseline;
  bool timestamp = false;
  CLI::App* rules = nullptr;
  std::string rule;
};

constexpr const char* kLintExamples =
    "Examples:\n"
    "  tftf-lint model.safetensors                    one file\n"
    "  tftf-lint --data models/                       everything below a folder, values too\n"
    "  tftf-lint --strict --ignore ST044,ST053 m/     warnings fail, two rules do not count\n"
    "  tftf-lint --format sarif --output r.sarif m/   for code scanning\n"
    "  tftf-lint --base llama/ adapter/               an adapter against its base model\n"
    "  tftf-lint rules ST041                          what a rule means\n"
    "\n"
    "Exit status: 0 nothing at the fail level, 1 something is, 2 usage error or PATH missing, 3 internal "
    "error.";

constexpr uint64_t kMaxPolicyFile = 1 << 20;
constexpr uint64_t kMaxBaselineFile = uint64_t{64} << 20;

// A file of the command line that cannot serve is a mistake there: status 1 would say that something was found.
Error usage_of(Error error) {
  if (error.code == ErrorCode::kRefusedInput) error.code = ErrorCode::kUsage;
  return error;
}

Error usage(std::string message) { return {.code = ErrorCode::kUsage, .message = std::move(message)}; }

// CLI11 would take "-1" for a very large number.
uint64_t read_count(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw CLI::ValidationError("--max-issues takes a number from 0, not " + quote_name(text));
  return value;
}

void add_lint_options(CLI::App& command, LintArguments& arguments) {
  command.footer(kLintExamples);
  // Not marked as required: `rules` goes without.
  command.add_option("PATH", arguments.paths, "Files, index files, or folders with everything below them")
      ->type_name("");
  command.add_flag("--data", arguments.data,
                   "Read the tensors' values too (NaN, infinities, zeros, duplicates)");
  command.add_option("--base", arguments.base, "Base model that adapters are checked against")
      ->type_name("DIR")
      ->take_last();
  command.add_option("--fail-on", arguments.fail_on, "Level from which on the exit status is 1 (error)")
      ->type_name("error|warning|info")
      ->take_last();
  command.add_flag("--strict", arguments.strict, "The same as --fail-on warning");
  add_texts(command, "--ignore", arguments.ignore, "Leave these rules out")->type_name("ID[,ID]");
  add_texts(command, "--only", arguments.only, "Check these rules only")->type_name("ID[,ID]");
  add_texts(command, "--severity", arguments.severities,
            "Treat a rule as error, warning, info or hint, or turn it off")
      ->type_name("ID=LEVEL");
  command
      .add_option_function<std::string>(
          "--max-issues", [&arguments](const std::string& text) { arguments.max_issues = read_count(text); },
          "Most messages of one rule in one file (100; 0: all). Counts stay whole")
      ->type_name("N")
      ->take_last();
  command.add_option("--config", arguments.config, "JSON file with ignore, only, override, max-issues")
      ->type_name("FILE")
      ->take_last();
  command.add_option("--baseline", arguments.baseline, "Findings that are known and do not count")
      ->type_name("FILE")
      ->take_last();
  command
      .add_option("--write-baseline", arguments.write_baseline,
                  "Write all findings to this file as known ones; the exit status is 0")
      ->type_name("FILE")
      ->take_last();
  command.add_option("--format", arguments.format, "Form of the report (text)")
      ->type_name("text|json|sarif|github|junit")
      ->take_last()
      ->group(kOutputGroup);
  command.add_option("--output", arguments.output, "Write the report to this file")
      ->type_name("FILE")
      ->take_last()
      ->group(kOutputGroup);
  command.add_flag("--timestamp", arguments.timestamp, "Put the time into the report")->group(kOutputGroup);
}

Result<LintPolicy> read_policy(const LintArguments& arguments) {
  PolicyWords words{.only = arguments.only,
                    .ignore = arguments.ignore,
                    .severities = arguments.severities,
                    .max_issues = arguments.max_issues,
                    .fail_on = arguments.fail_on,
                    .strict = arguments.strict};
  // A contradiction among the options is told before a configuration that cannot be read.
  Result<LintPolicy> alone = make_policy(words);
  if (!alone || arguments.config.empty()) return alone;
  Result<std::string> text = read_small_file(arguments.config, kMaxPolicyFile);
  if (!text) return usage_of(std::move(text).error());
  words.config_file = arguments.config;
  words.config_text = std::move(*text);
  return make_policy(words);
}

Result<ReportFormat> read_format(const LintArguments& arguments, bool json) {
  if (arguments.format.empty()) return json ? ReportFormat::kJson : ReportFormat::kText;
  const std::optional<ReportFormat> format = find_report_format(arguments.format);
  if (!format)
    return usage("There is no report format " + quote_name(arguments.format) +
                 "; text, json, sarif, github and junit are.");
  if (json && *format != ReportFormat::kJson)
    return usage("--json is --format json; the command line also says --format " + arguments.format + ".");
  return *format;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

int run_rules(Session& session, const LintArguments& arguments) {
  if (!arguments.paths.empty()) return session.fail(usage("`rules` takes a rule id, no PATH before it."));
  const bool colour = colours_wanted();
  if (arguments.rule.empty()) {
    session.print(session.common.json ? rules_json() : rules_text(colour));
    return 0;
  }
  const Result<std::vector<Rule>> rule = parse_rule_list(arguments.rule);
  if (!rule || rule->size() != 1)
    return session.fail(
        usage("There is no rule " + quote_name(arguments.rule) + ". The list: tftf-lint rules."));
  session.print(session.common.json ? rule_json(rule->front()) : rule_text(rule->front(), colour));
  return 0;
}

// Lints every tree in turn; findings[i] belongs to report.inputs[i].
Result<void> lint_trees(Session& session, const LintArguments& arguments, const std::vector<LintTree>& trees,
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
      return Error{
          .code = ErrorCode::kUsagePath,
          .message = "--base " + quote_name(arguments.base) + " cannot serve: " + *result.base_problem + ".",
          .file = arguments.base};
    TFTF_TRY(check_linted(result, tree.input.given));
    if (arguments.data) TFTF_TRY(run_data_pass(tree, result, data));
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

int write_baseline(Session& session, const LintArguments& arguments, const LintReport& report,
                   const std::vector<LintTree>& trees, const std::vector<PathFindings>& findings) {
  const std::string text = baseline_text(findings, scopes_of(report, trees), report.policy);
  if (auto written = write_report(arguments.write_baseline, text); !written)
    return session.fail(written.error());
  uint64_t count = 0;
  for (const PathFindings& path : findings) {
    for (const Diagnostic& finding : path.findings) count += report.policy.reports(finding.rule) ? 1 : 0;
    for (const OmittedFindings& omitted : path.omitted)
      if (report.policy.reports(omitted.rule)) count += omitted.count;
  }
  session.note(std::to_string(count) + (count == 1 ? " finding is" : " findings are") +
               " known from now on: " + escape_text(arguments.write_baseline) + ".");
  return 0;
}

int run_lint(Session& session, const LintArguments& arguments) {
  if (arguments.rules->parsed()) return run_rules(session, arguments);
  Result<ReportFormat> format = read_format(arguments, session.common.json);
  if (!format) return session.fail(format.error());
  session.common.json = *format == ReportFormat::kJson;
  if (arguments.paths.empty())
    return session.fail(usage("A PATH is needed: a file or a folder (see --help)."));
  LintReport report;
  Result<LintPolicy> policy = read_policy(arguments);
  if (!policy) return session.fail(policy.error());
  report.policy = std::move(*policy);
  if (!arguments.baseline.empty() && !arguments.write_baseline.empty())
    return session.fail(usage("--write-baseline writes all findings; --baseline excludes it."));
  std::optional<std::vector<BaselineEntry>> known;
  if (!arguments.baseline.empty()) {
    Result<std::string> text = read_small_file(arguments.baseline, kMaxBaselineFile);
    if (!text) return session.fail(usage_of(std::move(text).error()));
    auto entries = parse_baseline(arguments.baseline, *text);
    if (!entries) return session.fail(entries.error());
    known = *std::move(entries);
  }
  report.with_data = arguments.data;
  report.with_base = !arguments.base.empty();
  if (arguments.timestamp) report.timestamp = now_text();

  std::vector<LintTree> trees;
  for (const std::string& path : arguments.paths) {
    Result<LintTree> tree = read_lint_tree(path);
    if (!tree) return session.fail(tree.error());
    trees.push_back(std::move(*tree));
  }
  std::optional<LintTree> base;
  if (report.with_base) {
    Result<LintTree> tree = read_lint_folder(arguments.base);
    if (!tree) return session.fail(tree.error());
    base = std::move(*tree);
  }
  for (const auto& [option, path] :
       {std::pair("--output", &arguments.output), std::pair("--write-baseline", &arguments.write_baseline)}) {
    if (path->empty()) continue;
    if (Result<void> fine = check_report_target(option, *path, trees); !fine)
      return session.fail(fine.error());
  }

  std::vector<PathFindings> findings;
  if (Result<void> done = lint_trees(session, arguments, trees, base ? &*base : nullptr, report, findings);
      !done)
    return session.fail(done.error());
  if (!arguments.write_baseline.empty()) return write_baseline(session, arguments, report, trees, findings);
  if (!arguments.baseline.empty())
    report.baseline = use_baseline(findings, scopes_of(report, trees), *known,
                                   [&](Rule rule) { return is_rule_checked(report, rule); });
  report.issues = apply_policy(findings, report.policy);
  TextStyle style;
  style.colour = arguments.output.empty() && colours_wanted();
  style.quiet = session.common.quiet;
  style.verbose = session.common.verbose > 0;
  const std::string text = render_report(report, *format, style);
  if (arguments.output.empty()) {
    session.print(text);
  } else if (Result<void> written = write_report(arguments.output, text); !written) {
    return session.fail(written.error());
  }
  return report.issues.failed ? 1 : 0;
}

// The arguments live as long as the command's callback.
void set_up(CLI::App& command, Session& session, const std::shared_ptr<LintArguments>& arguments) {
  add_lint_options(command, *arguments);
  arguments->rules =
      add_command(command, session, "rules", "List the rules, or explain one", [] { return 0; });
  arguments->rules->add_option("ID", arguments->rule, "Rule id, such as ST041")->type_name("");
}

}  // namespace

void add_lint(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<LintArguments>();
  CLI::App* command = add_command(app, session, "lint",
                                  "Check files and folders against the rules of the format and its loaders",
                                  [&session, arguments] { return run_lint(session, *arguments); });
  set_up(*command, session, arguments);
}

void set_up_lint_program(CLI::App& app, Session& session) {
  session.help_without_arguments = false;
  app.name("tftf-lint");
  app.description(
      "Check safetensors files and model folders against the rules of the format and its loaders.");
  app.set_version_flag("--version", "tftf-lint, version " + std::string(version()), "Show the version");
  app.formatter(help_formatter());
  add_common_options(app, session);
  const auto arguments = std::make_shared<LintArguments>();
  set_up(app, session, arguments);
  app.callback([&session, arguments] {
    session.command = [&session, arguments] { return run_lint(session, *arguments); };
  });
}

}  // namespace tftf::cli
