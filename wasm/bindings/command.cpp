// Command lines, help and completion for the program in Node.js, and answers of commands that need no data.
#include "border.h"
#include "model.h"
#include "tftf/command/colibri_request.h"
#include "tftf/command/format_list.h"
#include "tftf/command/help.h"
#include "tftf/inspect/adapter_info.h"

namespace tftf::wasm {
namespace {

// Words as JSON to {"wish": "run|help|version", "path", "options": [{"name", "values"}], "words", "operations": [{"id",
// "options": [{"name", "values"}]}], "help"}; "help" is its text, or null.
std::string command_line(const std::string& arguments) {
  std::vector<std::string> words;
  for (const JsonValue& word : parse_argument(arguments).elements) words.push_back(word.text);
  const CommandLine line = need(read_command_line(Program::kTftf, Host::kNode, words));
  constexpr const char* kWishes[] = {"run", "help", "version"};
  OrderedJson out;
  out["wish"] = kWishes[static_cast<size_t>(line.wish)];
  out["path"] = std::string(line.command->info->path);
  out["options"] = OrderedJson::array();
  for (const CommandLine::Given& given : line.options)
    out["options"].push_back({{"name", std::string(given.option->name)}, {"values", given.values}});
  out["words"] = line.words;
  out["operations"] = OrderedJson::array();
  for (const Operation& operation : line.operations) {
    OrderedJson options = OrderedJson::array();
    for (const Operation::Given& given : operation.options)
      options.push_back({{"name", given.name}, {"values", given.values}});
    out["operations"].push_back({{"id", operation.id}, {"options", std::move(options)}});
  }
  out["help"] = nullptr;
  if (line.wish == CommandLine::Wish::kHelp)
    out["help"] = help_text(Program::kTftf, Host::kNode, *line.command);
  return json_text(out);
}

std::string completion(const std::string& shell) { return completion_script(shell, Host::kNode); }
std::string formats(bool text) { return text ? formats_text() : json_text(formats_json()); }

// {"text", "refusal" or null}
std::string answer_text(const colibri::Answer& answer) {
  OrderedJson out;
  out["text"] = json_text(answer.document);
  out["refusal"] = answer.refusal ? OrderedJson(*answer.refusal) : OrderedJson();
  return json_text(out);
}

std::string resolve(const std::string& arguments) {
  std::vector<std::string> words;
  for (const JsonValue& word : parse_argument(arguments).elements) words.push_back(word.text);
  return answer_text(colibri::resolve_pair(need(read_command_line(Program::kTftf, Host::kNode, words))));
}

// The text of a file, as JSON, to the answers of a batch.
std::string batch(const std::string& tool, uintptr_t data, uint32_t length, const std::string& file) {
  const Bytes bytes = bytes_at(data, length);
  const Result<JsonValue> rows =
      colibri::read_batch({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
  return json_text(tool == "resolve" ? need(colibri::resolve_batch(need(rows), file))
                                     : need(colibri::classify_batch(need(rows), file)));
}

std::string stamps(const Model& model, const std::string& path, const std::string& names) {
  std::vector<std::string> list;
  for (const JsonValue& name : parse_argument(names).elements) list.push_back(name.text);
  return answer_text(need(colibri::query_stamps(model.checkpoint(), path, list)));
}

// A folder's entries to the names of those that `adapter info` tells one by one.
std::string separate(const std::string& entries) {
  std::vector<FileEntry> files;
  for (const JsonValue& entry : parse_argument(entries).elements) files.push_back(file_entry(entry));
  return json_text(OrderedJson(separate_adapters(files)));
}

// The documents of several, as JSON texts, to one that has them all.
std::string adapter_list(const std::string& texts) {
  OrderedJson list = OrderedJson::array();
  for (const JsonValue& text : parse_argument(texts).elements) list.push_back(OrderedJson::parse(text.text));
  return json_text(OrderedJson{{"adapters", std::move(list)}});
}

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_command) {
  using emscripten::function;
  function("commandLine", guard<&command_line>);
  function("completion", guard<&completion>);
  function("formats", guard<&formats>);
  function("resolve", guard<&resolve>);
  function("batch", guard<&batch>);
  function("stamps", guard<&stamps>);
  function("separateAdapters", guard<&separate>);
  function("adapterList", guard<&adapter_list>);
}

}  // namespace tftf::wasm
