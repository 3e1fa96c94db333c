// The tools of `tftf colibri`, one file each. A new one: its file, a line here and a line in colibri.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include "session.h"

namespace tftf::cli {

void add_colibri_resolve(CLI::App& group, Session& session);
void add_colibri_classify(CLI::App& group, Session& session);
void add_colibri_repack_fp8(CLI::App& group, Session& session);
void add_colibri_convert(CLI::App& group, Session& session);
void add_colibri_fmt4_to_fmt2(CLI::App& group, Session& session);
void add_colibri_quantize(CLI::App& group, Session& session);
void add_colibri_dequant(CLI::App& group, Session& session);
void add_colibri_rans_repack(CLI::App& group, Session& session);
void add_colibri_stamps(CLI::App& group, Session& session);
void add_colibri_rans_verify(CLI::App& group, Session& session);

}  // namespace tftf::cli
