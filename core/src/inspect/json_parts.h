// Parts of the documents that hold long lists.
#pragma once

#include <string>
#include <string_view>

#include "tftf/base/dtype.h"
#include "tftf/base/json_text.h"

namespace tftf {

OrderedJson text_or_null(std::string_view text);
OrderedJson shape_json(const Shape& shape);

// The text of an object without its end, so that arrays can follow as further members.
inline constexpr std::string_view kDocumentEnd = "\n}\n";
std::string open_document(const OrderedJson& head);

// Writes values one by one into an array that is a member of the document, so that a list of a hundred thousand
// never stands in memory as a JSON tree.
class ArrayWriter {
 public:
  ArrayWriter(std::string& out, std::string_view key);
  void add(const OrderedJson& value);
  void close();

 private:
  std::string& out_;
  bool empty_ = true;
};

}  // namespace tftf
