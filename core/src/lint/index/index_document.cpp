#include "lint/index/index_document.h"

#include <algorithm>

#include "lint/side_text.h"

namespace tftf {

class IndexDocument::Handler final : public JsonHandler {
 public:
  explicit Handler(IndexDocument& to) : to_(to) {}

  void on_null(uint64_t at) override { value(JsonKind::kNull, {}, at); }
  void on_boolean(bool, uint64_t at) override { value(JsonKind::kBoolean, {}, at); }
  void on_number(std::string_view literal, uint64_t at) override { value(JsonKind::kNumber, literal, at); }
  void on_string(std::string_view text, uint64_t at) override { value(JsonKind::kString, text, at); }
  void on_start_array(uint64_t at) override {
    value(JsonKind::kArray, {}, at);
    ++depth_;
  }
  void on_start_object(uint64_t at) override {
    value(JsonKind::kObject, {}, at);
    ++depth_;
  }
  void on_end_array(uint64_t) override { --depth_; }
  void on_end_object(uint64_t) override { --depth_; }

  void on_key(std::string_view text, uint64_t at) override {
    key_at_ = at;
    if (depth_ == 1) {
      section_ = Section::kOther;
      if (text == "weight_map") section_ = Section::kMap;
      if (text == "metadata") section_ = Section::kMetadata;
      count(top_, top_counts_, text, at);
    } else if (depth_ == 2 && section_ == Section::kMap) {
      const uint32_t known = to_.tensors.size();
      std::optional<uint32_t> name = to_.tensors.find(text);
      key_ = name ? *name : to_.tensors.insert(to_.keep(text));
      if (key_ == known) {
        to_.map.push_back({key_, kNotText, at});
        map_counts_.push_back(0);
      }
      ++map_counts_[key_];
    } else if (depth_ == 2 && section_ == Section::kMetadata) {
      number_ = nullptr;
      if (text == "total_size") number_ = &to_.total_size;
      if (text == "total_parameters") number_ = &to_.total_parameters;
    }
  }

  JsonKind root = JsonKind::kNull;

  void finish() {
    repeats(top_, top_counts_, true, [&](uint32_t i) { return top_at_[i]; });
    repeats(to_.tensors, map_counts_, false, [&](uint32_t i) { return to_.map[i].offset; });
    std::sort(to_.repeated.begin(), to_.repeated.end(),
              [](const RepeatedKey& a, const RepeatedKey& b) { return a.offset < b.offset; });
  }

 private:
  enum class Section { kOther, kMap, kMetadata };

  void count(NameTable& table, std::vector<uint32_t>& counts, std::string_view text, uint64_t at) {
    const uint32_t known = table.size();
    const std::optional<uint32_t> found = table.find(text);
    const uint32_t number = found ? *found : table.insert(to_.keep(text));
    if (number == known) {
      counts.push_back(0);
      top_at_.push_back(0);
    }
    ++counts[number];
    top_at_[number] = at;
  }

  template <class At>
  void repeats(const NameTable& table, const std::vector<uint32_t>& counts, bool top_level, At at) {
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 1) to_.repeated.push_back({std::string(table.name(i)), top_level, counts[i], at(i)});
  }

  void value(JsonKind kind, std::string_view text, uint64_t at) {
    if (depth_ == 0) root = kind;
    if (depth_ == 1 && section_ == Section::kMap) {
      to_.weight_map_kind = kind;
      to_.weight_map_offset = at;
      // Of equal keys the last counts: a second weight_map replaces the first whole.
      to_.map.clear();
      to_.tensors = NameTable();
      to_.shards = NameTable();
      map_counts_.clear();
    }
    if (depth_ == 1 && section_ == Section::kMetadata) {
      to_.metadata_kind = kind;
      to_.total_size = {};
      to_.total_parameters = {};
    }
    if (depth_ != 2) return;
    if (section_ == Section::kMap && to_.weight_map_kind == JsonKind::kObject) {
      MappedTensor& entry = to_.map[key_];
      entry.kind = kind;
      entry.offset = key_at_;
      entry.shard = kNotText;
      if (kind == JsonKind::kString) {
        const std::optional<uint32_t> shard = to_.shards.find(text);
        entry.shard = shard ? *shard : to_.shards.insert(to_.keep(text));
      }
    } else if (section_ == Section::kMetadata && to_.metadata_kind == JsonKind::kObject && number_) {
      *number_ = {true, kind, std::string(text), key_at_};
    }
  }

  IndexDocument& to_;
  uint32_t depth_ = 0;
  Section section_ = Section::kOther;
  uint64_t key_at_ = 0;
  uint32_t key_ = 0;
  DeclaredNumber* number_ = nullptr;
  NameTable top_;
  std::vector<uint32_t> top_counts_;
  std::vector<uint64_t> top_at_;
  std::vector<uint32_t> map_counts_;
};

IndexDocument::IndexDocument(std::string_view text) {
  Handler handler(*this);
  if (auto fault = read_side_json(text, handler)) {
    problem = std::move(fault->detail);
    problem_offset = fault->offset;
  } else if (handler.root != JsonKind::kObject) {
    problem = "the text is a JSON " + std::string(json_kind_name(handler.root));
  }
  if (!problem) {
    handler.finish();
    return;
  }
  weight_map_kind.reset();
  metadata_kind.reset();
  total_size = {};
  total_parameters = {};
  map.clear();
  tensors = NameTable();
  shards = NameTable();
}

std::string_view IndexDocument::keep(std::string_view text) {
  constexpr size_t kBlock = 1 << 20;
  if (arena_.empty() || arena_.back().capacity() - arena_.back().size() < text.size()) {
    arena_.emplace_back();
    arena_.back().reserve(std::max(kBlock, text.size()));
  }
  std::string& block = arena_.back();
  const size_t at = block.size();
  block += text;
  return std::string_view(block).substr(at);
}

}  // namespace tftf
