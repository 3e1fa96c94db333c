// `tftf stats`: what the values of tensors are.
#include <string>

#include "commands.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/heat_map.h"
#include "tftf/inspect/statistics.h"
#include "transform_run.h"
#include "value_run.h"

namespace tftf::cli {
namespace {

// "32x100", "0:64", as the table of commands has checked them.
std::pair<uint64_t, uint64_t> number_pair(const std::string& text) {
  const size_t between = text.find_first_not_of("0123456789");
  return {std::stoull(text.substr(0, between)), std::stoull(text.substr(between + 1))};
}

int run_heat_map(const Session& session, const NativeModel& model, const CommandLine& line) {
  const Checkpoint& checkpoint = model.checkpoint;
  const std::string& path = line.words[0];
  const auto failure = [&](ErrorCode code, const std::string& message) {
    return session.fail({.code = code, .message = message, .file = path});
  };
  const std::string name = line.value("tensor");
  const std::optional<TensorRef> tensor = checkpoint.find(name);
  if (!tensor)
    return failure(ErrorCode::kRefusedMissing,
                   "There is no tensor " + quote_name(name) + " in " + quote_name(path) + ".");
  const auto [height, width] = number_pair(line.value("heat-map"));
  if (height > HeatMapRequest::kMaxCells || width > HeatMapRequest::kMaxCells)
    return failure(ErrorCode::kUsage, "A heat map has at most " + std::to_string(HeatMapRequest::kMaxCells) +
                                          " cells down and across.");
  HeatMapRequest request;
  request.tensor = *tensor;
  request.logical = line.has("logical");
  request.height = static_cast<uint32_t>(height);
  request.width = static_cast<uint32_t>(width);
  if (line.has("rows")) std::tie(request.row_begin, request.row_end) = number_pair(line.value("rows"));
  if (line.has("columns"))
    std::tie(request.column_begin, request.column_end) = number_pair(line.value("columns"));
  HeatMapPass pass(checkpoint, request);
  const NativeModel* models[] = {&model};
  if (auto done = run_values(session, pass, models); !done) return session.fail(done.error());
  session.print(session.common.json ? pass.to_json() : heat_map_text(pass.map()));
  return 0;
}

}  // namespace

int run_stats(Session& session, const CommandLine& line) {
  Result<NativeModel> model = open_model(session, line.words[0]);
  if (!model) return session.fail(model.error());
  if (line.has("heat-map")) return run_heat_map(session, *model, line);
  StatisticsRequest request;
  request.include = line.values("include");
  request.exclude = line.values("exclude");
  request.names = line.values("tensor");
  request.logical = line.has("logical");
  request.bins = static_cast<uint32_t>(line.number("histogram").value_or(request.bins));
  Statistics statistics(model->checkpoint, request);
  const NativeModel* models[] = {&*model};
  if (auto done = run_values(session, statistics, models); !done) return session.fail(done.error());
  session.print(session.common.json ? statistics.to_json()
                                    : statistics_text(statistics.report(), table_width(), ascii_wanted()));
  if (statistics.report().tensors.empty() && !model->checkpoint.order.empty())
    session.warn("no tensor is selected.");
  return 0;
}

}  // namespace tftf::cli
