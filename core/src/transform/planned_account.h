// What the account of a command says before its steps have run.
#pragma once

#include "stream.h"
#include "tftf/transform/account.h"
#include "tftf/transform/planner.h"

namespace tftf::transform {

Account account_of(const Stream& stream, const LayoutReport& layouts, const TransformRequest& request);

}  // namespace tftf::transform
