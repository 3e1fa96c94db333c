// JSON output: made by the core only, through nlohmann-json, for all hosts (spec cli 5).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tftf {

// Keys keep the order in which they are added.
using OrderedJson = nlohmann::ordered_json;

// Integers beyond ±(2^53-1) become strings of digits, others numbers.
OrderedJson json_integer(uint64_t value);
OrderedJson json_integer(int64_t value);
// NaN and infinities become "NaN", "Infinity", "-Infinity".
OrderedJson json_float(double value);
// Indent 2, UTF-8 kept raw but for what changes how its surroundings are shown (U+007F to U+009F, line separators and
// the characters that turn the writing direction: \uXXXX), final newline. Unpaired surrogates (base/json_reader.h, kPython) become \uD800 escapes, other
// malformed UTF-8 U+FFFD.
std::string json_text(const OrderedJson& value);
// One JSON string, ASCII only: non-ASCII as \uXXXX (lower-case, surrogate pairs above U+FFFF), as Python's
// json.dumps writes it.
std::string json_ascii_string(std::string_view text);

}  // namespace tftf
