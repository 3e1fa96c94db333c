// Opening modules, and what decoders and encoders share.
#include "tftf/quant/weight.h"

#include "tftf/base/escape.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/registry.h"

namespace tftf {

Error weight_fault(ErrorCode code, const OpenContext& context, const QuantMatch& match,
                   const std::string& what) {
  const std::string& file = context.checkpoint.shard(match.weight.shard).name;
  return {.code = code,
          .message = "Module " + quote_name(match.module) + " of " + quote_name(file) + " (" +
                     std::string(match.layout) + ") " + what + ".",
          .file = file,
          .tensor = match.module};
}

Result<Weight> open_weight(OpenContext& context, const QuantMatch& match) {
  const QuantFormat* format = find_quant_format(match.layout);
  if (format == nullptr || !format->read()) {
    const std::string title(format == nullptr ? "" : " as " + std::string(format->title));
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                        "is recognised" + title + ", but this layout is not read");
  }
  return format->open(context, match);
}

Error cannot_encode(const EncodeRequest& request, const std::string& what) {
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = "Tensor " + quote_name(request.name) + " of shape " +
                     shape_text({request.rows, request.columns}) + " " + what + ".",
          .tensor = request.name};
}

Result<void> check_encoded_unit(const EncodeRequest& request, uint64_t rows_at_once) {
  const auto bytes = checked_mul(request.columns, rows_at_once * sizeof(float));
  if (bytes && *bytes <= kLargestUnitBytes) return {};
  return cannot_encode(request, "has rows too long to be quantised, which takes " +
                                    std::to_string(rows_at_once) + " at a time in memory");
}

Result<void> check_no_encode_options(std::string_view layout, const EncodeOptions& options) {
  const char* given = options.bits != 0                               ? "bits"
                      : options.group_size != 0 || options.whole_rows ? "group-size"
                      : options.asymmetric                            ? "asymmetric"
                                                                      : nullptr;
  if (given == nullptr) return {};
  return Error{.code = ErrorCode::kUsage,
               .message = std::string("--") + given + " does not go with " + std::string(layout) + "."};
}

}  // namespace tftf
