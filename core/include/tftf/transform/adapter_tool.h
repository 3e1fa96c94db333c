// Converting an adapter as a plan: TransformRequest::tool (spec adapters 13).
#pragma once

#include <memory>

#include "tftf/adapter/convert.h"
#include "tftf/transform/planner.h"

namespace tftf {

// `options.base` must outlive the planner.
std::shared_ptr<const transform::Pipe> make_adapter_conversion(AdapterConvertOptions options);

}  // namespace tftf
