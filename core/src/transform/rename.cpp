#include <unordered_map>

#include "pipe.h"
#include "tftf/base/escape.h"
#include "tftf/base/regex.h"

namespace tftf::transform {
namespace {

struct Rule {
  Regex pattern;
  RegexTemplate replacement;
  std::string text;
};

class Rename final : public Pipe {
 public:
  explicit Rename(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  std::string text() const override {
    std::string text = "rename";
    for (const Rule& rule : rules_) text += " rule=" + rule.text;
    return text;
  }

  Result<void> apply(Stream& stream) const override {
    std::unordered_map<std::string, const StreamTensor*> names;
    names.reserve(stream.tensors.size());
    for (StreamTensor& tensor : stream.tensors) {
      std::string name = tensor.name;
      for (const Rule& rule : rules_) {
        Result<std::string> next = rule.pattern.substitute(name, rule.replacement);
        if (!next) {
          Error error = std::move(next).error();
          error.tensor = tensor.name;
          return error;
        }
        name = *std::move(next);
      }
      TFTF_TRY(check_name(stream, tensor, name));
      stream.rename(tensor, std::move(name));
      const auto [other, fresh] = names.emplace(tensor.name, &tensor);
      if (!fresh) return collision(stream, *other->second, tensor);
    }
    return {};
  }

 private:
  static Result<void> check_name(const Stream& stream, const StreamTensor& tensor, const std::string& name) {
    if (!name.empty() && name != "__metadata__") return {};
    return Error{.code = ErrorCode::kRefusedCollision,
                 .message = "Tensor " + stream.described(tensor) + " would be renamed to " +
                            (name.empty() ? "an empty name." : "the reserved name \"__metadata__\"."),
                 .file = stream.file_of(tensor.source),
                 .tensor = tensor.name,
                 .found = name};
  }

  static Error collision(const Stream& stream, const StreamTensor& a, const StreamTensor& b) {
    return {.code = ErrorCode::kRefusedCollision,
            .message = "Two tensors would get the name " + quote_name(b.name) + ": " + stream.described(a) +
                       " and " + stream.described(b) + "; the rename rules must keep them apart.",
            .file = stream.file_of(b.source),
            .tensor = stream.checkpoint->info(b.source).name,
            .found = b.name};
  }

  std::vector<Rule> rules_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_rename(const Operation& operation) {
  std::vector<Rule> rules;
  for (const Operation::Given& given : operation.options) {
    Result<Regex> pattern = Regex::compile(given.values[0]);
    if (!pattern) return std::move(pattern).error();
    Result<RegexTemplate> replacement = pattern->parse_template(given.values[1]);
    if (!replacement) return std::move(replacement).error();
    rules.push_back({*std::move(pattern), *std::move(replacement),
                     json_ascii_string(given.values[0]) + "->" + json_ascii_string(given.values[1])});
  }
  return std::unique_ptr<Pipe>(std::make_unique<Rename>(std::move(rules)));
}

}  // namespace tftf::transform
