// The linter for JavaScript: its pump, the data pass piece by piece, the report.
#include <memory>
#include <optional>

#include "border.h"
#include "tftf/base/escape.h"
#include "tftf/lint/data_pass.h"
#include "tftf/lint/linter.h"
#include "tftf/lint/policy.h"
#include "tftf/lint/report.h"

namespace tftf::wasm {
namespace {

// {"given", "main" or null, "files": [{"path", "folder", "size", "unreadable"}]}
LintInput lint_input(const JsonValue& tree) {
  LintInput input;
  input.given = text_of(tree, "given");
  input.main = text_of(tree, "main");
  for (const JsonValue& file : tree.get("files")->elements) {
    LintEntry entry;
    entry.path = text_of(file, "path");
    entry.is_folder = flag_of(file, "folder");
    entry.size = number_of(file, "size", 0);
    entry.unreadable = text_of(file, "unreadable");
    input.entries.push_back(std::move(entry));
  }
  return input;
}

class LintRun {
 public:
  LintRun(LintInput input, LintOptions options)
      : given_(input.given),
        base_given_(options.base ? options.base->given : ""),
        is_folder_(input.main.empty()),
        linter_(std::move(input), std::move(options)) {}

  // [{"base", "file", "offset", "length", "id"}]
  std::string want() {
    OrderedJson list = OrderedJson::array();
    for (LintRequest& request : linter_.want()) {
      OrderedJson line = range_line(request.file, request.range.offset, request.range.length);
      line["base"] = request.source == LintSource::kBase;
      requests_.add(list, std::move(line), std::move(request));
    }
    return json_text(list);
  }
  void supply(uint32_t id, uintptr_t data, uint32_t length) {
    linter_.supply(requests_.at(id), bytes_at(data, length));
  }
  void fail(uint32_t id, const std::string& reason) { linter_.fail(requests_.at(id), reason); }
  // When nothing more is wanted.
  void finish() {
    result_ = linter_.take();
    if (result_.base_problem)
      throw Failure{
          {.code = ErrorCode::kUsagePath,
           .message = "--base " + quote_name(base_given_) + " cannot serve: " + *result_.base_problem + ".",
           .file = base_given_}};
    need(check_linted(result_, given_));
  }

  void begin_data() { pass_.emplace(result_); }
  double piece_count() const { return to_number(pass_->piece_count()); }
  double data_bytes() const { return to_number(pass_->bytes()); }
  // Where the parts of a piece lie: count, then file, offset and length of each.
  uintptr_t piece(double index) {
    const DataPass::Piece piece = pass_->piece(from_number(index));
    numbers_[0] = piece.count;
    for (uint32_t i = 0; i < piece.count; ++i) {
      numbers_[1 + 3 * i] = piece.parts[i].file;
      numbers_[2 + 3 * i] = to_number(piece.parts[i].range.offset);
      numbers_[3 + 3 * i] = to_number(piece.parts[i].range.length);
    }
    return reinterpret_cast<uintptr_t>(numbers_);
  }
  std::string data_file(uint32_t file) const { return result_.files[file].path; }
  // The piece's parts lie at `first` and `second` (0: there is none).
  void run_piece(double index, uintptr_t first, uintptr_t second) {
    const uint64_t at = from_number(index);
    const DataPass::Piece piece = pass_->piece(at);
    std::array<Bytes, 2> bytes;
    for (uint32_t i = 0; i < piece.count; ++i)
      bytes[i] = bytes_at(i == 0 ? first : second, static_cast<uint32_t>(piece.parts[i].range.length));
    pass_->add(at, pass_->run(at, bytes, best_kernels()));
  }
  void fail_data(uint32_t file, const std::string& reason) { pass_->fail(file, reason); }
  bool data_failed(uint32_t file) const { return pass_->failed(file); }
  bool next_stage() { return pass_->next_stage(); }
  void finish_data() {
    pass_->amend(result_);
    Diagnostics findings = check_data(result_, pass_->take(), &result_.omitted);
    result_.findings.insert(result_.findings.end(), std::make_move_iterator(findings.begin()),
                            std::make_move_iterator(findings.end()));
    sort_findings(result_.findings);
    pass_.reset();
  }

  // Everything found; this is empty afterwards.
  void move_to(LintReport& report, std::vector<PathFindings>& findings, const std::string& place) {
    ReportInput input;
    input.given = given_;
    input.is_folder = is_folder_;
    input.place = place;
    input.files = std::move(result_.files);
    input.folders = std::move(result_.folders);
    report.inputs.push_back(std::move(input));
    findings.push_back({std::move(result_.findings), std::move(result_.omitted)});
  }

