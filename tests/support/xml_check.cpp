#include "xml_check.h"

#include "tftf/base/utf8.h"

namespace tftf::test {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string& problem) : text_(text), problem_(problem) {}

  std::optional<XmlElement> run() {
    for (size_t at = 0; at < text_.size();) {
      const CodePoint c = code_point_at(text_, at);
      const uint32_t v = c.value;
      const bool allowed = v == 9 || v == 10 || v == 13 || (v >= 0x20 && v <= 0xD7FF) ||
                           (v >= 0xE000 && v <= 0xFFFD) || (v >= 0x10000 && v <= 0x10FFFF);
      if (!c.valid || !allowed) return fail("character outside XML at " + std::to_string(at));
      at += c.length;
    }
    if (!take("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")) return fail("no declaration");
    std::optional<XmlElement> root = element();
    if (!root) return std::nullopt;
    space();
    if (at_ != text_.size()) return fail("text after the root");
    return root;
  }

 private:
  std::optional<XmlElement> fail(std::string why) {
    if (problem_.empty()) problem_ = std::move(why) + ", offset " + std::to_string(at_);
    return std::nullopt;
  }
  bool take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || text_[at_] == '-')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  // Character data up to `stop`, entities resolved; nothing on a bare '&' or '<'.
  std::optional<std::string> data(char stop) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != stop) {
      if (text_[at_] == '<' || text_.substr(at_, 3) == "]]>") return std::nullopt;
      if (text_[at_] != '&') {
        out += text_[at_++];
        continue;
      }
      if (take("&amp;"))
        out += '&';
      else if (take("&lt;"))
        out += '<';
      else if (take("&gt;"))
        out += '>';
      else if (take("&quot;"))
        out += '"';
      else if (take("&apos;"))
        out += '\'';
      else
        return std::nullopt;
    }
    return out;
  }
  std::optional<XmlElement> element() {
    space();
    if (!take("<")) return fail("an element is expected");
    XmlElement out;
    out.name = name();
    if (out.name.empty()) return fail("no element name");
    while (take(" ")) {
      const std::string key = name();
      if (key.empty() || !take("=\"")) return fail("malformed attribute");
      std::optional<std::string> value = data('"');
      if (!value || !take("\"")) return fail("malformed attribute value");
      if (value->find('\n') != std::string::npos) return fail("line feed in an attribute");
      if (!out.attributes.emplace(key, *value).second) return fail("repeated attribute");
    }
    if (take("/>")) return out;
    if (!take(">")) return fail("tag not closed");
    for (;;) {
      std::optional<std::string> text = data('<');
      if (!text) return fail("malformed text");
      out.text += *text;
      if (take("</")) {
        if (name() != out.name || !take(">")) return fail("wrong closing tag");
        return out;
      }
      std::optional<XmlElement> child = element();
      if (!child) return std::nullopt;
      out.children.push_back(std::move(*child));
    }
  }

  std::string_view text_;
  std::string& problem_;
  size_t at_ = 0;
};

}  // namespace

std::optional<XmlElement> parse_xml(std::string_view text, std::string& problem) {
  return Parser(text, problem).run();
}

}  // namespace tftf::test
