# Compiler options that everything of ours shares.

# Contraction would fuse a multiply and an add, and so change results between instruction sets.
add_compile_options(-ffp-contract=off)

if(TFTF_SANITIZE)
  add_compile_options(-fsanitize=${TFTF_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TFTF_SANITIZE})
  if(TFTF_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(TFTF_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(EMSCRIPTEN)
  # One way of throwing for library, tests and package alike; wasm SIMD is in every host that we name.
  add_compile_options(-fwasm-exceptions -msimd128)
  add_link_options(-fwasm-exceptions -sWASM_BIGINT)
endif()

# Standard headers parsed once per target: a third of the time of a build from nothing. Not with ccache, which cannot
# reuse what was compiled with a precompiled header unless it is told to be sloppy.
function(tftf_precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <bit> <charconv> <cmath> <cstdint> <cstring> <functional>
                              <limits> <map> <memory> <optional> <span> <string> <string_view> <unordered_map> <utility>
                              <variant> <vector> ${ARGN})
  endif()
endfunction()

# Linked PRIVATE by our targets; what comes from dependencies is SYSTEM.
add_library(tftf_warnings INTERFACE)
target_compile_options(tftf_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                               -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
                                               $<$<BOOL:${EMSCRIPTEN}>:-Wno-shorten-64-to-32>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 at -O3 sees overlapping copies in its own std::string (its bug 105651) and unset values in std::optional.
  target_compile_options(tftf_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(TFTF_WERROR)
  target_compile_options(tftf_warnings INTERFACE -Werror)
endif()
