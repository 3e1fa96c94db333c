// Converters of folders from their options.
#include "tftf/command/colibri_request.h"

#include "tftf/base/json_reader.h"

namespace tftf::colibri {
namespace {

CodeWidth code_width(const std::string& text) {
  if (text == "e8") return {0, true};
  return {static_cast<uint32_t>(json_unsigned(text).value_or(0)), false};
}

std::vector<uint64_t> layer_list(const std::string& text) {
  std::vector<uint64_t> layers;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    uint64_t layer = 0;
    for (size_t i = at; i < comma; ++i) layer = layer * 10 + static_cast<uint64_t>(text[i] - '0');
    layers.push_back(layer);
    at = comma + 1;
  }
  return layers;
}

int64_t layers_of(const CommandLine& line, int64_t fallback) {
  const auto layers = line.number("n-layers");
  return layers ? static_cast<int64_t>(*layers) : fallback;
}

ConvertOptions convert_options(const CommandLine& line) {
  ConvertOptions options;
  options.layers = layers_of(line, options.layers);
  options.mtp = line.has("mtp");
  options.indexer = line.has("indexer");
  options.strict = line.has("strict");
  const auto bits = [&](std::string_view name) -> std::optional<uint32_t> {
    const auto number = line.number(name);
    return number ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
  };
  options.ebits = bits("ebits");
  options.io_bits = bits("io-bits").value_or(options.io_bits);
  if (line.has("xbits")) options.xbits = code_width(line.value("xbits"));
  constexpr std::pair<std::string_view, TensorKind> kKinds[] = {{"shared-bits", TensorKind::kShared},
                                                                {"o-bits", TensorKind::kOutput},
                                                                {"kvb-bits", TensorKind::kKvB},
                                                                {"attn-bits", TensorKind::kAttention},
                                                                {"dmlp-bits", TensorKind::kDenseMlp}};
  for (const auto& [name, kind] : kKinds)
    if (const auto number = bits(name)) options.kind_bits.emplace_back(kind, *number);
  constexpr std::pair<std::string_view, const char*> kProjections[] = {
      {"up-bits", "up_proj"}, {"gate-bits", "gate_proj"}, {"down-bits", "down_proj"}};
  for (const auto& [name, projection] : kProjections)
    if (line.has(name)) options.projection_bits.emplace_back(projection, code_width(line.value(name)));
  options.group_size = line.number("group-size").value_or(options.group_size);
  return options;
}

}  // namespace

std::shared_ptr<const transform::Pipe> folder_tool(const CommandLine& line) {
  const std::string_view tool = line.command->name();
  if (tool == "convert") return make_convert(convert_options(line));
  if (tool == "fmt4-to-fmt2") return make_fmt4_to_fmt2(line.has("strict"));
  if (tool == "rans-repack") {
    return make_rans_repack({.layers = layer_list(line.value("layers")),
                             .overwrite = line.has("overwrite") || line.has("force")});
  }
  RepackFp8Options options;
  options.layers = layers_of(line, options.layers);
  options.mtp = line.has("mtp");
  options.pass_plain = line.has("pass-plain");
  options.strict = line.has("strict");
  return make_repack_fp8(options);
}

}  // namespace tftf::colibri
