#include "adapter/linear_axes.h"

#include <algorithm>

namespace tftf::merging {
namespace {

// Models of the transformers library with Conv1D layers, and how these are called.
constexpr std::string_view kConv1dTypes[] = {"gpt2", "openai-gpt",  "imagegpt", "decision_transformer",
                                             "clvp", "clvp_decoder"};
constexpr std::string_view kConv1dWords[] = {"c_attn", "c_proj", "c_fc", "q_attn"};

std::string_view last_word(std::string_view module) { return module.substr(module.rfind('.') + 1); }

bool is_conv1d_word(std::string_view word) {
  return std::find(std::begin(kConv1dWords), std::end(kConv1dWords), word) != std::end(kConv1dWords);
}

}  // namespace

LinearAxes::LinearAxes(bool flag, const std::vector<std::string>& model_types)
    : flag_(flag), typed_(!model_types.empty()) {
  for (const std::string& type : model_types)
    conv1d_ = conv1d_ ||
              std::find(std::begin(kConv1dTypes), std::end(kConv1dTypes), type) != std::end(kConv1dTypes);
}

void LinearAxes::add(std::string_view module, bool straight, bool turned) {
  const std::string word(last_word(module));
  if (straight && turned) {
    square_words_.insert(word);
    return;
  }
  Count& count = by_word_[word];
  count.straight = count.straight || straight;
  count.turned = count.turned || turned;
  all_.straight = all_.straight || straight;
  all_.turned = all_.turned || turned;
}

std::optional<bool> LinearAxes::turned(std::string_view module) const {
  const std::string_view word = last_word(module);
  const std::optional<bool> by_type = conv1d_ ? std::optional(is_conv1d_word(word)) : std::nullopt;
  // Modules of the same name are of the same class.
  if (const auto same = by_word_.find(word); same != by_word_.end()) {
    if (!same->second.one_sided()) return std::nullopt;
    if (by_type && *by_type != same->second.turned) return std::nullopt;
    return same->second.turned;
  }
  if (by_type) return by_type;
  return of_others(word);
}

// What the adapter's other weights say of one whose name and model say nothing: they and the flag must agree.
std::optional<bool> LinearAxes::of_others(std::string_view word) const {
  // GPT-2's names without its type may be either, unless a type that is none of those is known.
  const bool doubtful = is_conv1d_word(word) && !typed_;
  if (all_.straight || all_.turned) {
    if (!all_.one_sided() || all_.turned != flag_ || (doubtful && !flag_)) return std::nullopt;
    return flag_;
  }
  if (square_words_.size() <= 1) return flag_;
  const auto conv1d = std::count_if(square_words_.begin(), square_words_.end(),
                                    [](const std::string& other) { return is_conv1d_word(other); });
  if (flag_) return static_cast<size_t>(conv1d) == square_words_.size() ? std::optional(true) : std::nullopt;
  return typed_ || conv1d == 0 ? std::optional(false) : std::nullopt;
}

}  // namespace tftf::merging
