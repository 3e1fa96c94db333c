// Pages that are one table of the core each.
#include <algorithm>

#include "../../unit/quant/layout_references.h"
#include "pages.h"
#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/quant/registry.h"

namespace tftf::docs {

std::string errors_page() {
  constexpr ErrorCode kCodes[] = {
#define TFTF_ERROR_CODE(id, text, exit_status, when) ErrorCode::id,
#include "tftf/base/error_codes.def"
#undef TFTF_ERROR_CODE
  };
  std::string out = page_head("Exit statuses and error codes");
  out +=
      "| status | meaning |\n|---|---|\n"
      "| 0 | done |\n"
      "| 1 | the answer is no: findings at the fail level, a refusal, a failed verification, a failure while "
      "running such as a "
      "full disk |\n"
      "| 2 | the command line is wrong by itself, or names an input that does not exist |\n"
      "| 3 | a defect of the program |\n"
      "| 130 | stopped by Ctrl-C; the state can be continued |\n\n"
      "Every failure says why in one sentence on stderr. With `--json` it is also an object on stdout, "
      "`{\"error\": {\"code\", \"message\", \"file\", \"tensor\", \"expected\", \"found\"}}`, whose code is "
      "one of these. Codes "
      "never change their meaning.\n\n"
      "| code | status | when |\n|---|---|---|\n";
  for (ErrorCode one : kCodes)
    out += "| " + code(error_code_text(one)) + " | " + std::to_string(error_exit_status(one)) + " | " +
           cell(error_code_help(one)) + " |\n";
  return out;
}

std::string dtypes_page() {
  std::string out = page_head("Element types");
  out +=
      "The types of the safetensors format in the order of the reference writer, which lays tensors out by "
      "descending rank. "
      "Sub-byte elements are packed from the low bits up; a tensor of them must fill whole bytes. *Since* is "
      "the first "
      "version of the reference reader that knows the type; older ones refuse the whole file.\n\n"
      "| dtype | bits | rank | alignment | since | torch |\n|---|---|---|---|---|---|\n";
  for (const DTypeInfo& info : all_dtypes())
    out += "| " + std::string(info.name) + " | " + std::to_string(info.bits) + " | " +
           std::to_string(info.rank) + " | " + std::to_string(info.align) + " | " + std::string(info.since) +
           " | " + code(info.torch) + " |\n";
  return out;
}

namespace {

std::string reference_of(std::string_view layout) {
  for (const LayoutReference& one : kLayoutReferences) {
    if (one.layout != layout) continue;
    switch (one.kind) {
      case ReferenceKind::kRun:
        return "run: " + cell(one.text);
      case ReferenceKind::kFormula:
        return "formula: " + cell(one.text);
      case ReferenceKind::kNone:
        return "none: " + cell(one.text);
    }
  }
  return "";
}

}  // namespace

std::string formats_page() {
  std::string out = page_head("Quantised layouts");
  out +=
      "Every layout that `tftf info` recognises, by its id; `tftf formats` prints the same, `tftf formats "
      "--json` gives it "
      "as data. *Read*: `tftf dequant` makes plain floats of it. *Written*: `tftf quantize --to ID` makes "
      "it. *Repacked to*: "
      "`tftf repack --to ID` keeps the codes bit for bit and changes the container. Layouts that are neither "
      "are left as "
      "they are, and the account of a command says so. *Reference*: what the decoder of a layout that is "
      "read "
      "is held against "
      "to the last bit: bytes that the producer's own code has made, a formula of its source where that runs "
      "on a GPU only, or "
      "none.\n\n"
      "| id | what it is | read | written | repacked to | reference |\n|---|---|---|---|---|---|\n";
  for (const QuantFormat* format : quant_formats()) {
    std::string targets;
    for (const QuantFormat* target : repack_targets(*format))
      targets += (targets.empty() ? "" : ", ") + code(target->id);
    out += "| " + code(format->id) + " | " + cell(format->title) + " | " + (format->read() ? "yes" : "") +
           " | " + (format->written() ? "yes" : "") + " | " + targets + " | " + reference_of(format->id) +
           " |\n";
  }
  return out;
}

}  // namespace tftf::docs
