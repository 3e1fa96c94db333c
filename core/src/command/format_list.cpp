// The registry of quantised layouts, as `tftf formats` lists it.
#include "tftf/command/format_list.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tftf/quant/registry.h"

namespace tftf {
namespace {

std::vector<std::string> target_ids(const QuantFormat& format) {
  std::vector<std::string> ids;
  for (const QuantFormat* target : repack_targets(format)) ids.emplace_back(target->id);
  return ids;
}

}  // namespace

OrderedJson formats_json() {
  OrderedJson json;
  OrderedJson& layouts = json["layouts"] = OrderedJson::array();
  for (const QuantFormat* format : quant_formats()) {
    OrderedJson& entry = layouts.emplace_back();
    entry["id"] = std::string(format->id);
    entry["title"] = std::string(format->title);
    entry["read"] = format->read();
    entry["written"] = format->written();
    entry["repacked_to"] = target_ids(*format);
  }
  return json;
}

std::string formats_text() {
  size_t width = 0;
  for (const QuantFormat* format : quant_formats()) width = std::max(width, format->id.size());
  std::string text = "layout" + std::string(width - 4, ' ') + "read  written  what it is\n";
  for (const QuantFormat* format : quant_formats()) {
    text += std::string(format->id) + std::string(width + 2 - format->id.size(), ' ');
    text += std::string(format->read() ? "yes " : "-   ") + "  " +
            (format->written() ? "yes    " : "-      ") + "  " + std::string(format->title);
    const std::vector<std::string> targets = target_ids(*format);
    if (!targets.empty()) text += "; repacked to";
    for (const std::string& id : targets) text += " " + id;
    text += "\n";
  }
  return text +
         "read: tftf dequant. written: tftf quantize. repacked: tftf repack keeps the codes. All are "
         "recognised by info.\n";
}

}  // namespace tftf
