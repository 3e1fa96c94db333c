// Opening what the tools read.
#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"
#include "tftf/transform/adapter_tools.h"

namespace tftf {

AdapterInput::AdapterInput(const Checkpoint& checkpoint, Kind kind)
    : checkpoint_(&checkpoint), kind_(kind), values_(checkpoint), header_sha256_(checkpoint.shards.size()) {}

std::vector<ReadRequest> AdapterInput::want() {
  if (error_) return {};
  if (due_ && kind_ == Kind::kAdapter) {
    survey_ = survey_adapter(*checkpoint_, values_);
    scales_ = find_adapter_scales(*checkpoint_, values_, survey_.modules, survey_.family);
  }
  due_ = false;
  std::vector<ReadRequest> requests = values_.want();
  due_ = !requests.empty();
  if (!requests.empty() || headers_asked_) return requests;
  headers_asked_ = true;
  for (const Shard& shard : checkpoint_->shards)
    requests.push_back({shard.name, {0, shard.header.data_offset()}});
  return requests;
}

void AdapterInput::supply(const ReadRequest& request, Bytes bytes) {
  if (request.range.offset != 0) return values_.supply(request, bytes);
  if (bytes.size() < request.range.length) return fail(request, "the file has become shorter");
  for (size_t s = 0; s < header_sha256_.size(); ++s)
    if (checkpoint_->shards[s].name == request.file) header_sha256_[s] = sha256_hex(bytes);
}

void AdapterInput::fail(const ReadRequest& request, const std::string& reason) {
  if (request.range.offset != 0) return values_.fail(request);
  error_ =
      Error{.code = ErrorCode::kIoRead,
            .message = "The header of " + quote_name(request.file) + " could not be read: " + reason + ".",
            .file = request.file};
}

Result<void> AdapterInput::check() const {
  if (error_) return *error_;
  if (kind_ == Kind::kModel) return {};
  const std::string& given = checkpoint_->listing.given;
  if (survey_.kind != AdapterKind::kAdapter || survey_.modules.empty()) {
    return Error{.code = ErrorCode::kRefusedInput,
                 .message = quote_name(given) + " is not an adapter that is made of pairs of factors (" +
                            std::string(adapter_kind_name(survey_.kind)) + ").",
                 .file = given};
  }
  if (survey_.ambiguous) {
    return Error{
        .code = ErrorCode::kRefusedAmbiguous,
        .message = quote_name(given) +
                   " mixes naming families, which may be the same weights twice; `adapter convert --from` "
                   "takes one of them.",
        .file = given};
  }
  if (scales_.error) return *scales_.error;
  return {};
}

}  // namespace tftf
