#include "tftf/base/version.h"

namespace tftf {

std::string_view version() { return TFTF_VERSION; }

std::string_view documentation_uri() {
  constexpr std::string_view kUri = TFTF_DOCS_URL;
  return kUri.empty() ? std::string_view("urn:tftf:docs") : kUri;
}

}  // namespace tftf
