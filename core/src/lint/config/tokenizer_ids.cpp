#include "lint/config/tokenizer_ids.h"

#include <optional>
#include <unordered_map>

#include "tftf/base/json_reader.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

// A stream reader: tokenizers are tens of megabytes, nearly all of it merges. The last of equal keys counts:
// a later `model`, `vocab` or `added_tokens` throws away what an earlier one gave.
class TokenReader final : public JsonHandler {
 public:
  explicit TokenReader(uint64_t rows) : rows_(rows) {}

  void on_null(uint64_t) override { value(); }
  void on_boolean(bool, uint64_t) override { value(); }
  void on_number(std::string_view literal, uint64_t) override {
    const std::optional<uint64_t> number = json_whole_number(literal);
    if (place() == Place::kVocabObject && number) vocab_.take(key_, *number, rows_);
    if (place() == Place::kAddedToken && key_ == "id") id_ = number;
    value();
  }
  void on_string(std::string_view text, uint64_t) override {
    if (place() == Place::kAddedToken && key_ == "content") content_ = text;
    if (place() == Place::kVocabPair && position_in_pair_ == 0) vocab_.take(text, position_, rows_);
    value();
  }
  void on_key(std::string_view text, uint64_t) override { key_ = text; }
  void on_start_object(uint64_t) override {
    Place next = Place::kOther;
    if (places_.empty())
      next = Place::kRoot;
    else if (place() == Place::kRoot && key_ == "model")
      next = Place::kModel, vocab_.clear();
    else if (place() == Place::kModel && key_ == "vocab")
      next = Place::kVocabObject, vocab_.clear();
    else if (place() == Place::kAddedTokens) {
      next = Place::kAddedToken;
      id_.reset();
      content_.reset();
    }
    places_.push_back(next);
  }
  void on_end_object(uint64_t) override {
    if (place() == Place::kAddedToken && id_) {
      if (content_)
        added_.take(*content_, *id_, rows_);
      else if (*id_ >= rows_)
        added_.tokens.emplace_back("", *id_);  // each is one of its own
    }
    places_.pop_back();
    value();
  }
  void on_start_array(uint64_t) override {
    Place next = Place::kOther;
    if (place() == Place::kRoot && key_ == "added_tokens")
      next = Place::kAddedTokens, added_.clear();
    else if (place() == Place::kModel && key_ == "vocab") {
      next = Place::kVocabArray;
      vocab_.clear();
      position_ = 0;
    } else if (place() == Place::kVocabArray) {
      next = Place::kVocabPair;
      position_in_pair_ = 0;
    }
    places_.push_back(next);
  }
  void on_end_array(uint64_t) override {
    places_.pop_back();
    value();
  }

  std::vector<std::pair<std::string, uint64_t>> take() {
    for (auto& token : added_.tokens)
      if (!vocab_.places.count(token.first)) vocab_.tokens.push_back(std::move(token));
    return std::move(vocab_.tokens);
  }

 private:
  enum class Place : uint8_t {
    kOther,
    kRoot,
    kModel,
    kVocabObject,
    kVocabArray,
    kVocabPair,
    kAddedTokens,
    kAddedToken
  };
  struct Tokens {
    std::vector<std::pair<std::string, uint64_t>> tokens;
    std::unordered_map<std::string, size_t> places;
    void take(std::string_view token, uint64_t id, uint64_t rows) {
      if (id < rows) return;
      const auto [found, fresh] = places.emplace(token, tokens.size());
      if (fresh)
        tokens.emplace_back(token, id);
      else
        tokens[found->second].second = id;
    }
    void clear() {
      tokens.clear();
      places.clear();
    }
  };

  Place place() const { return places_.empty() ? Place::kOther : places_.back(); }
  // A value has ended: it may have been an element that the position counts.
  void value() {
    if (place() == Place::kVocabArray) ++position_;
    if (place() == Place::kVocabPair) ++position_in_pair_;
  }

  uint64_t rows_;
  std::vector<Place> places_;
  std::string key_;
  Tokens vocab_, added_;
  std::optional<uint64_t> id_;
  std::optional<std::string> content_;
  uint64_t position_ = 0;
  uint64_t position_in_pair_ = 0;
};

}  // namespace

std::vector<std::pair<std::string, uint64_t>> tokens_beyond(std::string_view text, uint64_t rows) {
  if (find_invalid_utf8(text)) return {};
  TokenReader reader(rows);
  uint64_t end = 0;
  if (read_json(text, JsonDialect::kPython, reader, end)) return {};
  return reader.take();
}

}  // namespace tftf
