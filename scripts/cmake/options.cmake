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

# One translation unit per folder and target: a third of the time of a build from nothing again, at the price of slower
# small changes; so every preset but dev has it. Names in anonymous namespaces are therefore unique within a folder.
option(TFTF_UNITY "Compile each folder of a target as one translation unit" OFF)
function(tftf_unity target)
  if(NOT TFTF_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$")
      get_filename_component(path ${source} ABSOLUTE)
      get_filename_component(folder ${path} DIRECTORY)
      file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${folder})
      string(REPLACE "/" "_" folder ${folder})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Linked PRIVATE by our targets; what comes from dependencies is SYSTEM. In wasm size_t has 32 bits: code under test narrows
# by to_size() (base/checked.h) alone, tests (the property TFTF_TEST) know their lengths.
add_library(tftf_warnings INTERFACE)
target_compile_options(tftf_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                               -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
                                               $<$<AND:$<BOOL:${EMSCRIPTEN}>,$<BOOL:$<TARGET_PROPERTY:TFTF_TEST>>>:-Wno-shorten-64-to-32>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 at -O3 sees overlapping and boundless copies in its own std::string (its bugs 105329 and 105651) and unset
  # values in std::optional.
  target_compile_options(tftf_warnings INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                                 -Wno-stringop-overread -Wno-maybe-uninitialized)
  if(TFTF_UNITY) # anonymous namespaces of included sources look like those of a header
    target_compile_options(tftf_warnings INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(TFTF_WERROR)
  target_compile_options(tftf_warnings INTERFACE -Werror)
endif()