 private:
  std::string given_;
  std::string base_given_;
  bool is_folder_;
  Linter linter_;
  Requests<LintRequest> requests_;
  LintResult result_;
  std::optional<DataPass> pass_;
  double numbers_[7] = {};
};

LintRun* open_lint(const std::string& request) {
  const JsonValue given = parse_argument(request);
  LintOptions options;
  options.max_header = number_of(given, "maxHeader", kDefaultMaxHeader);
  if (const JsonValue* base = given.get("base")) options.base = lint_input(*base);
  return new LintRun(lint_input(*given.get("tree")), std::move(options));
}

// One report over all inputs, in their order.
class Report {
 public:
  explicit Report(LintReport report) : report_(std::move(report)) {}

  void add(LintRun& run, const std::string& place) { run.move_to(report_, findings_, place); }
  void finish() {
    report_.issues = apply_policy(findings_, report_.policy);
    findings_.clear();
  }
  bool failed() const { return report_.issues.failed; }
  std::string render(const std::string& format, const std::string& style) const {
    const std::optional<ReportFormat> known = find_report_format(format);
    if (!known)
      throw Failure{{.code = ErrorCode::kUsage,
                     .message = "There is no report format " + quote_name(format) +
                                "; text, json, sarif, github and junit are."}};
    const JsonValue given = parse_argument(style);
    TextStyle text;
    text.colour = flag_of(given, "colour");
    text.quiet = flag_of(given, "quiet");
    text.verbose = flag_of(given, "verbose");
    return render_report(report_, *known, text);
  }

 private:
  LintReport report_;
  std::vector<PathFindings> findings_;
};

// The options of spec lint-rules 2 as JSON; `maxIssues` null: the default.
Report* open_report(const std::string& options) {
  const JsonValue given = parse_argument(options);
  PolicyWords words;
  words.only = texts_of(given, "only");
  words.ignore = texts_of(given, "ignore");
  words.severities = texts_of(given, "severities");
  if (given.get("maxIssues") != nullptr) words.max_issues = number_of(given, "maxIssues", 0);
  words.fail_on = text_of(given, "failOn");
  words.strict = flag_of(given, "strict");
  words.config_file = text_of(given, "configFile");
  words.config_text = text_of(given, "configText");
  LintReport report;
  report.policy = need(make_policy(words));
  report.with_data = flag_of(given, "data");
  report.with_base = flag_of(given, "base");
  report.timestamp = text_of(given, "timestamp");
  return new Report(std::move(report));
}

// The catalogue, or one rule of it; with `text` for people, else as data.
std::string rules_report(const std::string& id, bool text, bool colour) {
  if (id.empty()) return text ? rules_text(colour) : rules_json();
  const std::optional<Rule> rule = find_rule(id);
  if (!rule)
    throw Failure{{.code = ErrorCode::kUsage,
                   .message = "There is no rule " + quote_name(id) + ". The list: tftf-lint rules."}};
  return text ? rule_text(*rule, colour) : rule_json(*rule);
}

bool index_name(const std::string& name) { return is_index_name(name); }

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_lint) {
  using namespace emscripten;
  function("openLint", guard<&open_lint>, allow_raw_pointers());
  function("openReport", guard<&open_report>, allow_raw_pointers());
  function("rules", guard<&rules_report>);
  function("isIndexName", guard<&index_name>);
  class_<LintRun>("LintRun")
      .function("want", guard<&LintRun::want>)
      .function("supply", guard<&LintRun::supply>)
      .function("fail", guard<&LintRun::fail>)
      .function("finish", guard<&LintRun::finish>)
      .function("beginData", guard<&LintRun::begin_data>)
      .function("pieceCount", guard<&LintRun::piece_count>)
      .function("dataBytes", guard<&LintRun::data_bytes>)
      .function("piece", guard<&LintRun::piece>)
      .function("dataFile", guard<&LintRun::data_file>)
      .function("runPiece", guard<&LintRun::run_piece>)
      .function("failData", guard<&LintRun::fail_data>)
      .function("dataFailed", guard<&LintRun::data_failed>)
      .function("nextStage", guard<&LintRun::next_stage>)
      .function("finishData", guard<&LintRun::finish_data>);
  class_<Report>("LintReport")
      .function("add", guard<&Report::add>)
      .function("finish", guard<&Report::finish>)
      .function("failed", guard<&Report::failed>)
      .function("render", guard<&Report::render>);
}

}  // namespace tftf::wasm
