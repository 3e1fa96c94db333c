// `tftf info`: what a model is.
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "commands.h"
#include "options.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/info.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {
namespace {

struct InfoArguments {
  std::string model;
  std::string filter;
  bool dtype_summary = false;
  bool offsets = false;
  std::optional<bool> fold;
};

constexpr const char* kInfoExamples =
    "Examples:\n"
    "  tftf info model/                       what it is, and its tensors\n"
    "  tftf info --fold model/                layers folded: model.layers.#.mlp.up_proj.weight ×61\n"
    "  tftf info --dtype-summary model/       dtypes instead of tensors\n"
    "  tftf info --filter q_proj --offsets m.safetensors\n"
    "  tftf info --json adapter/ | jq .adapter\n"
    "\n"
    "Exit status: 0, 1 when no weight file is sound, 2 usage error or MODEL missing.";

// On a terminal more rows than this are folded, unless --no-fold says otherwise.
constexpr size_t kFoldedRows = 200;

// Reads the small tensors that the inspector asks for.
class SmallReads {
 public:
  explicit SmallReads(const NativeModel& model) : model_(model) {}

  void serve(Inspector& inspector) {
    for (std::vector<ReadRequest> wanted = inspector.want(); !wanted.empty(); wanted = inspector.want())
      for (const ReadRequest& request : wanted) {
        std::vector<std::byte> bytes(static_cast<size_t>(request.range.length));
        const std::shared_ptr<ByteSource> source = open(request.file);
        if (source && source->read(request.range.offset, bytes).ok())
          inspector.supply(request, bytes);
        else
          inspector.fail(request);
      }
  }

 private:
  // One file at a time: the requests of a round come shard by shard.
  std::shared_ptr<ByteSource> open(const std::string& file) {
    if (file == open_name_) return open_;
    open_name_ = file;
    Result<std::shared_ptr<ByteSource>> source = open_file_source(model_.path_of(file));
    open_ = source.ok() ? *source : nullptr;
    return open_;
  }

  const NativeModel& model_;
  std::string open_name_;
  std::shared_ptr<ByteSource> open_;
};

int run_info(Session& session, const InfoArguments& arguments) {
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  Result<NativeModel> model = read_model(arguments.model, options);
  if (!model) return session.fail(model.error());
  const Checkpoint& checkpoint = model->checkpoint;
  if (const std::optional<Error> nothing = nothing_to_inspect(checkpoint)) return session.fail(*nothing);
  Inspector inspector(checkpoint);
  SmallReads(*model).serve(inspector);
  const ModelInfo info = inspector.take();
  if (session.common.json) {
    session.print(info_json_text(info, arguments.filter));
  } else {
    InfoTextOptions text;
    text.filter = arguments.filter;
    text.dtype_summary = arguments.dtype_summary;
    text.offsets = arguments.offsets;
    text.width = terminal_width();
    text.fold = arguments.fold.value_or(text.width > 0 && !arguments.offsets &&
                                        filtered_rows(info, arguments.filter).size() > kFoldedRows);
    session.print(info_text(info, text));
  }
  if (!arguments.filter.empty() && !info.rows.empty() && filtered_rows(info, arguments.filter).empty())
    session.warn("no tensor name holds " + quote_name(arguments.filter) + ".");
  const std::optional<Error> broken = broken_model(info);
  if (!broken) return 0;
  // The document on stdout is complete; only the reason is still to be said.
  session.warn(broken->message);
  return error_exit_status(broken->code);
}

}  // namespace

void add_info(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* command = add_command(app, session, "info", "Say what a model is: kind, layouts, sizes, tensors",
                                  [&session, arguments] { return run_info(session, *arguments); });
  command->footer(kInfoExamples);
  command->add_option("MODEL", arguments->model, "A .safetensors file, a folder, or an index file")
      ->required()
      ->type_name("");
  command->add_option("--filter", arguments->filter, "Only tensors whose name holds this text")
      ->type_name("TEXT")
      ->take_last();
  command->add_flag("--dtype-summary", arguments->dtype_summary,
                    "Dtypes and their counts instead of tensors");
  command->add_flag("--offsets", arguments->offsets, "Show where each tensor lies in its data section");
  command->add_flag_function(
      "--fold,!--no-fold", [arguments](int64_t count) { arguments->fold = count > 0; },
      "Fold layer and expert numbers; on a terminal this is done for long lists");
}

}  // namespace tftf::cli
