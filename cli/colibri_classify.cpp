// `tftf colibri classify`: which pass of the converters takes a source tensor, and as what.
#include <memory>

#include "colibri.h"
#include "json_file.h"
#include "options.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf::cli {
namespace {

constexpr const char* kClassifyExamples =
    "Prints an array of kinds: skip, consumed, f32, io (embedding and head), x (routed experts), sh (shared\n"
    "experts), o, kvb, attn, dmlp (dense MLP), q (anything else that is quantised).\n"
    "\n"
    "Examples:\n"
    "  tftf colibri classify --batch names.json    [[\"model.layers.3.mlp.gate.weight\", 78, false, false], "
    "...]\n"
    "\n"
    "Exit status: 0, 1 the file is not such a list, 2 usage error.";

std::optional<bool> truth(const JsonValue& value) {
  if (value.kind == JsonKind::kBoolean) return value.boolean;
  const auto number = value.as_integer();
  if (!number || (*number != 0 && *number != 1)) return std::nullopt;
  return *number == 1;
}

int classify_batch(const Session& session, const std::string& path) {
  const Result<JsonValue> rows = read_json_file(path);
  if (!rows) return session.fail(rows.error());
  const auto refuse = [&](const std::string& why) {
    return session.fail({.code = ErrorCode::kRefusedInput, .message = quote_name(path) + why, .file = path});
  };
  if (!rows->is_array()) return refuse(" is not an array of [name, layers, mtp, indexer].");
  OrderedJson kinds = OrderedJson::array();
  for (const JsonValue& row : rows->elements) {
    const auto& cells = row.elements;
    const bool shaped = row.is_array() && cells.size() == 4 && cells[0].is_string();
    const auto layers = shaped ? cells[1].as_integer() : std::nullopt;
    const auto mtp = shaped ? truth(cells[2]) : std::nullopt;
    const auto indexer = shaped ? truth(cells[3]) : std::nullopt;
    if (!layers || !mtp || !indexer)
      return refuse(": row " + std::to_string(kinds.size()) + " is not [name, layers, mtp, indexer].");
    kinds.push_back(
        std::string(colibri::kind_name(colibri::classify(cells[0].text, {*layers, *mtp, *indexer}))));
  }
  session.print_json(kinds);
  return 0;
}

}  // namespace

void add_colibri_classify(CLI::App& group, Session& session) {
  auto batch = std::make_shared<std::string>();
  CLI::App* command = add_command(group, session, "classify",
                                  "Say which pass of the converters takes a tensor name, and as what",
                                  [&session, batch] { return classify_batch(session, *batch); });
  command->footer(kClassifyExamples);
  command->add_option("--batch", *batch, "JSON array of [name, number of layers, MTP pass, indexer pass]")
      ->required()
      ->type_name("FILE")
      ->take_last();
}

}  // namespace tftf::cli
