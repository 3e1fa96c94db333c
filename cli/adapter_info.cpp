// `tftf adapter info`: what an adapter is, or each one of a folder.
#include <filesystem>
#include <memory>

#include "commands.h"
#include "inspection.h"
#include "tftf/base/error_json.h"
#include "tftf/inspect/adapter_info.h"
#include "tftf_native/path_kind.h"

namespace tftf::cli {
namespace {

// What is told points into the model, which stays where it is.
struct Looked {
  std::unique_ptr<NativeModel> model;
  ModelInfo info;
};

Result<Looked> look_at_adapter(const Session& session, const std::string& path) {
  ReaderOptions options;
  options.mode = ReadMode::kInspect;
  options.max_header = session.common.max_header;
  Result<NativeModel> model = read_model(path, options);
  if (!model) return std::move(model).error();
  if (auto nothing = nothing_to_inspect(model->checkpoint)) return *std::move(nothing);
  Looked looked{std::make_unique<NativeModel>(*std::move(model)), {}};
  Inspector inspector(looked.model->checkpoint);
  serve_small_reads(*looked.model, inspector);
  looked.info = inspector.take();
  return looked;
}

// Each file by itself; one that cannot be read is told, and the others go on.
int tell_folder(const Session& session, const std::string& folder, const std::vector<std::string>& names) {
  OrderedJson list = OrderedJson::array();
  int status = 0;
  for (const std::string& name : names) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    Result<Looked> looked = look_at_adapter(session, path);
    std::optional<Error> wrong;
    if (!looked) wrong = looked.error();
    if (looked.ok()) wrong = broken_model(looked->info);
    if (looked.ok() && !wrong) wrong = no_adapter(looked->info);
    if (wrong) status = 1;
    if (session.common.json) {
      OrderedJson entry;
      entry["file"] = name;
      const OrderedJson told = looked.ok() ? adapter_info_json(looked->info) : error_json(*wrong);
      entry.update(told);
      list.push_back(std::move(entry));
    } else {
      session.print((list.empty() ? "" : "\n") + (looked.ok() ? adapter_info_text(looked->info) : ""));
      list.push_back(nullptr);
    }
    if (wrong) session.warn(wrong->message);
  }
  if (session.common.json) session.print_json(OrderedJson{{"adapters", std::move(list)}});
  return status;
}

}  // namespace

int run_adapter_info(Session& session, const CommandLine& line) {
  const std::string& path = line.words[0];
  const auto kind = path_kind(path);
  if (!kind) return session.fail(kind.error());
  if (*kind == PathKind::kFolder) {
    const Result<NativeListing> folder = list_model(path);
    if (!folder) return session.fail(folder.error());
    const std::vector<std::string> names = separate_adapters(folder->listing.files);
    if (!names.empty()) return tell_folder(session, path, names);
  }
  const Result<Looked> looked = look_at_adapter(session, path);
  if (!looked) return session.fail(looked.error());
  if (session.common.json)
    session.print_json(adapter_info_json(looked->info));
  else
    session.print(adapter_info_text(looked->info));
  std::optional<Error> wrong = broken_model(looked->info);
  if (!wrong) wrong = no_adapter(looked->info);
  if (!wrong) return 0;
  // The document on stdout is complete; only the reason is still to be said.
  session.warn(wrong->message);
  return error_exit_status(wrong->code);
}

}  // namespace tftf::cli
