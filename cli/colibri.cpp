// `tftf colibri TOOL`: the tools for colibri's weight containers (spec colibri 4, cli 3).
#include "colibri.h"

#include "commands.h"
#include "options.h"

namespace tftf::cli {

void add_colibri(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("colibri", "Tools for the weight containers of colibri");
  group->set_help_flag("-h,--help", "Show this help")->group(kGeneralGroup);
  group->require_subcommand(1);
  group->footer("tftf colibri TOOL --help tells more.");
  add_colibri_repack_fp8(*group, session);
  add_colibri_rans_repack(*group, session);
  add_colibri_resolve(*group, session);
  add_colibri_classify(*group, session);
  add_colibri_convert(*group, session);
  add_colibri_fmt4_to_fmt2(*group, session);
  add_colibri_quantize(*group, session);
  add_colibri_dequant(*group, session);
  add_colibri_stamps(*group, session);
  add_colibri_rans_verify(*group, session);
}

}  // namespace tftf::cli
