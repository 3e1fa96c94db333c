#include "tftf/adapter/tokenizer_files.h"

#include <algorithm>
#include <iterator>

#include "tftf/base/glob.h"

namespace tftf {
namespace {

constexpr std::string_view kVocabularies[] = {"tokenizer.json", "tokenizer.model*",        "vocab.*",
                                              "spiece.model",   "sentencepiece.bpe.model", "*.tiktoken"};
constexpr std::string_view kSpellings[] = {"tokenizer_config.json", "tokenizer*.py", "merges.txt",
                                           "special_tokens_map.json", "added_tokens.json"};

bool is_one_of(const std::string_view* begin, const std::string_view* end, std::string_view name) {
  return std::any_of(begin, end, [name](std::string_view pattern) { return Glob(pattern).matches(name); });
}

}  // namespace

bool is_vocabulary_file(std::string_view name) {
  return is_one_of(std::begin(kVocabularies), std::end(kVocabularies), name);
}

bool is_tokenizer_file(std::string_view name) {
  return is_vocabulary_file(name) || is_one_of(std::begin(kSpellings), std::end(kSpellings), name);
}

bool is_chat_template(std::string_view name) { return Glob("chat_template.j*").matches(name); }

}  // namespace tftf
