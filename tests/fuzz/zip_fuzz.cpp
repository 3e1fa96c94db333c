// Archives of torch.save of any bytes: their members lie inside, and a tensor has the bytes of its shape.
#include <cstddef>
#include <cstdint>

#include "input.h"
#include "tftf/adapter/torch_tensor.h"
#include "tftf/adapter/zip_archive.h"

namespace {

using tftf::fuzz::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMost = 1 << 20;
  const tftf::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto members = tftf::read_zip(bytes); members.ok()) {
    for (const tftf::ZipMember& member : *members) {
      require(member.offset <= size && member.size <= size - member.offset);
      if (const auto content = tftf::zip_data(bytes, member); content.ok())
        require(content->size() == member.size);
    }
  }
  if (const auto tensor = tftf::read_torch_tensor(bytes, kMost); tensor.ok()) {
    const auto elements = tftf::element_count(tensor->shape);
    require(elements && *elements <= kMost);
    require(tftf::byte_count(*elements, tensor->dtype) == tensor->bytes.size());
  }
  return 0;
}
