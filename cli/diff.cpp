// `tftf diff`: what is different between two models.
#include <string>

#include "commands.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/comparison.h"
#include "transform_run.h"
#include "value_run.h"

namespace tftf::cli {

int run_diff(Session& session, const CommandLine& line) {
  Result<NativeModel> left = open_model(session, line.words[0]);
  if (!left) return session.fail(left.error());
  Result<NativeModel> right = open_model(session, line.words[1]);
  if (!right) return session.fail(right.error());
  ComparisonRequest request;
  request.include = line.values("include");
  request.exclude = line.values("exclude");
  request.names = line.values("tensor");
  request.values = line.has("values") || line.has("tolerance");
  request.strict = line.has("strict");
  if (line.has("tolerance")) request.tolerance = parse_number(line.value("tolerance")).value_or(0);
  Comparison comparison(left->checkpoint, right->checkpoint, std::move(request));
  const NativeModel* models[] = {&*left, &*right};
  if (auto done = run_values(session, comparison, models); !done) return session.fail(done.error());
  const ComparisonReport& report = comparison.report();
  session.print(session.common.json ? comparison.to_json()
                                    : comparison_text(report, table_width(), ascii_wanted()));
  if (report.pairs.empty() && !(left->checkpoint.order.empty() && right->checkpoint.order.empty()))
    session.warn("no tensor is selected.");
  if (!report.different()) return 0;
  // The report on stdout is complete; only the sentence is still to be said.
  session.warn(quote_name(line.words[0]) + " and " + quote_name(line.words[1]) +
               " are different: " + difference_sentence(report));
  return error_exit_status(ErrorCode::kRefusedDifferent);
}

}  // namespace tftf::cli
