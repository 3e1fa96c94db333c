// Adapters in memory, for tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tftf/adapter/adapter.h"
#include "transform_host.h"

namespace tftf::test {

// The tensors with a configuration ("": none).
Result<std::shared_ptr<const Adapter>> adapter_of(const std::vector<TestTensor>& tensors,
                                                  const std::string& config);

// merge-lora with that adapter and other options.
Operation merge_operation(std::shared_ptr<const Adapter> adapter, std::vector<Operation::Given> options = {});

}  // namespace tftf::test
