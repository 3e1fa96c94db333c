// One tensor saved by torch.save, read without Python (spec tftf 3.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/pickle.h"
#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"
#include "tftf/base/result.h"

namespace tftf {

// A tensor in memory, row-major without gaps.
struct TensorData {
  DType dtype{};
  Shape shape;
  std::vector<std::byte> bytes;
};

struct NamedTensor {
  std::string name;
  TensorData data;
};

// torch's dtypes as pickle globals ("torch", "float32"); complex ones are not listed.
std::span<const PickleGlobal> torch_dtype_globals();
// By the attribute's name in module torch ("bfloat16").
std::optional<DType> torch_dtype(std::string_view name);

// Decodes the archive that fills `bytes`. The view (storage offset, strides) is resolved and bounds-checked.
// `max_elements` bounds what a hostile file can ask for: more is refused. Big-endian archives are refused.
Result<TensorData> read_torch_tensor(Bytes bytes, uint64_t max_elements);

// "adapter_model.bin", "adapter.pt": names of files that torch.save writes.
bool is_torch_file(std::string_view name);
// The tensors of a dictionary that torch.save has written, by their names. Refused (kRefusedInput): anything else in it,
// and tensors that hold more than their storages.
Result<std::vector<NamedTensor>> read_torch_state(Bytes bytes);

}  // namespace tftf
