#include "tftf/transform/operation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"
#include "tftf/base/regex.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

Error usage(const Operation& operation, const std::string& option, const std::string& what,
            std::string found = "") {
  return {.code = ErrorCode::kUsage,
          .message = "--" + option + " of " + operation.id + " " + what + ".",
          .found = std::move(found)};
}

Result<void> check_value(const Operation& operation, const OptionInfo& option,
                         const std::vector<std::string>& values) {
  const std::string name(option.name);
  switch (option.kind) {
    case OptionKind::kChoice: {
      const auto known = [&](std::string_view word) { return same_word(word, values[0]); };
      if (std::any_of(option.choices.begin(), option.choices.end(), known)) break;
      return usage(operation, name,
                   "is " + quote_name(values[0]) + ", which is not one of " + listed(option.choices),
                   values[0]);
    }
    case OptionKind::kInteger: {
      if (option.or_all && (values[0] == "-1" || values[0] == "0")) break;
      const std::optional<uint64_t> value = json_unsigned(values[0]);
      if (!value || *value == 0 || *value > UINT32_MAX)
        return usage(operation, name, "is " + quote_name(values[0]) + ", not a positive whole number",
                     values[0]);
      break;
    }
    case OptionKind::kSize:
      if (auto size = parse_size(values[0]); !size)
        return std::move(size).error();
      else if (*size == 0)
        return usage(operation, name, "is 0, where some bytes have to fit", values[0]);
      break;
    case OptionKind::kRule: {
      auto pattern = Regex::compile(values[0]);
      if (!pattern) return std::move(pattern).error();
      if (auto replacement = pattern->parse_template(values[1]); !replacement)
        return std::move(replacement).error();
      break;
    }
    case OptionKind::kNumber:
      if (!parse_number(values[0]))
        return usage(operation, name, "is " + quote_name(values[0]) + ", not a finite number", values[0]);
      break;
    case OptionKind::kFlag:
    case OptionKind::kGlob:
    case OptionKind::kText:
    case OptionKind::kPath:
      break;
  }
  return {};
}

// Short names of dtypes, as command lines of many programs have them.
constexpr std::pair<std::string_view, std::string_view> kDtypeWords[] = {
    {"bf16", "bfloat16"}, {"fp16", "float16"}, {"f16", "float16"}, {"half", "float16"},  {"fp32", "float32"},
    {"f32", "float32"},   {"fp64", "float64"}, {"f64", "float64"}, {"double", "float64"}};

// Which other operations have the option, for a hint: " (it belongs to --key-filter)".
std::string owners_text(std::string_view token, const OperationInfo* but) {
  std::string owners;
  for (const OperationInfo& info : all_operations()) {
    if (&info == but || info.activator.empty() || token.substr(0, 2) != "--") continue;
    if (info.option(token.substr(2)) == nullptr) continue;
    owners += (owners.empty() ? "" : " or ") + std::string(info.activator);
  }
  return owners.empty() ? "" : "; it belongs to " + owners + ", which has to stand before it";
}

// The arguments of one section, from behind its activator to the next one.
class SectionReader {
 public:
  SectionReader(const OperationInfo& info, std::span<const std::string> tokens)
      : info_(info), tokens_(tokens), operation_{std::string(info.id), {}} {}

  Result<Operation> read() {
    while (at_ < tokens_.size()) {
      const std::string& token = tokens_[at_];
      const OptionInfo* option = nullptr;
      if (is_flag(token)) {
        option = info_.option(std::string_view(token).substr(2));
        if (option == nullptr)
          return error("has no option " + quote_name(token) + owners_text(token, &info_));
        ++at_;
      } else {
        option = info_.option(info_.bare);
      }
      TFTF_TRY(take(*option));
    }
    for (const OptionInfo& option : info_.options) {
      if (option.required && operation_.find(option.name) == nullptr) {
        return error("needs " + std::string(option.name == info_.bare ? "a value or " : "") + "--" +
                     std::string(option.name));
      }
    }
    TFTF_TRY(check_operation(operation_));
    return operation_;
  }

 private:
  static bool is_flag(const std::string& token) {
    return token.size() >= 2 && token[0] == '-' && token[1] == '-';
  }

  Error error(const std::string& what) const {
    return {.code = ErrorCode::kUsage, .message = std::string(info_.activator) + " " + what + "."};
  }

