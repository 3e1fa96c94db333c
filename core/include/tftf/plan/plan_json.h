// A plan's text form as JSON, with the same fields: what `tftf plan` prints and splits.
#pragma once

#include "tftf/base/json_text.h"
#include "tftf/plan/plan.h"

namespace tftf {

// {"plan":1,"command","tile","inputs":[{"path","size","header_sha256"}],"outputs":[{"name","size","header"}],
// "lines":[…]}: each line is an object whose first key is the word of the text form and holds the name.
// Ranges are written as in the text form; what a later phase lays out is null.
OrderedJson plan_json(const Plan& plan);

}  // namespace tftf
