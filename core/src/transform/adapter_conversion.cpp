// The conversion of an adapter as a stream of placed tensors.
#include <algorithm>

#include "pipe.h"
#include "tftf/adapter/fit.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/base/size_text.h"
#include "tftf/transform/adapter_tool.h"
#include "tftf/transform/output_layout.h"

namespace tftf {
namespace {

constexpr std::string_view kPeftStart = "base_model.model.";

class AdapterPipe final : public transform::Pipe {
 public:
  explicit AdapterPipe(AdapterConvertOptions options) : options_(std::move(options)) {}

  std::string text() const override {
    std::string text = "adapter convert to=" + std::string(adapter_target_id(options_.to));
    if (options_.from) text += " from=" + std::string(adapter_family_id(*options_.from));
    if (!options_.base_family.empty()) text += " base-family=" + options_.base_family;
    if (options_.scale) text += " scale=" + json_float(*options_.scale).dump();
    if (options_.alpha) text += " alpha=" + json_float(*options_.alpha).dump();
    if (options_.base != nullptr) text += " base=" + json_ascii_string(options_.base->listing.given);
    if (options_.experts) text += " experts=" + std::string(expert_form_text(*options_.experts));
    if (!options_.model_type.empty()) text += " model-type=" + json_ascii_string(options_.model_type);
    return text + (options_.allow_partial ? " partial" : "");
  }

  Result<void> apply(transform::Stream& stream) const override {
    const Checkpoint& checkpoint = *stream.checkpoint;
    Result<std::optional<AdapterConversion>> converted = convert(stream);
    if (!converted) return std::move(converted).error();
    if (!*converted) return {};  // values are still to come
    AdapterConversion& result = **converted;
    stream.tensors.clear();
    stream.dropped.clear();
    transform::Placement placement;
    placement.tensors_in = checkpoint.order.size();
    const Metadata metadata = metadata_of(checkpoint, result);
    for (AdapterConversion::File& file : result.files) {
      for (AdapterRecipe& recipe : file.tensors) stream.tensors.push_back(tensor_of(checkpoint, recipe));
      placement.files.push_back({.name = file.name, .end = stream.tensors.size(), .metadata = metadata});
    }
    placement.made_sides = std::move(result.sides);
    for (const auto& [tensor, reason] : result.dropped)
      stream.dropped.push_back({checkpoint.info(tensor).name, reason});
    for (const auto& [tensor, reason] : result.unmapped)
      stream.dropped.push_back({checkpoint.info(tensor).name, "unmapped"});
    if (!result.unmapped.empty()) {
      stream.warnings.push_back(grouped_digits(result.unmapped.size()) + " tensors are left out, " +
                                quote_name(checkpoint.info(result.unmapped[0].first).name) + " first: it " +
                                result.unmapped[0].second + ".");
    }
    for (std::string& warning : result.warnings) stream.warnings.push_back(std::move(warning));
    stream.converted = Account::Converted{.from = std::string(adapter_family_id(result.from)),
                                          .to = std::string(adapter_target_id(result.to)),
                                          .base_family = result.base_family,
                                          .modules = result.modules,
                                          .mapped = result.mapped,
                                          .unmapped = result.unmapped.size(),
                                          .dropped = result.dropped.size(),
                                          .notes = std::move(result.notes)};
    stream.placement = std::move(placement);
    return {};
  }

 private:
  // An adapter in PEFT's names is fitted to a base.
  Result<std::optional<AdapterConversion>> convert(const transform::Stream& stream) const {
    const Checkpoint& checkpoint = *stream.checkpoint;
    const bool peft = std::any_of(checkpoint.order.begin(), checkpoint.order.end(), [&](TensorRef tensor) {
      return starts_with(checkpoint.info(tensor).name, kPeftStart);
    });
    const bool fits = options_.base != nullptr || options_.experts || !options_.model_type.empty();
    if (options_.to == AdapterTarget::kPeft && peft && fits) {
      return fit_adapter(checkpoint, *stream.scans,
                         {.base = options_.base,
                          .experts = options_.experts,
                          .model_type = options_.model_type,
                          .single_name = options_.single_name});
    }
    if (options_.experts || !options_.model_type.empty()) {
      return Error{
          .code = ErrorCode::kRefusedUnsupported,
          .message = quote_name(checkpoint.listing.given) +
                     " is no adapter of PEFT, whose names begin with base_model.model; only those are "
                     "fitted to a form of experts."};
    }
    return convert_adapter(checkpoint, *stream.values, *stream.scans, options_);
  }

  static transform::StreamTensor tensor_of(const Checkpoint& checkpoint, AdapterRecipe& recipe) {
    transform::StreamTensor tensor{.name = recipe.name,
                                   .dtype = recipe.dtype,
                                   .shape = recipe.shape,
                                   .source = checkpoint.order.front()};
    if (recipe.literal) {
      tensor.literal = std::move(recipe.literal);
    } else if (const auto copied = recipe.copy_of(checkpoint)) {
      tensor.source = *copied;
    } else {
      if (!recipe.pieces.empty()) tensor.source = recipe.pieces.front().source;
      number_sources(recipe);
      tensor.recipe = std::make_shared<const AdapterRecipe>(std::move(recipe));
    }
    return tensor;
  }

  // What gives a scale, and what names a hash of the data, is not true of the result.
  Metadata metadata_of(const Checkpoint& checkpoint, const AdapterConversion& result) const {
    Metadata metadata = output_metadata(checkpoint, true, true);
    const bool mlx = options_.to == AdapterTarget::kMlx;
    metadata.erase(std::remove_if(metadata.begin(), metadata.end(),
                                  [&](const auto& member) {
                                    return std::find(result.stale_metadata.begin(),
                                                     result.stale_metadata.end(),
                                                     member.first) != result.stale_metadata.end();
                                  }),
                   metadata.end());
    for (auto& [key, value] : metadata)
      if (key == "format") value = mlx ? "mlx" : "pt";
    for (const auto& member : result.metadata) metadata.push_back(member);
    return metadata;
  }

  AdapterConvertOptions options_;
};

}  // namespace

std::shared_ptr<const transform::Pipe> make_adapter_conversion(AdapterConvertOptions options) {
  return std::make_shared<AdapterPipe>(std::move(options));
}

}  // namespace tftf
