// What a user wants a model to become: a preset, or a configuration as the library writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/ct/coding.h"
#include "quant/ct/scheme.h"

namespace tftf::ct {

struct WrittenScheme {
  Config config{};  // every group has its format
  Sparse sparse = Sparse::kNo;
  std::optional<std::vector<std::string>> sparse_targets{};  // nothing: every weight
  std::vector<std::string> sparse_ignore{};
  OrderedJson sparsity = OrderedJson::object();  // as it was given
  bool preset = false;
};

// `text`: of the file that `word` names; null: it names a preset. Errors: kUsage for a word that is none, kRefusedConfig.
Result<WrittenScheme> read_scheme(const std::string& word, const std::string* text);
// The section for config.json, as JSON with indent 2. `ignored`: modules that were left as they are besides.
std::string scheme_section(const WrittenScheme& scheme, const std::vector<std::string>& ignored);
// The release that a configuration without a version stands for here.
inline constexpr std::string_view kNewestVersion = "0.18.0";
// Whether a linear layer of that name is one that loaders build plain in models of a preset: an output head, a router.
bool is_left_plain(std::string_view module);
// A name that modules share which are computed as one at run time: "x.{q,k,v}_proj"; empty: none.
std::string fused_set(std::string_view module);

}  // namespace tftf::ct
