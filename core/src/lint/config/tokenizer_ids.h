// Token ids of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tftf {

// Tokens of `model.vocab` (an object, or an array by position) and `added_tokens` with an id >= rows, each
// token once, in file order. Nothing when the text is no JSON object.
std::vector<std::pair<std::string, uint64_t>> tokens_beyond(std::string_view text, uint64_t rows);

}  // namespace tftf
