// Names come from untrusted files: text output shows them through these (spec lint-rules 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tftf {

// True for U+200B..200F, U+202A..202E, U+2060..2064, U+2066..2069, U+FEFF and U+00AD (rule ST065).
bool is_invisible(uint32_t code_point);

// `text` with control characters, U+007F..009F, invisible characters, unpaired surrogates and malformed bytes
// written as \u{XXXX} (upper-case hexadecimal, at least four digits). Quotes are left alone.
std::string escape_text(std::string_view text);

// escape_text, cut after `most` characters with the full length given: abc… (4000 characters).
std::string escape_text_cut(std::string_view text, uint64_t most);

// escape_text in double quotes, `"` and `\` escaped by a backslash, cut after 120 characters with the full
// length given: "abc…" (4000 characters).
std::string quote_name(std::string_view name);

}  // namespace tftf
