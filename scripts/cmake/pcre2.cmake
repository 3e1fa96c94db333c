# PCRE2 for wasm, built from Debian's source package: the target pcre2_8.
enable_language(C)

set(version 10.42)
set(archive ${TFTF_DEPS_DIR}/pcre2_${version}.orig.tar.gz)
set(sha256 c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f)

if(NOT EXISTS ${archive})
  execute_process(COMMAND sh ${CMAKE_SOURCE_DIR}/scripts/pcre2_source.sh ${TFTF_DEPS_DIR} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(SHA256 ${archive} found)
if(NOT found STREQUAL sha256)
  message(FATAL_ERROR "${archive} is not PCRE2 ${version}: remove it and run sh scripts/bootstrap.sh")
endif()

set(source ${CMAKE_BINARY_DIR}/pcre2-${version}/src)
if(NOT EXISTS ${source}/pcre2.h)
  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${CMAKE_BINARY_DIR})
  file(RENAME ${source}/config.h.generic ${source}/config.h)
  file(RENAME ${source}/pcre2_chartables.c.dist ${source}/pcre2_chartables.c)
  file(RENAME ${source}/pcre2.h.generic ${source}/pcre2.h)
endif()

set(parts auto_possess chartables compile config context convert dfa_match error extuni find_bracket jit_compile maketables
          match match_data newline ord2utf pattern_info script_run serialize string_utils study substitute substring
          tables ucd valid_utf xclass)
list(TRANSFORM parts PREPEND ${source}/pcre2_)
list(TRANSFORM parts APPEND .c)
add_library(pcre2_8 STATIC ${parts})
target_compile_definitions(pcre2_8 PRIVATE HAVE_CONFIG_H PCRE2_CODE_UNIT_WIDTH=8 SUPPORT_UNICODE PUBLIC PCRE2_STATIC)
target_include_directories(pcre2_8 SYSTEM PUBLIC ${source})
target_compile_options(pcre2_8 PRIVATE -Oz)
