// What a configuration has to say, and may say, of tensors that come from another model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream.h"

namespace tftf::transform {

// Whether codes of a model with the configuration `theirs` mean the same under `ours`; otherwise what differs, a phrase:
// "its quant_method is \"fp8\", the model's is \"gptq\"". Empty: they do.
std::string quantisation_difference(const QuantConfig& ours, const QuantConfig& theirs);

// Whether the stream is a quantised model by its configuration and still is one after what was done to it.
bool is_quantised(const Stream& stream);

// Notes in `stream` where its configuration lists modules that are not quantised. kRefusedUnsupported for a method that has
// no such list and needs one: `tensor` cannot be put into the model as it is.
Result<void> find_plain_lists(Stream& stream, const StreamTensor& tensor);

// Takes the counts of MTP layers from the configuration of `source` where the model has none, when `names` (of what was
// taken) hold such a layer.
void carry_mtp_counts(Stream& stream, const Stream& source, const std::vector<std::string>& names);

// Takes along what processes pictures and the like where the model has no such file. kIoRead: one that `source` has and
// that cannot be read.
Result<void> carry_processor_files(Stream& stream, const OtherModel& source);

// config.json ties the output head to the embeddings, at the top or in text_config.
bool ties_head(const JsonValue* config);
// Members that say so become false.
void untie_head(Stream& stream);
// "lm_head.weight", wherever in the model.
bool is_head(std::string_view name);

}  // namespace tftf::transform
