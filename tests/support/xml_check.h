// A strict reader for the small XML that reports use: one root, elements, attributes, text, the five named
// entities.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tftf::test {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // of all text directly inside
  std::vector<XmlElement> children;
};

// The root element, or nothing with `problem` set: malformed markup, invalid UTF-8, a character outside
// XML 1.0, a repeated attribute, anything after the root.
std::optional<XmlElement> parse_xml(std::string_view text, std::string& problem);

}  // namespace tftf::test
