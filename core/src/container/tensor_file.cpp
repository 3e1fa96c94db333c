#include "tftf/container/tensor_file.h"

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"

namespace tftf {

Result<std::shared_ptr<const TensorFile>> TensorFile::read(std::string name,
                                                           std::shared_ptr<const std::string> bytes) {
  HeaderReader reader(name, bytes->size());
  while (const auto range = reader.want())
    reader.supply(as_bytes(*bytes).subspan(to_size(range->offset), to_size(range->length)));
  HeaderScan scan = reader.take();
  if (!scan.sound) {
    std::string why = "its header cannot be read";
    for (const Diagnostic& finding : scan.findings)
      if (rule_info(finding.rule).severity == Severity::kError) {
        why = message(finding);
        break;
      }
    if (why.back() == '.') why.pop_back();
    return Error{.code = ErrorCode::kRefusedInput,
                 .message = "File " + quote_name(name) + " is no sound safetensors file: " + why + ".",
                 .file = name};
  }
  auto file = std::shared_ptr<TensorFile>(new TensorFile);
  file->name_ = std::move(name);
  file->bytes_ = std::move(bytes);
  file->sha256_ = sha256_hex(as_bytes(*file->bytes_));
  file->header_ = std::move(scan.header);
  for (const TensorInfo& info : file->header_.tensors) file->by_name_.emplace(info.name, &info);
  return std::shared_ptr<const TensorFile>(std::move(file));
}

std::optional<TensorFile::Tensor> TensorFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  const TensorInfo& info = *found->second;
  return Tensor{
      info.dtype, info.shape,
      as_bytes(*bytes_).subspan(to_size(header_.data_offset() + info.begin), to_size(info.bytes()))};
}

}  // namespace tftf
