#include "graft_names.h"

#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

std::string type_of(const Stream& stream, const GraftNaming& naming) {
  if (!naming.model_type.empty()) return naming.model_type;
  const JsonValue* config = stream.config();
  const auto type = config == nullptr ? std::nullopt : config->string("model_type");
  return type ? std::string(*type) : std::string();
}

}  // namespace

Result<GraftMatch> match_graft_names(Stream& model, Stream& source, const GraftNaming& naming) {
  const std::string ours = type_of(model, naming), theirs = type_of(source, naming);
  if (ours == theirs) return GraftMatch{};
  return Error{.code = ErrorCode::kRefusedUnsupported,
               .message = "The model is of type " + quote_name(ours) + " and the source of type " +
                          quote_name(theirs) + ": tensors are taken from a model of the same type only.",
               .expected = ours,
               .found = theirs};
}

}  // namespace tftf::transform
