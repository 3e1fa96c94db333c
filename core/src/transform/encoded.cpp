// Puts encoders at the end of tensors' ways.
#include "encoded.h"

#include <algorithm>

#include "tftf/quant/colibri/write_gate.h"

namespace tftf::transform {
namespace {

void add_parts(Stream& stream, StreamTensor tensor, const std::vector<EncodedPart>& parts,
               std::vector<StreamTensor>& out) {
  const auto outputs = static_cast<uint8_t>(
      std::count_if(parts.begin(), parts.end(), [](const EncodedPart& part) { return part.is_output(); }));
  const uint32_t bundle = ++stream.bundles;
  uint8_t output = 0;
  for (const EncodedPart& part : parts) {
    StreamTensor made;
    made.name = part.name;
    made.dtype = part.dtype;
    made.shape = part.shape;
    made.source = tensor.source;
    made.added = tensor.added || &part != &parts.front();
    made.bundle = bundle;
    made.outputs = outputs;
    made.literal = part.literal;
    made.measured = part.measured;
    if (part.is_output()) made.output = output++;
    if (&part == &parts.front()) {
      made.stages = std::move(tensor.stages);
      made.provided = std::move(tensor.provided);
      made.gather = std::move(tensor.gather);
    }
    out.push_back(std::move(made));
  }
}

}  // namespace

Result<void> encode_matrix(Stream& stream, StreamTensor matrix, const Encoder& encoder,
                           const EncodeOptions& options, std::optional<std::string> stamp,
                           std::vector<StreamTensor>& out) {
  EncodeRequest request{matrix.name, matrix.shape[0], matrix.shape[1], matrix.dtype, options};
  request.plain = matrix.provided == nullptr && matrix.gather == nullptr &&
                  std::all_of(matrix.stages.begin(), matrix.stages.end(),
                              [](const Stage& stage) { return stage.op == &kCastStage; });
  request.stamp = std::move(stamp);
  Result<Encoded> encoded = encoder.plan(request);
  if (!encoded) {
    Error error = std::move(encoded).error();
    error.file = stream.file_of(matrix.source);
    return error;
  }
  if (!encoded->warning.empty()) stream.warnings.push_back(std::move(encoded->warning));
  if (encoder.stamped) {
    if (auto warning = colibri::shape_warning(matrix.name, request.rows, request.columns, stream.config()))
      stream.warnings.push_back(*std::move(warning));
  }
  const auto shared = std::make_shared<const Encoded>(*std::move(encoded));
  matrix.stages.push_back(encode_stage(shared, matrix.dtype));
  add_parts(stream, std::move(matrix), shared->parts, out);
  return {};
}

}  // namespace tftf::transform
