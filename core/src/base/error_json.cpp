#include "tftf/base/error_json.h"

namespace tftf {

OrderedJson error_json(const Error& error) {
  const auto text = [](const std::string& value) {
    return value.empty() ? OrderedJson() : OrderedJson(value);
  };
  OrderedJson fields;
  fields["code"] = std::string(error_code_text(error.code));
  fields["message"] = error.message;
  fields["file"] = text(error.file);
  fields["tensor"] = text(error.tensor);
  fields["expected"] = text(error.expected);
  fields["found"] = text(error.found);
  OrderedJson root;
  root["error"] = std::move(fields);
  return root;
}

}  // namespace tftf
