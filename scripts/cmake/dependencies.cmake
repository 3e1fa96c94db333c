# Dependencies. The header-only ones are found once and linked into one folder of the build, which serves native and
# wasm builds alike: emcc must never see /usr/include itself, since glibc's headers would be found first.

set(third_party ${CMAKE_BINARY_DIR}/third_party)

# tftf_header(NAME FILE [SUBFOLDER]): links the folder or file NAME, known by the header FILE in it, into third_party.
function(tftf_header name file)
  set(where)
  if(EMSCRIPTEN)
    set(where PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  endif()
  find_path(TFTF_${name}_DIR NAMES ${file} PATH_SUFFIXES ${ARGN} ${where})
  if(NOT TFTF_${name}_DIR)
    message(FATAL_ERROR "${file} was not found: run sh scripts/bootstrap.sh")
  endif()
  file(MAKE_DIRECTORY ${third_party})
  file(CREATE_LINK ${TFTF_${name}_DIR}/${name} ${third_party}/${name} SYMBOLIC)
endfunction()

add_library(tftf_headers INTERFACE)
target_include_directories(tftf_headers SYSTEM INTERFACE ${third_party})
tftf_header(nlohmann nlohmann/json.hpp)
tftf_header(xxhash.h xxhash.h)
if(TFTF_TESTS)
  tftf_header(catch2 catch2/catch.hpp)
endif()

# The same version of PCRE2 everywhere, so that patterns mean the same natively, in Node and in the page.
add_library(tftf_pcre2 INTERFACE)
if(EMSCRIPTEN)
  include(${CMAKE_CURRENT_LIST_DIR}/pcre2.cmake)
  target_link_libraries(tftf_pcre2 INTERFACE pcre2_8)
else()
  find_path(TFTF_PCRE2_INCLUDE pcre2.h REQUIRED)
  find_library(TFTF_PCRE2_LIBRARY pcre2-8 REQUIRED)
  target_include_directories(tftf_pcre2 SYSTEM INTERFACE ${TFTF_PCRE2_INCLUDE})
  target_link_libraries(tftf_pcre2 INTERFACE ${TFTF_PCRE2_LIBRARY})

  find_package(OpenSSL REQUIRED)
  find_package(Threads REQUIRED)
endif()
