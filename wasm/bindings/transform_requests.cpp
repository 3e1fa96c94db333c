// What JavaScript asks for as JSON, made into plans.
#include "adapter.h"
#include "border.h"
#include "model.h"
#include "tftf/command/adapter_request.h"
#include "tftf/command/colibri_request.h"
#include "tftf/command/command_line.h"
#include "tftf/transform/adapter_tool.h"
#include "transformation.h"

namespace tftf::wasm {
namespace {

constexpr uint64_t kNone = ~uint64_t{0};

// {"id", "options": [{"name", "values"}]}
Operation operation_of(const JsonValue& given) {
  Operation operation;
  operation.id = text_of(given, "id");
  if (const JsonValue* options = given.get("options"))
    for (const JsonValue& option : options->elements)
      operation.options.push_back({text_of(option, "name"), texts_of(option, "values")});
  spell_out_choices(operation);
  return operation;
}

void check_given(const std::string& operation) {
  need(check_operation(operation_of(parse_argument(operation))));
}

// The files that have to be read for an operation: [{"option", "path"}].
std::string operation_files(const std::string& operation) {
  OrderedJson out = OrderedJson::array();
  for (const OperationFile& file : files_of(operation_of(parse_argument(operation))))
    out.push_back({{"option", file.option}, {"path", file.path}});
  return json_text(out);
}

// {"command", "operations": [{"id", "options", "adapter", "other": numbers in the list or null, "files": {option: number}}], "input",
// "output", "dryRun", "examine",
// "singleName", "maxShardSize", "align", "folder": [entries], "tileBytes"}
Transformation* open_transform(Model& model, const AdapterList& adapters, const std::string& request) {
  const JsonValue given = parse_argument(request);
  TransformRequest out;
  out.command = text_of(given, "command");
  for (const JsonValue& one : given.get("operations")->elements) {
    Operation operation = operation_of(one);
    const uint64_t adapter = number_of(one, "adapter", kNone), other = number_of(one, "other", kNone);
    if (adapter != kNone) operation.adapter = adapters.at(adapter);
    if (other != kNone) operation.other = adapters.model_at(other);
    if (const JsonValue* files = one.get("files"))
      for (const auto& [option, number] : files->members)
        operation.files[option] = adapters.file_at(number_of(*files, option, kNone));
    out.operations.push_back(std::move(operation));
  }
  model.join(out.operations);
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.examine = flag_of(given, "examine");
  const std::string single = text_of(given, "singleName");
  out.layout.single_file = !single.empty();
  if (!single.empty()) out.layout.single_name = single;
  out.layout.max_shard_size = number_of(given, "maxShardSize", out.layout.max_shard_size);
  out.layout.align = flag_of(given, "align");
  if (const JsonValue* folder = given.get("folder"))
    for (const JsonValue& file : folder->elements) out.folder.push_back(file_entry(file));
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(model.checkpoint(), std::move(out));
}

// As open_transform, for a line of colibri's converters of folders: {"words", "input", "output", "dryRun",
// "tileBytes"}. `existing`: the output folder, or null.
Transformation* open_folder_transform(const Model& source, const Model* existing,
                                      const std::string& request) {
  const JsonValue given = parse_argument(request);
  const std::vector<std::string> words = texts_of(given, "words");
  const CommandLine line = need(read_command_line(Program::kTftf, Host::kNode, words));
  TransformRequest out;
  out.command = line.command->info->path;
  out.tool = colibri::folder_tool(line);
  out.existing = existing == nullptr ? nullptr : &existing->checkpoint();
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(source.checkpoint(), std::move(out));
}

// For a line of `adapter convert`: {"words", "input", "output", "singleName", "dryRun", "tileBytes"}. `base`: what --base
// names, or null; it must outlive the plan.
Transformation* open_adapter_conversion(const Model& source, const Model* base, const std::string& request) {
  const JsonValue given = parse_argument(request);
  const std::vector<std::string> words = texts_of(given, "words");
  const CommandLine line = need(read_command_line(Program::kTftf, Host::kNode, words));
  TransformRequest out;
  out.command = line.command->info->path;
  out.tool = make_adapter_conversion(need(adapter_convert_options(
      line, base == nullptr ? nullptr : &base->checkpoint(), text_of(given, "singleName"))));
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(source.checkpoint(), std::move(out));
}

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_transform_requests) {
  using namespace emscripten;
  function("openTransform", guard<&open_transform>, allow_raw_pointers());
  function("checkOperation", guard<&check_given>);
  function("operationFiles", guard<&operation_files>);
  function("openFolderTransform", guard<&open_folder_transform>, allow_raw_pointers());
  function("openAdapterConversion", guard<&open_adapter_conversion>, allow_raw_pointers());
}

}  // namespace tftf::wasm
