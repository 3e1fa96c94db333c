// The small files that say how a model's tokens are numbered and spelled.
#pragma once

#include <string_view>

namespace tftf {

// "tokenizer.json", "vocab.txt", "merges.txt", "added_tokens.json", "spiece.model" ...
bool is_tokenizer_file(std::string_view name);
// Of them, those that hold a vocabulary: beside one, files of another tokenizer say nothing any more.
bool is_vocabulary_file(std::string_view name);
// "chat_template.jinja": how a conversation is written, which any tokenizer of the same tokens can have.
bool is_chat_template(std::string_view name);

// A file larger than this is no tokenizer's.
inline constexpr unsigned kMostTokenizerBytes = 64u << 20;

}  // namespace tftf
