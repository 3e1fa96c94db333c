#include "colibri.h"
#include "folder_run.h"
#include "options.h"

namespace tftf::cli {

void add_colibri_repack_fp8(CLI::App& group, Session& session) {
  struct Options {
    FolderOptions folder;
    colibri::RepackFp8Options repack;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      group, session, "repack-fp8", "Turn FP8 weights with block scales into fp8-e4m3-b128, codes untouched",
      [&session, options] {
        return run_folder_tool(session, options->folder, colibri::make_repack_fp8(options->repack));
      });
  add_folder_options(*command, options->folder);
  command
      ->add_option("--n-layers", options->repack.layers, "Layers of the model; layer N is the MTP layer (78)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30).description(""))
      ->take_last();
  command->add_flag("--mtp", options->repack.mtp, "The MTP layer instead of the main model");
  command->add_flag("--pass-plain", options->repack.pass_plain,
                    "Copy plain float tensors of no known kind instead of refusing them");
}

}  // namespace tftf::cli
