// The rows of info as columns: a page shows a hundred thousand tensors, whose text as objects is ten times as long.
#include <unordered_map>

#include "model.h"
#include "tftf/base/dtype.h"

namespace tftf::wasm {
namespace {

// Words by number, each once.
class WordList {
 public:
  uint32_t place(std::string word) {
    const auto [found, fresh] = places_.emplace(std::move(word), static_cast<uint32_t>(words_.size()));
    if (fresh) words_.push_back(&found->first);
    return found->second;
  }
  OrderedJson json() const {
    OrderedJson list = OrderedJson::array();
    for (const std::string* word : words_) list.push_back(*word);
    return list;
  }

 private:
  std::unordered_map<std::string, uint32_t> places_;
  std::vector<const std::string*> words_;  // keys of a map stay where they are
};

std::string dimensions(const Shape& shape) {
  std::string text;
  for (const uint64_t dimension : shape) text += (text.empty() ? "" : ",") + std::to_string(dimension);
  return text;
}

std::string meaning(const TensorRow& row) {
  if (!row.logical_dtype) return {};
  std::string text(dtype_name(*row.logical_dtype));
  if (row.logical_shape) text += " " + dimensions(*row.logical_shape);
  return text;
}

// One array of numbers, written as it grows.
class Column {
 public:
  void add(uint64_t value) {
    if (!text_.empty()) text_ += ',';
    text_ += std::to_string(value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

uint64_t key_of(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }

}  // namespace

std::string Model::table() {
  const ModelInfo& info = inspected();
  std::unordered_map<uint64_t, uint64_t> rows;
  rows.reserve(info.rows.size());
  for (size_t i = 0; i < info.rows.size(); ++i) rows.emplace(key_of(info.rows[i].tensor), i);
  WordList dtypes, shapes, layouts, meanings;
  layouts.place({});
  meanings.place({});
  std::string names;
  Column file, dtype, shape, begin, end, layout, logical, companion;
  for (const TensorRow& row : info.rows) {
    const TensorInfo& stored = checkpoint_->info(row.tensor);
    names += (names.empty() ? "" : ",") + json_text(OrderedJson(stored.name));
    file.add(row.tensor.shard);
    dtype.add(dtypes.place(std::string(dtype_name(stored.dtype))));
    shape.add(shapes.place(dimensions(stored.shape)));
    begin.add(stored.begin);
    end.add(stored.end);
    layout.add(layouts.place(std::string(row.layout)));
    logical.add(meanings.place(meaning(row)));
    const auto owner = row.companion_of ? rows.find(key_of(*row.companion_of)) : rows.end();
    companion.add(owner == rows.end() ? 0 : owner->second + 1);
  }
  std::string out = "{\"names\":[" + names + "]";
  const auto put = [&out](const char* name, const std::string& numbers) {
    out += std::string(",\"") + name + "\":[" + numbers + "]";
  };
  put("file", file.text());
  put("dtype", dtype.text());
  put("shape", shape.text());
  put("begin", begin.text());
  put("end", end.text());
  put("layout", layout.text());
  put("logical", logical.text());
  put("companion", companion.text());
  const auto words = [&out](const char* name, const WordList& list) {
    out += std::string(",\"") + name + "\":" + json_text(list.json());
  };
  words("dtypes", dtypes);
  words("shapes", shapes);
  words("layouts", layouts);
  words("logicals", meanings);
  return out + "}";
}

}  // namespace tftf::wasm
