#include "tftf/transform/validation.h"

#include <map>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

struct Totals {
  uint64_t bytes = 0;
  std::map<std::string_view, uint64_t> dtypes;
};

Totals totals(const Transform& transform) {
  Totals sum;
  for (const DeclaredTensor& tensor : *transform.tensors) {
    sum.bytes += tensor.bytes;
    ++sum.dtypes[dtype_name(tensor.dtype)];
  }
  return sum;
}

bool is_finite(const DeclaredTensor& tensor) { return tensor.nan == 0 && tensor.infinite == 0; }

}  // namespace

OrderedJson ValidationReport::to_json(bool with_elapsed) const {
  const Totals sum = totals(*transform);
  OrderedJson root;
  root["ok"] = true;
  root["n_tensors"] = json_integer(uint64_t{transform->tensors->size()});
  root["total_bytes"] = json_integer(sum.bytes);
  root["dtype_counts"] = OrderedJson::object();
  for (const auto& [dtype, count] : sum.dtypes)
    root["dtype_counts"][std::string(dtype)] = json_integer(count);
  for (const char* list : {"mismatches", "unsupported_dtypes", "duplicate_keys", "missing_keys", "extra_keys",
                           "order", "unused_adapter_tensors"}) {
    root[list] = OrderedJson::array();
  }
  root["non_finite"] = OrderedJson::array();
  for (const DeclaredTensor& tensor : *transform->tensors) {
    if (is_finite(tensor)) continue;
    OrderedJson entry;
    entry["name"] = tensor.name;
    entry["nan"] = json_integer(tensor.nan);
    entry["infinite"] = json_integer(tensor.infinite);
    entry["became_infinite"] = json_integer(tensor.became_infinite);
    root["non_finite"].push_back(std::move(entry));
  }
  root["shards"] = OrderedJson::array();
  for (const Account::File& file : transform->account.files) {
    OrderedJson entry;
    entry["name"] = file.name;
    entry["tensors"] = json_integer(file.tensors);
    entry["bytes"] = json_integer(file.bytes);
    root["shards"].push_back(std::move(entry));
  }
  root["warnings"] = transform->account.warnings;
  root["elapsed"] = nullptr;
  if (with_elapsed) root["elapsed"] = json_float(static_cast<double>(elapsed_ms) / 1000.0);
  return root;
}

std::string ValidationReport::to_text(bool shards) const {
  const Totals sum = totals(*transform);
  std::string text = "\nTensors : " + std::to_string(transform->tensors->size()) + "\n";
  text += "Size    : " + ratio_text(sum.bytes, uint64_t{1} << 30, 3) + " GiB  (" + grouped_digits(sum.bytes) +
          " bytes)\n";
  text += "Elapsed : " + ratio_text(elapsed_ms, 1000, 2) + "s\n";
  std::string dtypes;
  for (const auto& [dtype, count] : sum.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + std::string(dtype) + "=" + std::to_string(count);
  }
  text += "Dtypes  : " + (dtypes.empty() ? "(none)" : dtypes) + "\n";
  text += "Result  : OK \xE2\x80\x94 all checks passed.\n";
  for (const DeclaredTensor& tensor : *transform->tensors) {
    if (is_finite(tensor)) continue;
    text += "  [Non-finite values]  " + escape_text(tensor.name) + ": " + grouped_digits(tensor.nan) +
            " NaN, " + grouped_digits(tensor.infinite) + " infinite";
    if (tensor.became_infinite > 0)
      text += " (" + grouped_digits(tensor.became_infinite) + " of them by conversion)";
    text += "\n";
  }
  if (!shards) return text;
  for (const Account::File& file : transform->account.files) {
    text += "  [Shards]  " + escape_text(file.name) + ": " + grouped_digits(file.tensors) + " tensors, " +
            grouped_digits(file.bytes) + " bytes\n";
  }
  return text;
}

}  // namespace tftf
