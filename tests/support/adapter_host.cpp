#include "adapter_host.h"

namespace tftf::test {

Result<std::shared_ptr<const Adapter>> adapter_of(const std::vector<TestTensor>& tensors,
                                                  const std::string& config) {
  std::vector<NamedTensor> list;
  for (const TestTensor& tensor : tensors) {
    const Bytes bytes = as_bytes(tensor.bytes);
    list.push_back({tensor.name, {tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()}}});
  }
  std::optional<AdapterConfigText> text;
  if (!config.empty()) text = AdapterConfigText{"adapter_config.json", config};
  return make_adapter("adapter", "adapter_model.safetensors", std::move(list), text, {});
}

Operation merge_operation(std::shared_ptr<const Adapter> adapter, std::vector<Operation::Given> options) {
  options.push_back({"adapter", {"adapter"}});
  Operation operation{"merge-lora", std::move(options)};
  operation.adapter = std::move(adapter);
  return operation;
}

}  // namespace tftf::test
