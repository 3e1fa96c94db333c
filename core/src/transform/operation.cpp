#include "tftf/transform/operation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "pipe.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"
#include "tftf/base/regex.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

using Words = std::string_view;

constexpr Words kAnyDtypes[] = {"float32", "float16", "bfloat16", "float64"};
constexpr Words kDequantDtypes[] = {"bfloat16", "float16", "float32"};
constexpr Words kDequantChainDtypes[] = {"bf16", "fp16", "fp32"};

constexpr OptionInfo kAllowUnscaled{.name = "allow-unscaled",
                                    .kind = OptionKind::kFlag,
                                    .help = "Take FP8 codes as they are where no scale is applied to them"};

constexpr OptionInfo kFilterOptions[] = {
    {.name = "include",
     .kind = OptionKind::kGlob,
     .help = "Keep only tensors whose name matches; * ? [set] match as in Python's fnmatch",
     .repeatable = true},
    {.name = "exclude",
     .kind = OptionKind::kGlob,
     .help = "Leave out tensors whose name matches, also where --include matches",
     .repeatable = true}};

constexpr OptionInfo kRenameOptions[] = {
    {.name = "rule",
     .kind = OptionKind::kRule,
     .help =
         "Pattern and replacement, as for Python's re.sub (\\d \\w \\s match ASCII); rules apply in order",
     .required = true,
     .repeatable = true}};

constexpr OptionInfo kCastOptions[] = {{.name = "dtype",
                                        .kind = OptionKind::kChoice,
                                        .choices = kAnyDtypes,
                                        .help = "What to cast to",
                                        .required = true},
                                       {.name = "cast-floats-only",
                                        .kind = OptionKind::kFlag,
                                        .help = "Leave integers and booleans as they are"},
                                       kAllowUnscaled};

constexpr OptionInfo kDequantFp8Options[] = {
    {.name = "dtype",
     .kind = OptionKind::kChoice,
     .fallback = "bfloat16",
     .choices = kDequantDtypes,
     .chain_choices = kDequantChainDtypes,
     .help = "Dtype of the result"},
    {.name = "block-size",
     .kind = OptionKind::kInteger,
     .unit = "elements",
     .help = "Rows and columns that one scale covers; else weight_block_size of config.json, else 128"},
    kAllowUnscaled,
    {.name = "device",
     .help = "Taken for the original's sake: everything runs on the processor",
     .ignored = true}};

constexpr OptionInfo kMergeOptions[] = {
    {.name = "adapter",
     .kind = OptionKind::kPath,
     .help = "Adapter: adapter_model.safetensors, its folder, a training folder, or a distributed checkpoint",
     .required = true},
    {.name = "adapter-config",
     .kind = OptionKind::kPath,
     .help = "adapter_config.json to use instead of the one beside the adapter"},
    {.name = "adapter-name",
     .kind = OptionKind::kText,
     .fallback = "default",
     .help = "Name of the adapter in the names of its tensors"},
    {.name = "scale",
     .kind = OptionKind::kNumber,
     .fallback = "1",
     .help = "Strength: multiplies the adapter's own scale"},
    {.name = "allow-nonfinite",
     .kind = OptionKind::kFlag,
     .help = "Write results that are infinite or NaN where the base was finite"},
    {.name = "strict", .kind = OptionKind::kFlag, .help = "Refuse an adapter without adapter_config.json"},
    {.name = "base-is-residual",
     .kind = OptionKind::kFlag,
     .help = "The base is the one that the adapter's initialisation (PiSSA, OLoRA, ...) has left behind"},
    {.name = "force", .kind = OptionKind::kFlag, .help = "The same as --base-is-residual"},
    {.name = "device",
     .help = "Taken for the original's sake: everything runs on the processor",
     .ignored = true}};

constexpr OptionInfo kReshardOptions[] = {
    {.name = "max-shard-size",
     .kind = OptionKind::kSize,
     .fallback = "20GiB",
     .unit = "bytes",
     .help = "Start a new shard before this many bytes of tensors"},
    {.name = "single", .kind = OptionKind::kFlag, .help = "Write one file instead of a folder of shards"},
    {.name = "align",
     .kind = OptionKind::kFlag,
     .help = "Order the tensors of a file by falling element size, so that all lie aligned"}};

std::string no_obstacle(const Checkpoint& checkpoint) {
  return checkpoint.order.empty() ? "It holds no tensors." : "";
}

