#include "colibri.h"
#include "folder_run.h"
#include "options.h"
#include "tftf/base/escape.h"

namespace tftf::cli {
namespace {

struct ConvertCommand {
  FolderOptions folder;
  colibri::ConvertOptions convert;
  std::string ignored{};
};

// "e8", or a number of bits.
CLI::Option* add_width(CLI::App& command, const std::string& name, const std::string& help,
                       std::function<void(colibri::CodeWidth)> take) {
  return command
      .add_option_function<std::string>(
          name,
          [take = std::move(take)](const std::string& text) {
            if (text == "e8") return take({0, true});
            take({static_cast<uint32_t>(std::stoul(text)), false});
          },
          help)
      ->type_name("N|e8")
      ->check([](const std::string& text) -> std::string {
        const bool digits =
            !text.empty() && text.size() < 4 && text.find_first_not_of("0123456789") == std::string::npos;
        return text == "e8" || digits ? "" : quote_name(text) + " is neither a number of bits nor e8";
      })
      ->take_last();
}

CLI::Option* add_bits(CLI::App& command, const std::string& name, const std::string& help,
                      std::function<void(uint32_t)> take) {
  return command.add_option_function<uint32_t>(name, std::move(take), help)
      ->type_name("N")
      ->check(CLI::Range(uint32_t{0}, uint32_t{1000}).description(""))
      ->take_last();
}

}  // namespace

void add_colibri_convert(CLI::App& group, Session& session) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = add_command(
      group, session, "convert", "Convert an FP8, NVFP4 or plain model to the integer and lattice formats",
      [&session, options] {
        return run_folder_tool(session, options->folder, colibri::make_convert(options->convert));
      });
  add_folder_options(*command, options->folder);
  colibri::ConvertOptions& convert = options->convert;
  add_bits(*command, "--ebits", "Bits of codes (4; 8 with --mtp and --indexer)",
           [&convert](uint32_t bits) { convert.ebits = bits; });
  add_bits(*command, "--io-bits", "Bits of embedding and output head (8)",
           [&convert](uint32_t bits) { convert.io_bits = bits; });
  add_width(*command, "--xbits", "Bits of routed experts, or e8 (--ebits)",
            [&convert](colibri::CodeWidth width) { convert.xbits = width; });
  using Kind = colibri::TensorKind;
  const std::tuple<const char*, const char*, Kind> kinds[] = {
      {"--shared-bits", "Bits of shared experts", Kind::kShared},
      {"--o-bits", "Bits of o_proj", Kind::kOutput},
      {"--kvb-bits", "Bits of kv_b_proj", Kind::kKvB},
      {"--attn-bits", "Bits of the other attention matrices", Kind::kAttention},
      {"--dmlp-bits", "Bits of dense MLPs", Kind::kDenseMlp}};
  for (const auto& [name, help, kind] : kinds) {
    add_bits(*command, name, help,
             [&convert, kind = kind](uint32_t bits) { convert.kind_bits.emplace_back(kind, bits); });
  }
  const std::pair<const char*, const char*> projections[] = {
      {"--up-bits", "up_proj"}, {"--gate-bits", "gate_proj"}, {"--down-bits", "down_proj"}};
  for (const auto& [name, projection] : projections) {
    add_width(*command, name, "Bits of " + std::string(projection) + " of routed experts, or e8",
              [&convert, projection = projection](colibri::CodeWidth width) {
                convert.projection_bits.emplace_back(projection, width);
              });
  }
  command
      ->add_option("--group-size", convert.group_size,
                   "Columns per scale of codes of up to 4 bits, 0: whole rows (64)")
      ->type_name("N")
      ->take_last();
  command->add_option("--n-layers", convert.layers, "Layers of the model; layer N is the MTP layer (78)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30).description(""))
      ->take_last();
  command->add_flag("--mtp", convert.mtp, "The MTP layer instead of the main model");
  command->add_flag("--indexer", convert.indexer, "The sparse-attention indexer instead of the main model");
  // Taken for the original's sake: --threads says how many work, and the result is the same.
  for (const char* name : {"--workers", "--jobs"}) {
    command->add_option(name, options->ignored, "Taken for the original's sake; --threads decides")
        ->type_name("N")
        ->take_last()
        ->group("");
  }
}

void add_colibri_fmt4_to_fmt2(CLI::App& group, Session& session) {
  struct Options {
    FolderOptions folder;
    std::string ignored{};
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(group, session, "fmt4-to-fmt2", "Convert int4-grouped in groups of 64 to int4-row",
                  [&session, options] {
                    return run_folder_tool(session, options->folder, colibri::make_fmt4_to_fmt2());
                  });
  add_folder_options(*command, options->folder);
  command->add_option("--workers", options->ignored, "Taken for the original's sake; --threads decides")
      ->type_name("N")
      ->take_last()
      ->group("");
}

}  // namespace tftf::cli
