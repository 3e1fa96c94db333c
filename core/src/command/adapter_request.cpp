#include "tftf/command/adapter_request.h"

#include <cmath>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

Result<std::optional<double>> positive(const CommandLine& line, std::string_view name) {
  if (!line.has(name)) return std::optional<double>();
  const std::string text = line.value(name);
  const std::optional<double> value = parse_number(text);
  if (value && *value > 0 && std::isfinite(*value)) return value;
  return Error{.code = ErrorCode::kUsage,
               .message = "--" + std::string(name) + " " + quote_name(text) + " is no positive number.",
               .expected = "a positive number",
               .found = text};
}

}  // namespace

Result<AdapterConvertOptions> adapter_convert_options(const CommandLine& line, const Checkpoint* base,
                                                      std::string single_name) {
  AdapterConvertOptions options;
  options.to = find_adapter_target(line.value("to")).value_or(AdapterTarget::kPeft);
  if (line.has("from")) options.from = find_adapter_family(line.value("from"));
  options.base_family = line.value("base-family");
  Result<std::optional<double>> scale = positive(line, "scale"), alpha = positive(line, "alpha");
  if (!scale) return std::move(scale).error();
  if (!alpha) return std::move(alpha).error();
  if (*scale && *alpha) {
    return Error{.code = ErrorCode::kUsage,
                 .message = "--scale and --alpha say the same in two ways; one of them is enough."};
  }
  options.scale = *scale;
  options.alpha = *alpha;
  options.allow_partial = line.has("allow-partial");
  options.single_name = std::move(single_name);
  options.base = base;
  if (line.has("experts"))
    options.experts = line.value("experts") == "split" ? ExpertForm::kSplit : ExpertForm::kFused;
  options.model_type = line.value("model-type");
  if ((options.experts || !options.model_type.empty()) && options.to != AdapterTarget::kPeft) {
    return Error{
        .code = ErrorCode::kUsage,
        .message = "--experts and --model-type fit PEFT's adapters to a base; they go with --to peft."};
  }
  if (base == nullptr && options.experts.has_value() != !options.model_type.empty()) {
    return Error{.code = ErrorCode::kUsage,
                 .message = "Without --base, --experts and --model-type are needed together."};
  }
  return options;
}

}  // namespace tftf
