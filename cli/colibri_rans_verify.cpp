// `tftf colibri rans-verify`: whether a range-coded container can be trusted to its last bit.
#include <memory>

#include "colibri.h"
#include "options.h"
#include "progress.h"
#include "tftf/base/escape.h"
#include "tftf_native/rans_verify.h"

namespace tftf::cli {
namespace {

constexpr const char* kRansVerifyExamples =
    "Reads out-rans-*.safetensors, if there is none every .safetensors of the folder, and "
    "repack-manifest.json when it\n"
    "is there. Prints TRUST, or REFUSE with a line per reason.\n"
    "\n"
    "Examples:\n"
    "  tftf colibri rans-verify container/\n"
    "  tftf colibri rans-verify container/ --json | jq .refusals\n"
    "\n"
    "Exit status: 0 TRUST, 1 REFUSE or there is nothing to verify, 2 usage error or DIR missing, 130 "
    "interrupted.";

OrderedJson verdict_json(const RansVerdict& verdict) {
  OrderedJson json;
  json["result"] = verdict.refusals.empty() ? "TRUST" : "REFUSE";
  OrderedJson& refusals = json["refusals"] = OrderedJson::array();
  for (const colibri::RansRefusal& refusal : verdict.refusals) {
    OrderedJson& entry = refusals.emplace_back();
    entry["tensor"] = nullptr;
    if (!refusal.tensor.empty()) entry["tensor"] = refusal.tensor;
    entry["class"] = std::string(refusal.reason);
    entry["shard"] = refusal.shard;
    entry["detail"] = refusal.detail;
  }
  return json;
}

std::string verdict_text(const RansVerdict& verdict) {
  std::string text;
  for (const colibri::RansRefusal& refusal : verdict.refusals)
    text += "REFUSE " + escape_text(refusal.shard) + " " +
            (refusal.tensor.empty() ? "-" : escape_text_cut(refusal.tensor, 400)) + " " +
            std::string(refusal.reason) + ": " + escape_text_cut(refusal.detail, 400) + "\n";
  if (verdict.refusals.empty()) return text + "RESULT: TRUST\n";
  return text + "RESULT: REFUSE (" + std::to_string(verdict.refusals.size()) + " refusal(s))\n";
}

int rans_verify(const Session& session, const std::string& folder) {
  RansVerifyOptions options;
  options.threads = session.common.threads;
  options.max_header = session.common.max_header;
  options.stop = &Session::stop_requested();
  Result<RansVerdict> verdict = [&] {
    ProgressBar bar(session.common);
    options.progress = [&bar](const RansVerifyProgress& progress) {
      bar.update("reading", progress.done, progress.total);
    };
    return verify_rans(folder, options);
  }();
  if (!verdict) return session.fail(verdict.error());
  if (session.common.json) {
    session.print_json(verdict_json(*verdict));
  } else {
    session.print(verdict_text(*verdict));
  }
  if (!verdict->has_manifest)
    session.note(
        "There is no repack-manifest.json: digests were not checked, so that a changed .qs is not seen.");
  if (verdict->refusals.empty()) {
    if (verdict->records == 0)
      session.warn("no tensor of " + quote_name(folder) +
                   " is stamped int4-rans256-g0: nothing was decoded.");
    return 0;
  }
  const colibri::RansRefusal& first = verdict->refusals.front();
  session.warn(
      quote_name(folder) + " is not to be trusted: " + std::string(first.reason) + " in " +
      quote_name(first.shard) + (first.tensor.empty() ? "" : ", tensor " + quote_name(first.tensor)) +
      (verdict->refusals.size() > 1 ? ", and " + std::to_string(verdict->refusals.size() - 1) + " more."
                                    : "."));
  return error_exit_status(ErrorCode::kRefusedInput);
}

}  // namespace

void add_colibri_rans_verify(CLI::App& group, Session& session) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command =
      add_command(group, session, "rans-verify",
                  "Check a range-coded container: stamps, table, digests, and every record bit by bit",
                  [&session, folder] { return rans_verify(session, *folder); });
  command->footer(kRansVerifyExamples);
  command->add_option("DIR", *folder, "Folder of the container")->required()->type_name("");
}

}  // namespace tftf::cli
