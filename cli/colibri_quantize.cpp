// `tftf colibri quantize` and `dequant`: one file, in one format by name.
#include "colibri.h"
#include "options.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/rans_check.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

struct SingleFileOptions {
  std::string input, format;
  uint64_t bits = 0, group_size = 0, rows = 0, columns = 0;
  bool strict = false;
  WriteOptions write;
};

// The format's layout id, or why there is none. Range-coded records are made by rans-repack alone, since they share a table.
Result<std::string> layout_of(const std::string& name, bool reads) {
  if (reads && name == colibri::kRansStamp) return "colibri-" + name;
  const auto format = colibri::find_format(name);
  if (format && *format != colibri::Format::kF32 && *format != colibri::Format::kMxfp4)
    return std::string(colibri::format_info(*format).id);
  std::string known;
  for (const colibri::FormatInfo& info : colibri::all_formats()) {
    if (info.format == colibri::Format::kF32 || info.format == colibri::Format::kMxfp4) continue;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  if (reads) known += ", " + std::string(colibri::kRansStamp);
  return Error{.code = ErrorCode::kUsage,
               .message = "--format " + quote_name(name) + " is none of " + known + ".",
               .expected = known,
               .found = name};
}

void add_number(Operation& operation, const char* name, uint64_t value) {
  if (value != 0) operation.options.push_back({name, {std::to_string(value)}});
}

CLI::App* add_single_file_tool(CLI::App& group, Session& session, const char* name, const char* description,
                               const std::shared_ptr<SingleFileOptions>& options,
                               Operation (*operation)(const SingleFileOptions&, const std::string& layout)) {
  CLI::App* command = add_command(group, session, name, description, [&session, options, operation, name] {
    const Result<std::string> layout = layout_of(options->format, name == std::string_view("dequant"));
    if (!layout) return session.fail(layout.error());
    options->write.align = true;  // the form of a colibri header (spec colibri 3.5)
    return run_transform(session, "colibri " + std::string(name), options->input,
                         {operation(*options, *layout)}, options->write);
  });
  command->add_option("-i,--input", options->input, "File")->type_name("FILE")->required()->take_last();
  command
      ->add_option("--format", options->format,
                   "int8-row, int4-row, int2-row, int4-grouped, int3-g64, e8-iq3-lattice or fp8-e4m3-b128 "
                   "(dequant: int4-rans256-g0 too)")
      ->type_name("NAME")
      ->required()
      ->take_last();
  command->add_option("--group-size", options->group_size, "Columns per scale of int4-grouped")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  return command;
}

}  // namespace

void add_colibri_quantize(CLI::App& group, Session& session) {
  auto options = std::make_shared<SingleFileOptions>();
  CLI::App* command =
      add_single_file_tool(group, session, "quantize", "Quantise every float matrix of a file", options,
                           [](const SingleFileOptions& given, const std::string& layout) {
                             Operation operation{"quantize", {{"to", {layout}}, {"include", {"*"}}}};
                             add_number(operation, "bits", given.bits);
                             add_number(operation, "group-size", given.group_size);
                             if (given.strict) operation.options.push_back({"strict", {}});
                             return operation;
                           });
  command
      ->add_option("--bits", options->bits, "Bits of a code: 2 to 8 in int8-row, 2 to 4 in the int4 formats")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--strict", options->strict, "Refuse what a reader would take for another format");
  add_write_options(*command, options->write);
}

void add_colibri_dequant(CLI::App& group, Session& session) {
  auto options = std::make_shared<SingleFileOptions>();
  CLI::App* command = add_single_file_tool(
      group, session, "dequant", "Dequantise every NAME with a NAME.qs of a file to float32", options,
      [](const SingleFileOptions& given, const std::string& layout) {
        Operation operation{"dequant", {{"layout", {layout}}, {"dtype", {"float32"}}}};
        operation.options.push_back({"rows", {std::to_string(given.rows)}});
        operation.options.push_back({"cols", {std::to_string(given.columns)}});
        add_number(operation, "group-size", given.group_size);
        return operation;
      });
  command->add_option("--rows", options->rows, "Rows of every matrix")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->required();
  command->add_option("--cols", options->columns, "Its columns")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->required();
  add_write_options(*command, options->write);
}

}  // namespace tftf::cli
