// `tftf diff`: what is different between two models.
#include <memory>
#include <string>

#include "commands.h"
#include "options.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/comparison.h"
#include "transform_run.h"
#include "value_options.h"

namespace tftf::cli {
namespace {

struct DiffArguments {
  std::string left;
  std::string right;
  ComparisonRequest request;
  std::optional<double> tolerance;
};

constexpr const char* kDiffExamples =
    "Without --values names, dtypes, shapes, metadata and configuration are compared, and anything that "
    "differs "
    "counts.\n"
    "With --values names, shapes and values count; dtypes, layouts, metadata and configuration are told, and "
    "count "
    "with\n--strict. Quantised weights are compared as the weights that they stand for.\n"
    "\n"
    "Examples:\n"
    "  tftf diff old/ new/                               headers and configuration, no data read\n"
    "  tftf diff --values model-fp8/ model-bf16/         is it the same model?\n"
    "  tftf diff --tolerance 1e-2 original/ quantised/   values within 1 % (relative L2 per tensor)\n"
    "  tftf diff --values --json a.safetensors b.safetensors | jq '.tensors[].distance'\n"
    "\n"
    "Exit status: 0 no difference, 1 different or not sound, 2 usage error or a model missing.";

int run_diff(const Session& session, const DiffArguments& arguments) {
  Result<NativeModel> left = open_model(session, arguments.left);
  if (!left) return session.fail(left.error());
  Result<NativeModel> right = open_model(session, arguments.right);
  if (!right) return session.fail(right.error());
  ComparisonRequest request = arguments.request;
  if (arguments.tolerance) {
    request.values = true;
    request.tolerance = *arguments.tolerance;
  }
  Comparison comparison(left->checkpoint, right->checkpoint, std::move(request));
  const NativeModel* models[] = {&*left, &*right};
  if (auto done = run_values(session, comparison, models); !done) return session.fail(done.error());
  const ComparisonReport& report = comparison.report();
  session.print(session.common.json ? comparison.to_json() : comparison_text(report, terminal_width()));
  if (report.pairs.empty() && !(left->checkpoint.order.empty() && right->checkpoint.order.empty()))
    session.warn("no tensor is selected.");
  if (!report.different()) return 0;
  // The report on stdout is complete; only the sentence is still to be said.
  session.warn(quote_name(arguments.left) + " and " + quote_name(arguments.right) +
               " are different: " + difference_sentence(report));
  return error_exit_status(ErrorCode::kRefusedDifferent);
}

}  // namespace

void add_diff(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<DiffArguments>();
  ComparisonRequest& request = arguments->request;
  CLI::App* command =
      add_command(app, session, "diff", "Compare two models: names, dtypes, shapes, values, configuration",
                  [&session, arguments] { return run_diff(session, *arguments); });
  command->footer(kDiffExamples);
  command->add_option("LEFT", arguments->left, "A model: a file, a folder or an index")
      ->required()
      ->type_name("");
  command->add_option("RIGHT", arguments->right, "The other one")->required()->type_name("");
  add_selection(*command, request.include, request.exclude, request.names);
  command->add_flag("--values", request.values, "Read the data: how far values lie apart");
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "Values count as equal up to this relative L2 distance per tensor; implies --values")
      ->type_name("T")
      ->check(CLI::NonNegativeNumber.description(""))
      ->take_last();
  command->add_flag("--strict", request.strict,
                    "With --values: dtypes, layouts, metadata and configuration count, too");
}

}  // namespace tftf::cli
