// Brings the tensors of a source to the names, and its experts to the form, that a model has; puts a text model back into
// its wrapper (spec experts 3, 7, 8).
#pragma once

#include <string>

#include "stream.h"

namespace tftf::transform {

struct GraftNaming {
  std::string model_type{};  // of both, instead of what their configurations say
  bool allow_unmapped = false;
};

struct GraftMatch {
  uint64_t moved = 0;  // names of the source
  bool into_wrapper =
      false;  // the model is the text model of the source, whose configuration holds from here on
};

// kRefusedUnsupported for models of different types.
Result<GraftMatch> match_graft_names(Stream& model, Stream& source, const GraftNaming& naming);

}  // namespace tftf::transform
