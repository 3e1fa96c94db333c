#include "tftf/quant/colibri/stamps.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"

namespace tftf::colibri {

std::string_view stamp_fault_class(StampFault fault) {
  constexpr std::string_view kStampClasses[] = {
      "stamp-not-string", "stamp-not-object", "stamp-entry-not-string",
      "stamp-conflict",   "stamp-cap",        "duplicate-tensor"};
  return kStampClasses[static_cast<size_t>(fault)];
}

std::optional<StampRefusal> StampMap::ingest(std::string_view file, const std::string* text,
                                             bool not_string) {
  auto refuse = [&](StampFault fault, std::string tensor, std::string detail) {
    return StampRefusal{fault, std::string(file), std::move(tensor),
                        escape_text(file) + ": " + std::move(detail)};
  };
  if (not_string) return refuse(StampFault::kNotString, "", "colibri.fmt is not a string.");
  if (!text) return std::nullopt;
  const JsonDocument document = parse_json(*text, JsonDialect::kPython);
  if (document.error || !document.root.is_object())
    return refuse(StampFault::kNotObject, "", "the text of colibri.fmt is not a JSON object.");
  for (const auto& [name, value] : document.root.members) {
    if (!value.is_string())
      return refuse(StampFault::kEntryNotString, name,
                    "the stamp of " + quote_name(name) + " is not a string.");
    const auto [entry, added] = stamps_.try_emplace(name, value.text);
    if (!added && entry->second != value.text)
      return refuse(StampFault::kConflict, name,
                    quote_name(name) + " is stamped " + quote_name(entry->second) + " and " +
                        quote_name(value.text) + ".");
    if (stamps_.size() > kStampCap)
      return refuse(StampFault::kCap, name, "more than 4096 tensors are stamped; readers stop there.");
  }
  return std::nullopt;
}

std::optional<StampRefusal> StampMap::add_tensors(std::string_view file, const Header& header) {
  for (const TensorInfo& tensor : header.tensors) {
    const auto [entry, added] = holder_.try_emplace(tensor.name, file);
    if (!added && entry->second != file)
      return StampRefusal{StampFault::kDuplicateTensor, std::string(file), tensor.name,
                          escape_text(file) + ": " + quote_name(tensor.name) + " is stored in " +
                              escape_text(entry->second) + " too."};
  }
  return std::nullopt;
}

std::optional<std::string> StampMap::find(std::string_view name) const {
  const auto entry = stamps_.find(name);
  return entry == stamps_.end() ? std::nullopt : std::optional(entry->second);
}

std::string stamp_text(const std::map<std::string, std::string, std::less<>>& stamps) {
  std::string text = "{";
  for (const auto& [name, format] : stamps)
    text += (text.size() > 1 ? ", " : "") + json_ascii_string(name) + ": " + json_ascii_string(format);
  return text + "}";
}

std::string declaration_text(std::vector<std::string> formats) {
  std::sort(formats.begin(), formats.end());
  std::string text = "[";
  for (const std::string& format : formats) text += (text.size() > 1 ? ", " : "") + json_ascii_string(format);
  return text + "]";
}

}  // namespace tftf::colibri
