// The files of a result: packed into shards or placed by a pipe, each tensor's range in them, their headers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stream.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {

class ResultFiles {
 public:
  ResultFiles(Stream& stream, const TransformRequest& request) : stream_(stream), request_(request) {}

  // Puts the stream's tensors in the order in which they lie in the files, where that is not the one they have.
  void align();
  // Adds the outputs to the plan (but of an examining run) and the account. kRefusedCollision for equal names.
  Result<void> lay_out(const std::vector<DeclaredTensor>& tensors, PlanBuilder& builder, Account& account);

  const OutputNames& names() const { return names_; }
  const std::vector<PlacedFile>& files() const { return files_; }
  // By tensor of the stream: where it goes, and in which file.
  const Extent& range_of(size_t tensor) const { return ranges_[tensor]; }
  uint32_t file_of(size_t tensor) const { return ranges_[tensor].file; }

 private:
  std::vector<size_t> starts(const std::vector<uint64_t>& bytes) const;
  void pack(const std::vector<DeclaredTensor>& tensors, const Account& account);
  Metadata metadata_of_result(bool changed) const;
  Result<void> lay_out_file(uint32_t f, size_t first, const std::vector<DeclaredTensor>& tensors,
                            PlanBuilder& builder, Account& account);

  Stream& stream_;
  const TransformRequest& request_;
  const OutputNames names_ = output_names(*stream_.checkpoint);
  std::vector<size_t> starts_;  // first tensor of each output, once aligned
  std::vector<PlacedFile> files_;
  std::vector<Extent> ranges_;
};

}  // namespace tftf::transform