constexpr OperationInfo kOperations[] = {
    {.id = "dequant-fp8",
     .title = "Dequantise FP8",
     .summary = "Turns FP8 weights with their scales into plain floats",
     .activator = "--dequant-fp8",
     .bare = "dtype",
     .options = kDequantFp8Options,
     .layouts = "FP8 weights with block, row, column or tensor scales",
     .writes = "plain floats; the scales go, config.json loses its quantisation section",
     .obstacle = transform::dequant_fp8_obstacle,
     .make = transform::make_dequant_fp8},
    {.id = "merge-lora",
     .title = "Merge an adapter",
     .summary = "Merges a PEFT adapter into the weights",
     .activator = "--merge-lora",
     .bare = "adapter",
     .options = kMergeOptions,
     .layouts = "plain float weights, or FP8 dequantised before",
     .writes = "the merged weights in the base's dtypes",
     .obstacle = transform::merge_obstacle,
     .make = transform::make_merge},
    {.id = "filter",
     .title = "Filter",
     .summary = "Keeps the tensors whose names match",
     .activator = "--key-filter",
     .bare = "include",
     .options = kFilterOptions,
     .layouts = "",
     .writes = "the kept tensors, unchanged",
     .obstacle = no_obstacle,
     .make = transform::make_filter},
    {.id = "rename",
     .title = "Rename",
     .summary = "Renames tensors by regular expressions",
     .activator = "--key-rename",
     .bare = "rule",
     .options = kRenameOptions,
     .layouts = "",
     .writes = "the same tensors under new names",
     .obstacle = no_obstacle,
     .make = transform::make_rename},
    {.id = "cast",
     .title = "Cast",
     .summary = "Casts every tensor to one dtype",
     .activator = "--dtype-cast",
     .bare = "dtype",
     .options = kCastOptions,
     .layouts = "",
     .writes = "tensors of the chosen dtype; config.json's dtype follows",
     .obstacle = no_obstacle,
     .make = transform::make_cast},
    {.id = "reshard",
     .title = "Reshard",
     .summary = "Packs the tensors into shards of another size, or one file",
     .activator = "",
     .bare = "",
     .options = kReshardOptions,
     .layouts = "",
     .writes = "the same tensors in other files, with a new index",
     .obstacle = no_obstacle,
     .make = nullptr},
};

bool same_word(Words a, Words b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string listed(std::span<const Words> words) {
  std::string text;
  for (const Words word : words) text += (text.empty() ? "" : ", ") + std::string(word);
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
      const auto known = [&](Words word) { return same_word(word, values[0]); };
      if (std::any_of(option.choices.begin(), option.choices.end(), known)) break;
      return usage(operation, name,
                   "is " + quote_name(values[0]) + ", which is not one of " + listed(option.choices),
                   values[0]);
    }
    case OptionKind::kInteger: {
      const std::optional<uint64_t> value = json_unsigned(values[0]);
      if (!value || *value == 0 || *value > UINT32_MAX)
        return usage(operation, name, "is " + quote_name(values[0]) + ", not a positive whole number",
                     values[0]);
      break;
    }
    case OptionKind::kSize:
      if (auto size = parse_size(values[0]); !size) return std::move(size).error();
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
        option = info_.option(Words(token).substr(2));
        if (option == nullptr) return error("has no option " + quote_name(token));
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
    if (option.kind == OptionKind::kChoice) {  // exact here, and in the chain's own spelling
      const auto& choices = option.chain_choices.empty() ? option.choices : option.chain_choices;
      const auto known = std::find(choices.begin(), choices.end(), given.values[0]);
      if (known == choices.end()) {
        return error("--" + given.name + " is " + quote_name(given.values[0]) + ", which is not one of " +
                     listed(choices));
      }
      given.values[0] = option.choices[static_cast<size_t>(known - choices.begin())];
    }
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

std::span<const OperationInfo> all_operations() { return kOperations; }

const OperationInfo* find_operation(std::string_view id) {
  for (const OperationInfo& info : kOperations) {
    if (info.id == id) return &info;
  }
  return nullptr;
}

Result<void> check_operation(const Operation& operation) {
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
  for (const OptionInfo& option : info->options) {
    if (option.required && operation.find(option.name) == nullptr) {
      return usage(operation, std::string(option.name), "is missing");
    }
  }
  return {};
}

OrderedJson operations_json(const Checkpoint* checkpoint) {
  OrderedJson list = OrderedJson::array();
  const auto text = [](Words words) {
    return words.empty() ? OrderedJson() : OrderedJson(std::string(words));
  };
  for (const OperationInfo& info : kOperations) {
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

Result<std::vector<Operation>> parse_chain(std::span<const std::string> tokens) {
  const auto activated = [](const std::string& token) -> const OperationInfo* {
    for (const OperationInfo& info : kOperations) {
      if (!info.activator.empty() && info.activator == token) return &info;
    }
    return nullptr;
  };
  std::vector<Operation> chain;
  for (size_t at = 0; at < tokens.size();) {
    const OperationInfo* info = activated(tokens[at]);
    if (info == nullptr) {
      std::vector<Words> known;
      for (const OperationInfo& other : kOperations) {
        if (!other.activator.empty()) known.push_back(other.activator);
      }
      return Error{.code = ErrorCode::kUsage,
                   .message = quote_name(tokens[at]) +
                              " stands before any pipe; a chain begins with one of " + listed(known) + ".",
                   .found = tokens[at]};
    }
    size_t end = ++at;
    while (end < tokens.size() && activated(tokens[end]) == nullptr) ++end;
    Result<Operation> operation = SectionReader(*info, tokens.subspan(at, end - at)).read();
    if (!operation) return std::move(operation).error();
    chain.push_back(*std::move(operation));
    at = end;
  }
  return chain;
}

}  // namespace tftf
