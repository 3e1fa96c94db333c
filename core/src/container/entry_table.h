// Step 6: the tensor entries of a header, one after the other, duplicates included.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "container/finding_list.h"
#include "container/text_list.h"
#include "tftf/base/json_reader.h"

namespace tftf {

// An entry with usable offsets that are not reversed, as the layout and alignment rules need it.
struct EntrySpan {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t entry = 0;  // number in the TextList
  std::optional<DType> dtype;
};

class EntryTable {
 public:
  // `text` is the header's text, `text_offset` its place in the file.
  EntryTable(std::string_view text, uint64_t text_offset, FindingList& findings);

  // Events of the parse, in the text's order. An entry is its key, then either one value that is no object,
  // or begin_object, fields, end_object. A field is its key, then a scalar or other value, or begin_array,
  // elements, end_array.
  void key(std::string_view name, uint64_t at);
  void not_object(JsonKind kind, uint64_t at);
  void begin_object() {}
  void field(std::string_view name, uint64_t at);
  // A value that is neither a string for dtype nor an array for shape and data_offsets.
  void value(JsonKind kind, std::string_view text, uint64_t at);
  // Says whether the array's elements are wanted.
  bool begin_array(uint64_t at);
  void element(std::string_view literal, uint64_t at);
  void bad_element();
  void end_array(uint64_t end);
  void end_object();

  // After the last entry: ST022, ST067, ST031.
  void finish();

  const TextList& names() const { return names_; }
  const std::vector<EntrySpan>& spans() const { return spans_; }
  // By (begin, end), header order for ties.
  void sort_spans();
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }
  // Step 7 is evaluated only when every entry has a span.
  bool all_have_spans() const { return spans_.size() == names_.size(); }
  // Every entry's size is known and is what its offsets span.
  bool all_sizes_match() const { return sizes_match_ == names_.size(); }
  const std::array<uint64_t, 32>& dtype_counts() const { return dtype_counts_; }

 private:
  enum Field : uint8_t { kDType, kShape, kOffsets, kNone };
  struct Literal {
    uint64_t at;
    uint32_t length;
  };
  struct ArrayField {
    uint32_t times = 0;  // occurrences of the key in this entry
    bool usable = false;
    bool is_array = false;
    std::string excerpt;  // of a value that is no array
    uint64_t begin = 0;   // the value in the text; end only of an array
    uint64_t end = 0;
    uint64_t elements = 0;
    std::vector<uint64_t> values;  // of the shape: all; of the offsets: at most two
    std::vector<Literal> odd;      // numbers that are whole but not written as plain digits
    uint64_t more_odd = 0;
  };

  static Field find_field(std::string_view name);
  ArrayField& array() { return open_ == kShape ? shape_ : offsets_; }
  Diagnostic* add(Rule rule, std::string_view field = {}, std::optional<uint64_t> at = {});
  void check_fields();
  void check_dtype();
  void check_array(const ArrayField& field, std::string_view name, Rule rule);
  void check_shape();
  std::optional<uint64_t> size_of_shape();

  std::string_view text_;
  uint64_t text_offset_;
  FindingList& findings_;
  TextList names_;
  std::vector<EntrySpan> spans_;
  std::vector<TensorInfo> tensors_;
  uint64_t sizes_match_ = 0;
  std::array<uint64_t, 32> dtype_counts_{};

  // The entry being read.
  uint32_t entry_ = 0;
  std::string_view name_;
  uint64_t key_at_ = 0;
  Field open_ = kNone;
  uint64_t field_at_ = 0;
  uint32_t dtype_times_ = 0;
  JsonKind dtype_kind_ = JsonKind::kNull;
  std::optional<DType> dtype_;
  std::string dtype_text_;
  uint64_t dtype_at_ = 0;
  ArrayField shape_;
  ArrayField offsets_;
};

}  // namespace tftf
