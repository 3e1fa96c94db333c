// `tftf colibri resolve`: what a reader makes of byte counts, shape and stamp.
#include <memory>

#include "colibri.h"
#include "json_file.h"
#include "options.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/resolver.h"

namespace tftf::cli {
namespace {

struct ResolveArguments {
  std::string batch;
  std::optional<uint64_t> rows, columns, weight_bytes, scale_bytes;
  std::string stamp;
  bool stamped = false;
  bool routed = false;
};

constexpr const char* kResolveExamples =
    "Prints {\"verdict\", \"fmt\", \"group_size\", \"class\"}, for --batch an array of them.\n"
    "\n"
    "Examples:\n"
    "  tftf colibri resolve --rows 2048 --cols 6144 --weight-bytes 12582912 --scale-bytes 3072\n"
    "  tftf colibri resolve --rows 64 --cols 98 --weight-bytes 6272 --scale-bytes 4 --stamp e8-iq3-lattice\n"
    "  tftf colibri resolve --batch pairs.json     [{\"O\", \"I\", \"weight_bytes\", \"scale_bytes\", "
    "\"stamp\", \"routed\"}, ...]\n"
    "\n"
    "Exit status: 0 (with --batch whatever the verdicts), 1 the reader refuses, 2 usage error.";

OrderedJson resolution_json(const colibri::Resolution& resolution) {
  OrderedJson json;
  json["verdict"] = resolution.format ? "ok" : "refuse";
  json["fmt"] = nullptr;
  json["group_size"] = nullptr;
  json["class"] = nullptr;
  if (resolution.format) {
    json["fmt"] = static_cast<int>(*resolution.format);
    json["group_size"] = json_integer(resolution.group_size);
  } else {
    json["class"] = std::string(colibri::refusal_class(*resolution.refusal));
  }
  return json;
}

// Row `index` of a batch; the name of the member that is missing or wrong.
std::optional<std::string> read_pair(const JsonValue& row, colibri::Pair& pair) {
  const auto count = [&](std::string_view key, uint64_t& to) -> bool {
    const JsonValue* value = row.find(key);
    // Integers past 2^53 are strings in the documents that this program writes.
    const bool digits = value && (value->is_number() || value->is_string());
    const std::optional<uint64_t> number = digits ? json_unsigned(value->text) : std::nullopt;
    if (number) to = *number;
    return number.has_value();
  };
  if (!row.is_object()) return "an object";
  if (!count("O", pair.rows)) return "\"O\"";
  if (!count("I", pair.columns)) return "\"I\"";
  if (!count("weight_bytes", pair.weight_bytes)) return "\"weight_bytes\"";
  if (!count("scale_bytes", pair.scale_bytes)) return "\"scale_bytes\"";
  const JsonValue* stamp = row.get("stamp");
  if (stamp && !stamp->is_string()) return "\"stamp\"";
  if (stamp) pair.stamp = stamp->text;
  const JsonValue* routed = row.get("routed");
  if (routed && routed->kind != JsonKind::kBoolean) return "\"routed\"";
  pair.routed = routed && routed->boolean;
  return std::nullopt;
}

int resolve_batch(const Session& session, const std::string& path) {
  const Result<JsonValue> rows = read_json_file(path);
  if (!rows) return session.fail(rows.error());
  const auto refuse = [&](const std::string& why) {
    return session.fail({.code = ErrorCode::kRefusedInput, .message = quote_name(path) + why, .file = path});
  };
  if (!rows->is_array()) return refuse(" is not an array of pairs.");
  OrderedJson results = OrderedJson::array();
  for (const JsonValue& row : rows->elements) {
    colibri::Pair pair;
    if (const auto wrong = read_pair(row, pair))
      return refuse(": pair " + std::to_string(results.size()) + " lacks " + *wrong +
                    ", or it is of the wrong kind.");
    results.push_back(resolution_json(colibri::resolve(pair)));
  }
  session.print_json(results);
  return 0;
}

int resolve_one(const Session& session, const ResolveArguments& arguments) {
  if (!arguments.rows || !arguments.columns || !arguments.weight_bytes || !arguments.scale_bytes)
    return session.fail({.code = ErrorCode::kUsage,
                         .message =
                             "One pair takes --rows, --cols, --weight-bytes and --scale-bytes; several "
                             "take --batch FILE."});
  colibri::Pair pair;
  pair.rows = *arguments.rows;
  pair.columns = *arguments.columns;
  pair.weight_bytes = *arguments.weight_bytes;
  pair.scale_bytes = *arguments.scale_bytes;
  if (arguments.stamped) pair.stamp = arguments.stamp;
  pair.routed = arguments.routed;
  const colibri::Resolution resolution = colibri::resolve(pair);
  session.print_json(resolution_json(resolution));
  if (resolution.format) return 0;
  session.warn("a reader refuses [" + std::to_string(pair.rows) + "," + std::to_string(pair.columns) +
               "] with " + std::to_string(pair.weight_bytes) + " and " + std::to_string(pair.scale_bytes) +
               " bytes: " + std::string(colibri::refusal_class(*resolution.refusal)) + ".");
  return error_exit_status(ErrorCode::kRefusedInput);
}

}  // namespace

void add_colibri_resolve(CLI::App& group, Session& session) {
  auto arguments = std::make_shared<ResolveArguments>();
  CLI::App* command = add_command(
      group, session, "resolve", "Say which format a reader infers from byte counts, or why it refuses",
      [&session, arguments] {
        return arguments->batch.empty() ? resolve_one(session, *arguments)
                                        : resolve_batch(session, arguments->batch);
      });
  command->footer(kResolveExamples);
  CLI::Option* batch =
      command->add_option("--batch", arguments->batch, "JSON array of pairs")->type_name("FILE")->take_last();
  const auto count = [&](const char* name, std::optional<uint64_t>& to, const char* description) {
    command
        ->add_option_function<std::string>(
            name,
            [&to, name](const std::string& text) {
              to = json_unsigned(text);
              if (!to)
                throw CLI::ValidationError(std::string(name) + " takes a number from 0, not " +
                                           quote_name(text));
            },
            description)
        ->type_name("N")
        ->take_last()
        ->excludes(batch);
  };
  count("--rows", arguments->rows, "Output rows O");
  count("--cols", arguments->columns, "Input columns I");
  count("--weight-bytes", arguments->weight_bytes, "Bytes of NAME");
  count("--scale-bytes", arguments->scale_bytes, "Bytes of NAME.qs");
  command
      ->add_option_function<std::string>(
          "--stamp",
          [arguments](const std::string& text) {
            arguments->stamp = text;
            arguments->stamped = true;
          },
          "Format that the container's stamp claims")
      ->type_name("FORMAT")
      ->take_last()
      ->excludes(batch);
  command->add_flag("--routed", arguments->routed, "A routed expert: its stamp is not consulted")
      ->excludes(batch);
}

}  // namespace tftf::cli
