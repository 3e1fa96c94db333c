// An adapter of another family than PEFT's, brought to the names of the base that it is merged into.
#pragma once

#include <memory>
#include <span>

#include "tftf/adapter/merge.h"

namespace tftf {

// `foreign`: with its tensors in memory. Gives a PEFT adapter with a configuration whose modules are those of `base`: in the
// names that the base has, query, key and value split or joined as it has them. Models of a pipeline that the base is not
// are left out, with a notice. Refused: modules that the base does not have (kRefusedUnmatched), and what convert_adapter()
// refuses.
Result<std::shared_ptr<const Adapter>> adapt_to_base(const std::shared_ptr<const Adapter>& foreign,
                                                     std::span<const TensorView> base);

}  // namespace tftf
