// Which way round square weights lie: their shape does not tell, and fan_in_fan_out is only what the module that PEFT
// wrapped last has left behind (spec tftf 4).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tftf::merging {

class LinearAxes {
 public:
  // `flag`: fan_in_fan_out. `model_types`: of the base, as far as known.
  LinearAxes(bool flag, const std::vector<std::string>& model_types);

  // A weight of the adapter that fits as (out, in), as (in, out), or both ways.
  void add(std::string_view module, bool straight, bool turned);
  // Whether a square weight lies (in, out); nothing when that cannot be told.
  std::optional<bool> turned(std::string_view module) const;

 private:
  struct Count {
    bool straight = false, turned = false;
    bool one_sided() const { return straight != turned; }
  };
  std::optional<bool> of_others(std::string_view word) const;

  bool flag_;
  bool typed_ = false;                                 // the model's type is known
  bool conv1d_ = false;                                // and one whose linear layers are GPT-2's Conv1D
  std::map<std::string, Count, std::less<>> by_word_;  // last component of the module
  Count all_;
  std::set<std::string, std::less<>> square_words_;
};

}  // namespace tftf::merging
