#include "adapter/rank_names.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr size_t kMostDigits = 9;  // longer numbers are no ranks

// A name cut at its numbers: words[i] stands before numbers[i], the last word behind all.
struct CutName {
  std::vector<std::string> words{std::string()};
  std::vector<uint64_t> numbers;
};

CutName cut_name(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of("/\\") + 1);
  CutName cut;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end == i || end - i > kMostDigits) {
      end = std::max(end, i + 1);
      cut.words.back().append(name.substr(i, end - i));
    } else {
      uint64_t number = 0;
      for (; i < end; ++i) number = number * 10 + static_cast<uint64_t>(name[i] - '0');
      cut.numbers.push_back(number);
      cut.words.emplace_back();
    }
    i = end;
  }
  return cut;
}

// The number that is said to be the number of ranks.
std::optional<uint64_t> ranks_named(const CutName& cut) {
  for (size_t n = 0; n < cut.numbers.size(); ++n) {
    std::string word;
    for (const char c : cut.words[n])
      if (c != '-' && c != '_' && c != '.') word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    if ((word == "of" && n > 0) || word.ends_with("worldsize")) return cut.numbers[n];
  }
  return std::nullopt;
}

Error rank_names_error(const std::string& file, std::string what, std::string expected, std::string found) {
  return {.code = ErrorCode::kRefusedMissing,
          .message = std::move(what),
          .file = file,
          .expected = std::move(expected),
          .found = std::move(found)};
}

}  // namespace

Result<void> check_rank_names(std::span<const std::string> files) {
  std::vector<CutName> cuts;
  for (const std::string& file : files) cuts.push_back(cut_name(file));
  for (size_t f = 0; f < files.size(); ++f) {
    const auto ranks = ranks_named(cuts[f]);
    if (!ranks || *ranks == files.size()) continue;
    return rank_names_error(files[f],
                            "The file " + quote_name(files[f]) + " calls itself one of " +
                                std::to_string(*ranks) + " ranks, and " + std::to_string(files.size()) +
                                (files.size() == 1 ? " is given." : " are given."),
                            std::to_string(*ranks), std::to_string(files.size()));
  }
  std::optional<size_t> rank;  // which of the numbers
  for (const CutName& cut : cuts) {
    if (cut.words != cuts[0].words) return {};
    for (size_t n = 0; n < cut.numbers.size(); ++n) {
      if (cut.numbers[n] == cuts[0].numbers[n]) continue;
      if (rank && *rank != n) return {};
      rank = n;
    }
  }
  if (!rank) return {};
  std::vector<uint64_t> numbers;
  for (const CutName& cut : cuts) numbers.push_back(cut.numbers[*rank]);
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] - numbers[i - 1] <= 1) continue;
    return rank_names_error(files[0],
                            "The files named like " + quote_name(files[0]) +
                                " are ranks by their names, and rank " + std::to_string(numbers[i - 1] + 1) +
                                " is missing between " + std::to_string(numbers[i - 1]) + " and " +
                                std::to_string(numbers[i]) + ".",
                            std::to_string(numbers[i - 1] + 1), std::to_string(numbers[i]));
  }
  return {};
}

}  // namespace tftf