  Result<void> take(const OptionInfo& option) {
    Operation::Given given{std::string(option.name), {}};
    for (uint32_t i = 0; i < option.values(); ++i, ++at_) {
      if (at_ == tokens_.size() || is_flag(tokens_[at_])) {
        return error("--" + given.name + " needs " +
                     (option.values() == 1 ? "a value" : std::to_string(option.values()) + " values"));
      }
      given.values.push_back(tokens_[at_]);
    }
    if (option.kind == OptionKind::kChoice) {
      const auto known = find_choice(option, given.values[0]);
      if (!known) {
        return error("--" + given.name + " is " + quote_name(given.values[0]) + ", which is not one of " +
                     listed(option.choices));
      }
      given.values[0] = *known;
    }
    if (!option.repeatable && operation_.find(given.name) != nullptr)
      return error("--" + given.name + " is given twice");
    operation_.options.push_back(std::move(given));
    return {};
  }

  const OperationInfo& info_;
  std::span<const std::string> tokens_;
  Operation operation_;
  size_t at_ = 0;
};

}  // namespace

std::string_view option_kind_name(OptionKind kind) {
  constexpr std::array<std::string_view, 9> kNames = {"flag", "choice", "integer", "size", "glob",
                                                      "rule", "text",   "number",  "path"};
  return kNames[static_cast<size_t>(kind)];
}

const std::vector<std::string>* Operation::find(std::string_view name) const {
  for (auto given = options.rbegin(); given != options.rend(); ++given) {
    if (given->name == name) return &given->values;
  }
  return nullptr;
}

std::shared_ptr<const OtherModel> other_model(Checkpoint checkpoint, const std::string& place,
                                              std::vector<FileEntry> folder) {
  const auto model = std::make_shared<OtherModel>();
  model->given = checkpoint.listing.given;
  model->place = place + "//";
  for (Shard& shard : checkpoint.shards) shard.name = model->place + shard.name;
  model->checkpoint = std::make_shared<const Checkpoint>(std::move(checkpoint));
  model->folder = std::move(folder);
  return model;
}

const OptionInfo* OperationInfo::option(std::string_view name) const {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const OptionInfo& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

std::optional<double> parse_number(std::string_view text) {
  std::string literal;  // as JSON writes it: a digit on both sides of the point
  size_t at = 0;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    if (text[0] == '-') literal = "-";
    at = 1;
  }
  const auto digits = [&] {
    std::string run;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') run += text[at++];
    return run;
  };
  std::string whole = digits(), fraction;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  literal += (whole.empty() ? "0" : whole) + (fraction.empty() ? "" : "." + fraction);
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    literal += 'e';
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) literal += text[at++];
    const std::string exponent = digits();
    if (exponent.empty()) return std::nullopt;
    literal += exponent;
  }
  if (at != text.size()) return std::nullopt;
  const double value = json_double(literal);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

const OperationInfo* find_operation(std::string_view id) {
  for (const OperationInfo& info : all_operations()) {
    if (info.id == id) return &info;
  }
  return nullptr;
}

std::optional<std::string_view> find_choice(const OptionInfo& option, std::string_view word) {
  const auto among = [&](std::string_view wanted) -> std::optional<std::string_view> {
    for (const std::string_view choice : option.choices)
      if (same_word(choice, wanted)) return choice;
    return std::nullopt;
  };
  if (const auto choice = among(word)) return choice;
  for (const auto& [short_name, dtype] : kDtypeWords)
    if (same_word(short_name, word)) return among(dtype);
  return std::nullopt;
}

void spell_out_choices(Operation& operation) {
  const OperationInfo* info = find_operation(operation.id);
  for (Operation::Given& given : operation.options) {
    const OptionInfo* option = info == nullptr ? nullptr : info->option(given.name);
    if (option == nullptr || option->kind != OptionKind::kChoice || given.values.size() != 1) continue;
    if (const auto choice = find_choice(*option, given.values[0])) given.values[0] = *choice;
  }
}

