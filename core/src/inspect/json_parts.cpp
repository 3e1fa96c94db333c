#include "inspect/json_parts.h"

namespace tftf {

OrderedJson text_or_null(std::string_view text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

OrderedJson shape_json(const Shape& shape) {
  OrderedJson out = OrderedJson::array();
  for (uint64_t dimension : shape) out.push_back(json_integer(dimension));
  return out;
}

std::string open_document(const OrderedJson& head) {
  std::string out = json_text(head);
  out.resize(out.size() - kDocumentEnd.size());
  return out;
}

ArrayWriter::ArrayWriter(std::string& out, std::string_view key) : out_(out) {
  out_.append(",\n  \"").append(key).append("\": [");
}

void ArrayWriter::add(const OrderedJson& value) {
  constexpr std::string_view kIndent = "\n    ";
  out_.append(empty_ ? "" : ",").append(kIndent);
  empty_ = false;
  std::string text = json_text(value);
  text.pop_back();  // the final newline
  for (char c : text) {
    if (c == '\n')
      out_.append(kIndent);
    else
      out_ += c;
  }
}

void ArrayWriter::close() { out_.append(empty_ ? "]" : "\n  ]"); }

}  // namespace tftf
