// Whether this is a build with sanitizers, five to ten times as slow: tests that only repeat themselves repeat less.
#pragma once

namespace tftf::test {

#ifdef TFTF_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace tftf::test
