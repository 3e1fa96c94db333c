// `tftf info`: what a model is.
#include <unistd.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "commands.h"
#include "inspection.h"
#include "terminal.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/info.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {
namespace {

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

}  // namespace

void serve_small_reads(const NativeModel& model, Inspector& inspector) { SmallReads(model).serve(inspector); }

int run_info(Session& session, const CommandLine& line) {
  const std::string filter = line.value("filter");
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  Result<NativeModel> model = read_model(line.words[0], options);
  if (!model) return session.fail(model.error());
  const Checkpoint& checkpoint = model->checkpoint;
  if (const std::optional<Error> nothing = nothing_to_inspect(checkpoint)) return session.fail(*nothing);
  Inspector inspector(checkpoint);
  serve_small_reads(*model, inspector);
  const ModelInfo info = inspector.take();
  if (session.common.json) {
    session.print(info_json_text(info, filter));
  } else {
    InfoTextOptions text;
    text.filter = filter;
    text.dtype_summary = line.has("dtype-summary");
    text.offsets = line.has("offsets");
    text.width = terminal_width(STDOUT_FILENO);
    text.ascii = ascii_wanted();
    const bool many = text.width > 0 && !text.offsets && filtered_rows(info, filter).size() > kFoldedRows;
    text.fold = line.has("fold") || (many && !line.has("no-fold"));
    session.print(info_text(info, text));
  }
  if (!filter.empty() && !info.rows.empty() && filtered_rows(info, filter).empty())
    session.warn("no tensor name holds " + quote_name(filter) + ".");
  const std::optional<Error> broken = broken_model(info);
  if (!broken) return 0;
  // The document on stdout is complete; only the reason is still to be said.
  session.warn(broken->message);
  return error_exit_status(broken->code);
}

}  // namespace tftf::cli
