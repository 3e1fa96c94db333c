// `tftf colibri resolve`, `classify` and `stamps`: what a reader of colibri's containers would make of something.
#include "commands.h"
#include "json_file.h"
#include "tftf/command/colibri_request.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {
namespace {

int print_answer(const Session& session, const Result<colibri::Answer>& answer) {
  if (!answer) return session.fail(answer.error());
  session.print_json(answer->document);
  if (!answer->refusal) return 0;
  session.warn(*answer->refusal);
  return error_exit_status(ErrorCode::kRefusedInput);
}

int print_batch(const Session& session, const std::string& path,
                Result<OrderedJson> (*answer)(const JsonValue& rows, const std::string& file)) {
  const Result<JsonValue> rows = read_json_file(path);
  if (!rows) return session.fail(rows.error());
  const Result<OrderedJson> answers = answer(*rows, path);
  if (!answers) return session.fail(answers.error());
  session.print_json(*answers);
  return 0;
}

}  // namespace

int run_resolve(Session& session, const CommandLine& line) {
  if (line.has("batch")) return print_batch(session, line.value("batch"), colibri::resolve_batch);
  return print_answer(session, colibri::resolve_pair(line));
}

int run_classify(Session& session, const CommandLine& line) {
  return print_batch(session, line.value("batch"), colibri::classify_batch);
}

int run_stamps(Session& session, const CommandLine& line) {
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  const Result<NativeModel> model = read_model(line.words[0], options);
  if (!model) return session.fail(model.error());
  return print_answer(session, colibri::query_stamps(model->checkpoint, line.words[0], line.values("query")));
}

}  // namespace tftf::cli
