// `tftf colibri stamps`: what a container claims of its tensors, as its reader takes it in.
#include <algorithm>
#include <memory>

#include "colibri.h"
#include "options.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {
namespace {

constexpr const char* kStampsExamples =
    "Prints {\"verdict\", \"class\", \"stamps\"}: each queried name with the format it is stamped, or "
    "(none).\n"
    "\n"
    "Examples:\n"
    "  tftf colibri stamps container/ --query model.layers.3.self_attn.o_proj.weight\n"
    "  tftf colibri stamps out-00000.safetensors --query a --query b\n"
    "\n"
    "Exit status: 0, 1 a reader refuses the container's stamps, 2 usage error or PATH missing.";

struct StampsArguments {
  std::string path;
  std::vector<std::string> names;
};

std::optional<colibri::StampRefusal> ingest_all(const Checkpoint& checkpoint, colibri::StampMap& stamps) {
  std::vector<const Shard*> shards;
  for (const Shard& shard : checkpoint.shards)
    if (shard.readable) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  for (const Shard* shard : shards) {
    if (auto refusal = stamps.ingest(shard->name, shard->header)) return refusal;
    if (auto refusal = stamps.add_tensors(shard->name, shard->header)) return refusal;
  }
  return std::nullopt;
}

int list_stamps(const Session& session, const StampsArguments& arguments) {
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  const Result<NativeModel> model = read_model(arguments.path, options);
  if (!model) return session.fail(model.error());
  bool any = false;
  for (const Shard& shard : model->checkpoint.shards) {
    any = true;
    if (!shard.readable)
      return session.fail({.code = ErrorCode::kRefusedInput,
                           .message = quote_name(shard.name) + " in " + quote_name(arguments.path) +
                                      " has no header that can be read; tftf lint says why.",
                           .file = shard.name});
  }
  if (!any)
    return session.fail({.code = ErrorCode::kRefusedInput,
                         .message = quote_name(arguments.path) + " holds no .safetensors file.",
                         .file = arguments.path});
  colibri::StampMap stamps;
  const std::optional<colibri::StampRefusal> refusal = ingest_all(model->checkpoint, stamps);
  OrderedJson json;
  json["verdict"] = refusal ? "refuse" : "ok";
  json["class"] = nullptr;
  if (refusal) json["class"] = std::string(colibri::stamp_fault_class(refusal->fault));
  OrderedJson& found = json["stamps"] = OrderedJson::object();
  if (!refusal)
    for (const std::string& name : arguments.names) found[name] = stamps.find(name).value_or("(none)");
  session.print_json(json);
  if (!refusal) return 0;
  session.warn("a reader refuses the container: " + refusal->detail);
  return error_exit_status(ErrorCode::kRefusedInput);
}

}  // namespace

void add_colibri_stamps(CLI::App& group, Session& session) {
  auto arguments = std::make_shared<StampsArguments>();
  CLI::App* command = add_command(group, session, "stamps", "Say which formats a container's stamps claim",
                                  [&session, arguments] { return list_stamps(session, *arguments); });
  command->footer(kStampsExamples);
  command->add_option("PATH", arguments->path, "A .safetensors file, a folder, or an index file")
      ->required()
      ->type_name("");
  add_texts(*command, "--query", arguments->names, "Tensor to look up")->type_name("NAME");
}

}  // namespace tftf::cli
