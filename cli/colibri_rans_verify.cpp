// `tftf colibri rans-verify`: whether a range-coded container can be trusted to its last bit.
#include "commands.h"
#include "progress.h"
#include "tftf/base/escape.h"
#include "tftf_native/rans_verify.h"

namespace tftf::cli {
namespace {

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

}  // namespace

int run_rans_verify(Session& session, const CommandLine& line) {
  const std::string& folder = line.words[0];
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

}  // namespace tftf::cli
