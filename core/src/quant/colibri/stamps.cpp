#include "tftf/quant/colibri/stamps.h"

#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"
#include "tftf/base/json_text.h"
#include "tftf/base/utf8.h"

namespace tftf::colibri {
namespace {

using Stamps = std::map<std::string, std::string, std::less<>>;

// Takes the members of one object into the map, up to the first fault.
class StampReader final : public JsonHandler {
 public:
  StampReader(Stamps& stamps, uint64_t cap) : stamps_(stamps), cap_(cap) {}

  std::optional<StampFault> fault;
  std::string tensor;  // that the fault is about
  std::string claim;   // kConflict: the second one

  // Why the text is no JSON object, a phrase, or nothing.
  static std::optional<std::string> malformed(std::string_view text) {
    if (find_invalid_utf8(text)) return "it is not valid UTF-8";
    Stamps none;
    StampReader probe(none, 0);
    probe.counting_ = true;
    uint64_t end = 0;
    if (const auto error = read_json(text, JsonDialect::kPython, probe, end))
      return error->kind == JsonError::Kind::kDepth ? "it is nested too deep" : error->detail;
    if (text.find_first_not_of(" \t\r\n", to_size(end)) != std::string_view::npos)
      return "something follows the value";
    if (!probe.object_) return "it is another value";
    return std::nullopt;
  }

  void on_null(uint64_t) override { other(); }
  void on_boolean(bool, uint64_t) override { other(); }
  void on_number(std::string_view, uint64_t) override { other(); }
  void on_string(std::string_view text, uint64_t) override {
    if (depth_ != 1 || fault || counting_) return;
    const auto [entry, added] = stamps_.try_emplace(key_, text);
    if (!added && entry->second != text) {
      stop(StampFault::kConflict);
      claim = text;
    } else if (stamps_.size() > cap_) {
      stop(StampFault::kCap);
    }
  }
  void on_key(std::string_view text, uint64_t) override {
    if (depth_ == 1 && !fault) key_ = text;
  }
  void on_start_object(uint64_t) override {
    other();
    if (depth_++ == 0) object_ = true;
  }
  void on_end_object(uint64_t) override { --depth_; }
  void on_start_array(uint64_t) override {
    other();
    ++depth_;
  }
  void on_end_array(uint64_t) override { --depth_; }

 private:
  void other() {
    if (depth_ == 1 && !fault && !counting_) stop(StampFault::kEntryNotString);
  }
  void stop(StampFault why) {
    fault = why;
    tensor = key_;
  }

  Stamps& stamps_;
  uint64_t cap_;
  std::string key_;
  uint32_t depth_ = 0;
  bool object_ = false;
  bool counting_ = false;
};

}  // namespace

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
  StampReader reader(stamps_, cap_);
  // Twice: what is no JSON to its end stamps nothing, and no document of it is kept in memory.
  if (const auto why = StampReader::malformed(*text))
    return refuse(StampFault::kNotObject, "", "the text of colibri.fmt is not a JSON object: " + *why + ".");
  uint64_t end = 0;
  read_json(*text, JsonDialect::kPython, reader, end);
  if (!reader.fault) return std::nullopt;
  const std::string name = quote_name(reader.tensor);
  switch (*reader.fault) {
    case StampFault::kEntryNotString:
      return refuse(*reader.fault, reader.tensor, "the stamp of " + name + " is not a string.");
    case StampFault::kConflict:
      return refuse(*reader.fault, reader.tensor,
                    name + " is stamped " + quote_name(stamps_.find(reader.tensor)->second) + " and " +
                        quote_name(reader.claim) + ".");
    default:
      return refuse(*reader.fault, reader.tensor, "more than 4096 tensors are stamped; readers stop there.");
  }
}

std::optional<StampRefusal> StampMap::ingest(std::string_view file, const Header& header) {
  const auto& others = header.other_metadata;
  const std::string* text = nullptr;
  for (const auto& [key, value] : header.metadata)
    if (key == kStampKey) text = &value;
  return ingest(file, text, std::find(others.begin(), others.end(), kStampKey) != others.end());
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
