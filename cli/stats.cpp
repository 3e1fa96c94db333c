// `tftf stats`: what the values of tensors are.
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "options.h"
#include "progress.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/heat_map.h"
#include "tftf/inspect/statistics.h"
#include "transform_run.h"
#include "value_options.h"

namespace tftf::cli {
namespace {

struct StatsArguments {
  std::string model;
  StatisticsRequest request;
  std::optional<std::pair<uint64_t, uint64_t>> heat_map;  // height, width
  std::pair<uint64_t, uint64_t> rows{0, UINT64_MAX};
  std::pair<uint64_t, uint64_t> columns{0, UINT64_MAX};
};

constexpr const char* kStatsExamples =
    "Examples:\n"
    "  tftf stats model/                                 a line per tensor, values as they are stored\n"
    "  tftf stats --logical model-fp8/                   quantised weights as the weights that they stand "
    "for\n"
    "  tftf stats --include '*.mlp.*' --histogram 20 m.safetensors\n"
    "  tftf stats --tensor lm_head.weight --heat-map 32x100 model/\n"
    "  tftf stats --json model/ | jq '.tensors[] | select(.nan > 0).name'\n"
    "\n"
    "Exit status: 0, 1 when the model is not sound or a named tensor is not there, 2 usage error or MODEL "
    "missing.";

// "32x100", "0:64": two numbers.
std::optional<std::pair<uint64_t, uint64_t>> two_numbers(const std::string& text, char between) {
  const size_t at = text.find(between);
  if (at == std::string::npos) return std::nullopt;
  uint64_t number[2] = {};
  const std::string parts[2] = {text.substr(0, at), text.substr(at + 1)};
  for (int i = 0; i < 2; ++i) {
    if (parts[i].empty() || parts[i].size() > 18) return std::nullopt;
    for (const char c : parts[i]) {
      if (c < '0' || c > '9') return std::nullopt;
      number[i] = number[i] * 10 + static_cast<uint64_t>(c - '0');
    }
  }
  return std::pair(number[0], number[1]);
}

std::pair<uint64_t, uint64_t> parse_span(const std::string& option, const std::string& text) {
  const auto span = two_numbers(text, ':');
  if (!span || span->first >= span->second)
    throw CLI::ValidationError(option, text + " is not BEGIN:END with BEGIN below END");
  return *span;
}

int run_heat_map(const Session& session, const NativeModel& model, const StatsArguments& arguments) {
  const Checkpoint& checkpoint = model.checkpoint;
  const auto failure = [&](ErrorCode code, const std::string& message) {
    return session.fail({.code = code, .message = message, .file = arguments.model});
  };
  if (arguments.request.names.size() != 1)
    return failure(ErrorCode::kUsage, "--heat-map wants one --tensor.");
  const std::string& name = arguments.request.names[0];
  const std::optional<TensorRef> tensor = checkpoint.find(name);
  if (!tensor)
    return failure(ErrorCode::kRefusedMissing,
                   "There is no tensor " + quote_name(name) + " in " + quote_name(arguments.model) + ".");
  if (arguments.heat_map->first > HeatMapRequest::kMaxCells ||
      arguments.heat_map->second > HeatMapRequest::kMaxCells)
    return failure(ErrorCode::kUsage, "A heat map has at most " + std::to_string(HeatMapRequest::kMaxCells) +
                                          " cells down and across.");
  HeatMapRequest request;
  request.tensor = *tensor;
  request.logical = arguments.request.logical;
  request.height = static_cast<uint32_t>(arguments.heat_map->first);
  request.width = static_cast<uint32_t>(arguments.heat_map->second);
  request.row_begin = arguments.rows.first;
  request.row_end = arguments.rows.second;
  request.column_begin = arguments.columns.first;
  request.column_end = arguments.columns.second;
  HeatMapPass pass(checkpoint, request);
  const NativeModel* models[] = {&model};
  if (auto done = run_values(session, pass, models); !done) return session.fail(done.error());
  session.print(session.common.json ? pass.to_json() : heat_map_text(pass.map()));
  return 0;
}

int run_stats(const Session& session, const StatsArguments& arguments) {
  Result<NativeModel> model = open_model(session, arguments.model);
  if (!model) return session.fail(model.error());
  if (arguments.heat_map) return run_heat_map(session, *model, arguments);
  Statistics statistics(model->checkpoint, arguments.request);
  const NativeModel* models[] = {&*model};
  if (auto done = run_values(session, statistics, models); !done) return session.fail(done.error());
  session.print(session.common.json ? statistics.to_json()
                                    : statistics_text(statistics.report(), terminal_width()));
  if (statistics.report().tensors.empty() && !model->checkpoint.order.empty())
    session.warn("no tensor is selected.");
  return 0;
}

}  // namespace

void add_stats(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<StatsArguments>();
  CLI::App* command =
      add_command(app, session, "stats", "Look at all values: extremes, mean, deviation, NaN, histograms",
                  [&session, arguments] { return run_stats(session, *arguments); });
  command->footer(kStatsExamples);
  command->add_option("MODEL", arguments->model, "A .safetensors file, a folder, or an index file")
      ->required()
      ->type_name("");
  add_selection(*command, arguments->request.include, arguments->request.exclude, arguments->request.names);
  command->add_flag("--logical", arguments->request.logical,
                    "Quantised weights dequantised, in the dtype that their layout gives");
  command
      ->add_option("--histogram", arguments->request.bins,
                   "Count the values in this many bins of equal width")
      ->type_name("BINS")
      ->check(CLI::Range(1u, StatisticsRequest::kMaxBins).description(""))
      ->take_last();
  command
      ->add_option_function<std::string>(
          "--heat-map",
          [arguments](const std::string& text) {
            arguments->heat_map = two_numbers(text, 'x');
            if (!arguments->heat_map || arguments->heat_map->first == 0 || arguments->heat_map->second == 0)
              throw CLI::ValidationError("--heat-map", text + " is not HEIGHTxWIDTH");
          },
          "Instead of statistics: means of blocks of one tensor, at most so many down and across")
      ->type_name("HEIGHTxWIDTH")
      ->take_last();
  for (auto [name, to, what] : {std::tuple("--rows", &arguments->rows, "rows"),
                                std::tuple("--columns", &arguments->columns, "columns")})
    command
        ->add_option_function<std::string>(
            name,
            [arguments, to = to, name = std::string(name)](const std::string& text) {
              *to = parse_span(name, text);
            },
            std::string("The heat map of these ") + what + " alone")
        ->type_name("BEGIN:END")
        ->take_last();
}

}  // namespace tftf::cli
