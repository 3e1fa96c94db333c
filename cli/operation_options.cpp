#include "operation_options.h"

namespace tftf::cli {
namespace {

std::string type_name(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::kChoice: {
      std::string text;
      for (const std::string_view choice : option.choices)
        text += (text.empty() ? "" : "|") + std::string(choice);
      return text;
    }
    case OptionKind::kInteger:
      return "N";
    case OptionKind::kSize:
      return "SIZE";
    case OptionKind::kGlob:
      return "GLOB";
    case OptionKind::kRule:
      return "PATTERN REPLACEMENT";
    case OptionKind::kNumber:
      return "NUMBER";
    case OptionKind::kPath:
      return "PATH";
    case OptionKind::kFlag:
    case OptionKind::kText:
      break;
  }
  return "TEXT";
}

}  // namespace

void add_operation_options(CLI::App& command, const OperationInfo& info, Operation& to, bool optional,
                           const std::map<std::string_view, std::string>& names) {
  to.id = info.id;
  for (const OptionInfo& option : info.options) {
    const std::string name(option.name);
    const auto own = names.find(option.name);
    const std::string spelling = own == names.end() ? "--" + name : own->second;
    if (spelling.empty()) continue;
    std::string help(option.help);
    if (!option.fallback.empty()) help += " (" + std::string(option.fallback) + ")";
    CLI::Option* added = nullptr;
    if (option.kind == OptionKind::kFlag) {
      added = command.add_flag_callback(
          spelling,
          [&to, name] {
            to.options.push_back({name, {}});
          },
          help);
    } else {
      const auto take = [&to, name, width = option.values()](const std::vector<std::string>& values) {
        for (size_t i = 0; i + width <= values.size(); i += width) {
          to.options.push_back({name,
                                {values.begin() + static_cast<ptrdiff_t>(i),
                                 values.begin() + static_cast<ptrdiff_t>(i + width)}});
        }
      };
      added = command.add_option_function<std::vector<std::string>>(spelling, take, help);
      // Without extra arguments CLI11 neither eats what follows nor splits "[a,b]", which is a fine pattern.
      added->type_size(static_cast<int>(option.values()))->expected(1)->allow_extra_args(false)->take_all();
      added->type_name(type_name(option));
      if (option.required && !optional) added->required();
    }
    added->group(option.ignored ? "" : std::string(info.title));
  }
}

}  // namespace tftf::cli