Result<void> check_options(const Operation& operation) {
  const OperationInfo* info = find_operation(operation.id);
  if (info == nullptr) {
    return Error{.code = ErrorCode::kUsage,
                 .message = "There is no operation " + quote_name(operation.id) + "."};
  }
  for (const Operation::Given& given : operation.options) {
    const OptionInfo* option = info->option(given.name);
    if (option == nullptr) return usage(operation, given.name, "is not known");
    if (given.values.size() != option->values())
      return usage(operation, given.name, "has a wrong number of values");
    TFTF_TRY(check_value(operation, *option, given.values));
  }
  return {};
}

bool takes_tokenizer(const Operation& operation) {
  const auto* from = operation.find("tokenizer-from");
  return from != nullptr && from->front() == "adapter";
}

std::vector<OperationFile> files_of(const Operation& operation) {
  std::vector<OperationFile> files;
  const OperationInfo* info = find_operation(operation.id);
  if (info == nullptr) return files;
  for (const OptionInfo& option : info->options) {
    const auto* given = option.contents ? operation.find(option.name) : nullptr;
    if (given == nullptr || operation.files.count(std::string(option.name)) > 0) continue;
    // A word is the name of a preset; a file has at least an extension.
    if (option.kind != OptionKind::kPath && given->front().find_first_of("./\\") == std::string::npos)
      continue;
    files.push_back({std::string(option.name), given->front()});
  }
  return files;
}

Result<void> check_operation(const Operation& operation) {
  TFTF_TRY(check_options(operation));
  for (const OptionInfo& option : find_operation(operation.id)->options) {
    if (option.required && operation.find(option.name) == nullptr) {
      return usage(operation, std::string(option.name), "is missing");
    }
  }
  return {};
}

OrderedJson operations_json(const Checkpoint* checkpoint) {
  OrderedJson list = OrderedJson::array();
  const auto text = [](std::string_view words) {
    return words.empty() ? OrderedJson() : OrderedJson(std::string(words));
  };
  for (const OperationInfo& info : all_operations()) {
    OrderedJson options = OrderedJson::array();
    for (const OptionInfo& option : info.options) {
      if (option.ignored) continue;
      OrderedJson entry;
      entry["name"] = std::string(option.name);
      entry["kind"] = std::string(option_kind_name(option.kind));
      entry["default"] = text(option.fallback);
      entry["choices"] = nullptr;
      if (!option.choices.empty())
        entry["choices"] = std::vector<std::string>(option.choices.begin(), option.choices.end());
      entry["unit"] = text(option.unit);
      entry["help"] = std::string(option.help);
      entry["required"] = option.required;
      entry["repeatable"] = option.repeatable;
      options.push_back(std::move(entry));
    }
    OrderedJson entry;
    entry["id"] = std::string(info.id);
    entry["title"] = std::string(info.title);
    entry["summary"] = std::string(info.summary);
    entry["options"] = std::move(options);
    entry["layouts"] = text(info.layouts);
    entry["writes"] = std::string(info.writes);
    entry["applicable"] = nullptr;
    entry["reason"] = nullptr;
    if (checkpoint != nullptr) {
      const std::string reason = info.obstacle(*checkpoint);
      entry["applicable"] = reason.empty();
      entry["reason"] = text(reason);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

const OperationInfo* find_activator(std::string_view word) {
  for (const OperationInfo& info : all_operations())
    if (!info.activator.empty() && info.activator == word) return &info;
  return nullptr;
}

Result<std::vector<Operation>> parse_chain(std::span<const std::string> tokens) {
  std::vector<Operation> chain;
  for (size_t at = 0; at < tokens.size();) {
    const OperationInfo* info = find_activator(tokens[at]);
    if (info == nullptr) {
      std::vector<std::string_view> known;
      for (const OperationInfo& other : all_operations()) {
        if (!other.activator.empty()) known.push_back(other.activator);
      }
      const std::string owners = owners_text(tokens[at], nullptr);
      return Error{.code = ErrorCode::kUsage,
                   .message = quote_name(tokens[at]) + " stands before any operation" +
                              (owners.empty() ? "; a chain begins with one of " + listed(known) : owners) +
                              ".",
                   .found = tokens[at]};
    }
    size_t end = ++at;
    while (end < tokens.size() && find_activator(tokens[end]) == nullptr) ++end;
    Result<Operation> operation = SectionReader(*info, tokens.subspan(at, end - at)).read();
    if (!operation) return std::move(operation).error();
    chain.push_back(*std::move(operation));
    at = end;
  }
  return chain;
}

}  // namespace tftf
