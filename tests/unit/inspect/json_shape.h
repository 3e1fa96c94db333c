// The shape that a JSON document must have: a hand-made validator for the contract of spec cli 5.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tftf/base/json_text.h"

namespace tftf::test {

// Returns what is wrong with a value, empty when nothing is.
using Check = std::function<std::string(const OrderedJson&)>;

inline Check kind_is(std::string name, bool (*test)(const OrderedJson&)) {
  return [name, test](const OrderedJson& value) {
    return test(value) ? "" : "is no " + name + ": " + value.dump();
  };
}
inline Check is_text() {
  return kind_is("text", [](const OrderedJson& v) { return v.is_string(); });
}
inline Check is_flag() {
  return kind_is("boolean", [](const OrderedJson& v) { return v.is_boolean(); });
}
// A number up to 2^53-1, beyond that digits.
inline Check is_count() {
  return kind_is("count", [](const OrderedJson& v) {
    if (v.is_number_unsigned()) return v.get<uint64_t>() <= 9007199254740991u;
    return v.is_string() && v.get<std::string>().size() >= 16 &&
           v.get<std::string>().find_first_not_of("0123456789") == std::string::npos;
  });
}
inline Check one_of(std::vector<std::string> words) {
  return [words](const OrderedJson& value) {
    for (const std::string& word : words)
      if (value == word) return std::string();
    return "is none of the words: " + value.dump();
  };
}
inline Check or_null(Check check) {
  return [check](const OrderedJson& value) { return value.is_null() ? std::string() : check(value); };
}
inline Check list_of(Check check) {
  return [check](const OrderedJson& value) {
    if (!value.is_array()) return "is no list: " + value.dump();
    for (size_t i = 0; i < value.size(); ++i)
      if (std::string why = check(value[i]); !why.empty()) return "[" + std::to_string(i) + "]" + why;
    return std::string();
  };
}
inline Check map_of(Check check) {
  return [check](const OrderedJson& value) {
    if (!value.is_object()) return "is no object: " + value.dump();
    for (const auto& [key, member] : value.items())
      if (std::string why = check(member); !why.empty()) return "." + key + why;
    return std::string();
  };
}
// Exactly these members, in this order.
inline Check object(std::vector<std::pair<std::string, Check>> members) {
  return [members](const OrderedJson& value) {
    if (!value.is_object()) return " is no object: " + value.dump();
    std::vector<std::string> keys;
    for (const auto& [key, member] : value.items()) keys.push_back(key);
    if (keys.size() != members.size()) return " has " + std::to_string(keys.size()) + " members";
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] != members[i].first) return " has " + keys[i] + " where " + members[i].first + " belongs";
      if (std::string why = members[i].second(value[keys[i]]); !why.empty()) return "." + keys[i] + " " + why;
    }
    return std::string();
  };
}

// `info --json`.
inline Check info_document() {
  const Check shape = list_of(is_count());
  const Check adapter = object({{"kind", one_of({"adapter", "checkpoint", "embedding", "unknown"})},
                                {"family", or_null(is_text())},
                                {"families", list_of(is_text())},
                                {"base_family", or_null(is_text())},
                                {"forms", map_of(is_count())},
                                {"modules", is_count()},
                                {"ranks", map_of(is_count())},
                                {"alphas", map_of(is_count())},
                                {"scale", one_of({"alpha", "config", "metadata", "implicit", "unknown"})},
                                {"ambiguous", is_flag()},
                                {"unpaired", list_of(is_text())},
                                {"evidence", list_of(is_text())},
                                {"unexplained", is_count()}});
  return object(
      {{"tool", object({{"name", one_of({"tftf"})}, {"version", is_text()}})},
       {"input", is_text()},
       {"kind",
        one_of({"checkpoint", "adapter", "embedding", "data", "index", "pointer", "config", "broken"})},
       {"family", or_null(is_text())},
       {"files", list_of(object({{"name", is_text()},
                                 {"status", one_of({"ok", "missing", "broken", "pointer"})},
                                 {"size", or_null(is_count())},
                                 {"header_length", or_null(is_count())},
                                 {"tensors", or_null(is_count())}}))},
       {"tensor_count", is_count()},
       {"data_bytes", is_count()},
       {"stored_elements", is_count()},
       {"logical_parameters", or_null(is_count())},
       {"dtypes", list_of(object({{"dtype", is_text()},
                                  {"tensors", is_count()},
                                  {"elements", is_count()},
                                  {"bytes", is_count()}}))},
       {"layouts", list_of(object({{"id", is_text()},
                                   {"modules", is_count()},
                                   {"logical_parameters", or_null(is_count())},
                                   {"bytes", is_count()},
                                   {"evidence", is_text()}}))},
       {"metadata", map_of(is_text())},
       {"config", or_null(object({{"model_type", or_null(is_text())},
                                  {"dtype", or_null(is_text())},
                                  {"quant_method", or_null(is_text())}}))},
       {"adapter", or_null(adapter)},
       {"index", or_null(object({{"file", is_text()},
                                 {"tensors", is_count()},
                                 {"shards", is_count()},
                                 {"total_size", or_null([](const OrderedJson& v) {
                                    return v.is_string() || v.is_number() ? std::string() : "is no number";
                                  })},
                                 {"missing", list_of(is_text())}}))},
       {"names",
        or_null(object(
            {{"layout", is_text()}, {"to_transformers_4", is_count()}, {"to_transformers_5", is_count()}}))},
       {"experts", or_null(object({{"form", one_of({"fused", "split", "both"})},
                                   {"split", is_count()},
                                   {"fused", is_count()},
                                   {"mixed", is_count()}}))},
       {"folded", list_of(object({{"pattern", is_text()},
                                  {"count", is_count()},
                                  {"dtype", is_text()},
                                  {"shape", shape},
                                  {"bytes", is_count()}}))},
       {"tensors",
        list_of(object({{"name", is_text()},
                        {"file", is_count()},
                        {"dtype", is_text()},
                        {"shape", shape},
                        {"offsets", shape},
                        {"layout", or_null(is_text())},
                        {"logical", or_null(object({{"dtype", is_text()}, {"shape", or_null(shape)}}))},
                        {"companion_of", or_null(is_text())}}))},
       {"notes", list_of(is_text())}});
}

}  // namespace tftf::test
