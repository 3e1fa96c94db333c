#include "command/agreement.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf::command {
namespace {

std::string named(const CommandLine& line, std::initializer_list<std::string_view> names, bool given) {
  for (const std::string_view name : names)
    if (line.has(name) == given) return "--" + std::string(name);
  return "";
}

// "dtype:float16", "filter:GLOB", "exclude:GLOB" (spec tftf 1.2); the dtype's spelling is exact here.
std::string read_pipe(CommandLine& line) {
  const std::string spec = line.value("pipe");
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (colon != std::string::npos && (kind == "filter" || kind == "exclude")) {
    line.operations.push_back({"filter", {{kind == "filter" ? "include" : "exclude", {value}}}});
    return "";
  }
  if (colon == std::string::npos || kind != "dtype")
    return "--pipe is " + quote_name(spec) + ", not dtype:D, filter:GLOB or exclude:GLOB";
  const auto& choices = find_operation("cast")->option("dtype")->choices;
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    line.operations.push_back({"cast", {{"dtype", {value}}}});
    return "";
  }
  std::string known;
  for (const std::string_view choice : choices) known += (known.empty() ? "" : ", ") + std::string(choice);
  return "--pipe names the dtype " + quote_name(value) + ", which is not one of " + known;
}

// The layout's id, or why there is none. Range-coded records are made by rans-repack alone, since they share a table.
std::string layout_of(const std::string& name, bool reads, std::string& id) {
  const auto format = colibri::find_format(name);
  const auto written = [](colibri::Format one) {
    return one != colibri::Format::kF32 && one != colibri::Format::kMxfp4;
  };
  if (reads && name == colibri::kRansStamp) {
    id = "colibri-" + name;
    return "";
  }
  if (format && written(*format)) {
    id = colibri::format_info(*format).id;
    return "";
  }
  std::string known;
  for (const colibri::FormatInfo& info : colibri::all_formats())
    if (written(info.format)) known += (known.empty() ? "" : ", ") + std::string(info.name);
  if (reads) known += ", " + std::string(colibri::kRansStamp);
  return "--format is " + quote_name(name) + ", which is none of " + known;
}

std::string read_single_file_tool(CommandLine& line, bool reads) {
  std::string layout;
  if (std::string complaint = layout_of(line.value("format"), reads, layout); !complaint.empty())
    return complaint;
  Operation operation{reads ? "dequant" : "quantize", {}};
  if (reads)
    operation.options = {{"layout", {layout}}, {"dtype", {"float32"}}};
  else
    operation.options = {{"to", {layout}}, {"include", {"*"}}};
  for (const char* name : {"rows", "cols", "bits", "group-size"})
    if (line.has(name)) operation.options.push_back({name, {line.value(name)}});
  if (line.has("strict")) operation.options.push_back({"strict", {}});
  line.operations.push_back(std::move(operation));
  return "";
}

std::string check_resolve(const CommandLine& line) {
  if (line.has("batch")) {
    const std::string other =
        named(line, {"rows", "cols", "weight-bytes", "scale-bytes", "stamp", "routed"}, true);
    return other.empty() ? "" : "--batch excludes " + other;
  }
  return named(line, {"rows", "cols", "weight-bytes", "scale-bytes"}, false).empty()
             ? ""
             : "One pair takes --rows, --cols, --weight-bytes and --scale-bytes; several take --batch FILE";
}

std::string check_heat_map(const CommandLine& line) {
  if (line.has("heat-map")) return line.values("tensor").size() == 1 ? "" : "--heat-map wants one --tensor";
  const std::string lone = named(line, {"rows", "columns"}, true);
  return lone.empty() ? "" : lone + " needs --heat-map";
}

}  // namespace

std::string check_together(CommandLine& line) {
  const std::string_view path = line.command->info->path;
  if (line.has("single") && line.has("sharded")) return "--single excludes --sharded";
  if (line.command->info->writes && line.value("output").empty()) return "--output is empty";
  if (path == "validate" && line.has("pipe")) return read_pipe(line);
  if (path == "stats") return check_heat_map(line);
  if (path == "colibri quantize" || path == "colibri dequant")
    return read_single_file_tool(line, path == "colibri dequant");
  if (path == "colibri resolve") return check_resolve(line);
  if (path == "colibri rans-repack" && !line.has("manifest-only") &&
      !(line.has("indir") && line.has("outdir")))
    return "--indir and --outdir are needed, or --manifest-only";
  if (path == "merge-fsdp-lora" && line.has("shards") == line.has("shard-dir"))
    return line.has("shards") ? "--shards and --shard-dir exclude each other"
                              : "Either --shards or --shard-dir is needed";
  if (path == "lint" && line.words.empty()) return "A PATH is needed: a file or a folder";
  if (path == "lint" && line.has("baseline") && line.has("write-baseline"))
    return "--write-baseline writes all findings; --baseline excludes it";
  return "";
}

}  // namespace tftf::command
