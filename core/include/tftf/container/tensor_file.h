// A safetensors file that is held whole: scales that a user brings along.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/container/header.h"

namespace tftf {

class TensorFile {
 public:
  struct Tensor {
    DType dtype{};
    Shape shape{};
    Bytes bytes{};  // live as long as the file
  };

  // kRefusedInput with the first fault of a header that is not sound.
  static Result<std::shared_ptr<const TensorFile>> read(std::string name,
                                                        std::shared_ptr<const std::string> bytes);

  const std::string& name() const { return name_; }
  uint64_t size() const { return bytes_->size(); }
  const std::string& sha256() const { return sha256_; }  // hexadecimal
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  std::optional<Tensor> find(std::string_view name) const;

 private:
  TensorFile() = default;

  std::string name_, sha256_;
  std::shared_ptr<const std::string> bytes_{};
  Header header_{};
  std::unordered_map<std::string_view, const TensorInfo*> by_name_{};
};

}  // namespace tftf
