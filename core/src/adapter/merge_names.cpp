#include "adapter/merge_names.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::merging {
namespace {

constexpr size_t kNamedInMessages = 5;  // before "and N more"

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamedInMessages); ++i)
    text += (text.empty() ? "" : ", ") + quote_name(names[i]);
  if (names.size() > kNamedInMessages)
    text += " and " + grouped_digits(names.size() - kNamedInMessages) + " more";
  return text;
}

std::string counted(uint64_t count, std::string_view what) {
  return grouped_digits(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

bool ends_with_component(std::string_view name, std::string_view tail) {
  return name == tail ||
         (name.size() > tail.size() && name.ends_with(tail) && name[name.size() - tail.size() - 1] == '.');
}

std::string without_wrappers(std::string_view module) {
  constexpr std::string_view kWrapper = "base_layer";
  std::string out;
  for (size_t begin = 0; begin <= module.size();) {
    const size_t dot = std::min(module.find('.', begin), module.size());
    const std::string_view component = module.substr(begin, dot - begin);
    if (component != kWrapper) {
      if (!out.empty()) out += '.';
      out += component;
    }
    begin = dot + 1;
  }
  return out;
}

std::string joined(const std::string& module, std::string_view parameter) {
  return module.empty() ? std::string(parameter) : module + "." + std::string(parameter);
}

bool belongs(PeftPart part, PeftMethod method) {
  using P = PeftPart;
  using M = PeftMethod;
  switch (part) {
    case P::kSaved:
    case P::kOriginal:
    case P::kTokenRows:
      return true;
    case P::kLoraA:
    case P::kLoraB:
      return method == M::kLora || method == M::kAdaLora;
    case P::kLoraE:
      return method == M::kAdaLora;
    case P::kBoftR:
    case P::kBoftS:
      return method == M::kBoft;
    case P::kHraU:
      return method == M::kHra;
    case P::kMissBlock:
      return method == M::kMiss;
    case P::kLoraBBias:
    case P::kEmbeddingA:
    case P::kEmbeddingB:
    case P::kMagnitude:
      return method == M::kLora;
    case P::kHadaW1A:
    case P::kHadaW1B:
    case P::kHadaW2A:
    case P::kHadaW2B:
    case P::kHadaT1:
    case P::kHadaT2:
      return method == M::kLoha;
    case P::kLokrW1:
    case P::kLokrW1A:
    case P::kLokrW1B:
    case P::kLokrW2:
    case P::kLokrW2A:
    case P::kLokrW2B:
    case P::kLokrT2:
      return method == M::kLokr;
    case P::kIa3:
      return method == M::kIa3;
    case P::kVeraA:
    case P::kVeraB:
    case P::kVeraLambdaB:
    case P::kVeraLambdaD:
      return method == M::kVera;
    case P::kOftR:
    case P::kOftEmbeddingR:
      return method == M::kOft;
    case P::kLoraDiag:
    case P::kOldOft:
      break;
  }
  return false;
}

}  // namespace tftf::merging
