#include "code_bundles.h"

#include <algorithm>

namespace tftf::transform {

Result<void> check_codes(const Stream& stream, bool examined) {
  std::map<uint32_t, uint32_t> outputs;  // by bundle
  for (const StreamTensor& tensor : stream.tensors) {
    const auto stray = std::find_if(tensor.stages.begin(), tensor.stages.end(),
                                    [](const Stage& stage) { return stage.op->encodes; });
    const bool changed = stray != tensor.stages.end() ? stray + 1 != tensor.stages.end()
                                                      : (tensor.output > 0 || tensor.literal ||
                                                         tensor.measured || tensor.plane || tensor.words) &&
                                                            !tensor.stages.empty();
    if (changed || (examined && (tensor.bundle != 0 || tensor.plane || tensor.words))) {
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Tensor " + stream.described(tensor) +
                              (changed ? " would be changed after it was quantised; quantising comes last."
                                       : " would be quantised, and its values are not examined then."),
                   .file = stream.file_of(tensor.source),
                   .tensor = tensor.name};
    }
    if (tensor.bundle != 0 && !tensor.literal && !tensor.measured) ++outputs[tensor.bundle];
  }
  for (const StreamTensor& tensor : stream.tensors) {
    if (tensor.bundle == 0 || tensor.literal || tensor.measured || outputs[tensor.bundle] == tensor.outputs)
      continue;
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "Of tensor " + stream.described(tensor) +
                            " codes or scales would be left out after it was quantised.",
                 .file = stream.file_of(tensor.source),
                 .tensor = tensor.name};
  }
  return {};
}

CodeBundles collect_bundles(const Stream& stream) {
  CodeBundles bundles;
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const StreamTensor& tensor = stream.tensors[i];
    if (tensor.bundle == 0 || tensor.literal || tensor.measured) continue;
    std::vector<size_t>& members = bundles[tensor.bundle];
    members.resize(std::max<size_t>(members.size(), tensor.output + size_t{1}));
    members[tensor.output] = i;
  }
  return bundles;
}

}  // namespace tftf::transform
