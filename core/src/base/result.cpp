#include "tftf/base/result.h"

#include <array>

namespace tftf {
namespace {

struct CodeRow {
  std::string_view text;
  int exit_status;
  std::string_view when;
};

constexpr CodeRow kCodes[] = {
#define TFTF_ERROR_CODE(id, text, exit_status, when) {text, exit_status, when},
#include "tftf/base/error_codes.def"
#undef TFTF_ERROR_CODE
};

const CodeRow& row(ErrorCode code) { return kCodes[static_cast<size_t>(code)]; }

}  // namespace

std::string_view error_code_text(ErrorCode code) { return row(code).text; }
std::string_view error_code_help(ErrorCode code) { return row(code).when; }
int error_exit_status(ErrorCode code) { return row(code).exit_status; }

}  // namespace tftf
