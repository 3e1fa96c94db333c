// Keeps the tensors whose names match.
#include <algorithm>
#include <unordered_set>

#include "pipe.h"
#include "tftf/base/escape.h"
#include "tftf/base/glob.h"
#include "tftf/base/size_text.h"

namespace tftf::transform {
namespace {

class Filter final : public Pipe {
 public:
  Filter(std::vector<Glob> include, std::vector<Glob> exclude)
      : include_(std::move(include)), exclude_(std::move(exclude)) {}

  std::string text() const override {
    std::string text = "filter";
    for (const Glob& glob : include_) text += " include=" + json_ascii_string(glob.pattern());
    for (const Glob& glob : exclude_) text += " exclude=" + json_ascii_string(glob.pattern());
    return text;
  }

  Result<void> apply(Stream& stream) const override {
    std::vector<StreamTensor> kept;
    for (StreamTensor& tensor : stream.tensors) {
      if (glob_selects(include_, exclude_, tensor.name)) {
        kept.push_back(std::move(tensor));
      } else {
        stream.dropped.push_back({stream.checkpoint->info(tensor.source).name, "filter"});
      }
    }
    warn_of_parted(stream, kept);
    if (kept.empty() && !stream.tensors.empty()) stream.warnings.push_back("The filter keeps no tensor.");
    stream.tensors = std::move(kept);
    return {};
  }

 private:
  // Codes without their scales are of no use to anybody who loads the result.
  static void warn_of_parted(Stream& stream, const std::vector<StreamTensor>& kept) {
    std::unordered_set<uint64_t> there;
    const auto key = [](TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; };
    for (const StreamTensor& tensor : kept)
      if (!tensor.added && tensor.stages.empty()) there.insert(key(tensor.source));
    for (const QuantFinding& finding : stream.layouts->findings) {
      uint64_t parted = 0;
      std::string first;
      for (const QuantMatch& match : finding.matches) {
        const bool weight = there.count(key(match.weight)) > 0;
        const auto lost = std::find_if(
            match.companions.begin(), match.companions.end(),
            [&](const QuantCompanion& one) { return (there.count(key(one.tensor)) > 0) != weight; });
        if (lost == match.companions.end()) continue;
        if (parted++ == 0) first = quote_name(match.module) + " (" + std::string(lost->role) + ")";
      }
      if (parted == 0) continue;
      stream.warnings.push_back("The filter parts the codes of " + grouped_digits(parted) +
                                (parted == 1 ? " module" : " modules") + " of layout " +
                                std::string(finding.layout) + " from their scales or zero points: " + first +
                                (parted == 1 ? "." : " is the first."));
    }
  }

  std::vector<Glob> include_, exclude_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_filter(const Operation& operation) {
  std::vector<Glob> include, exclude;
  for (const Operation::Given& given : operation.options) {
    (given.name == "include" ? include : exclude).emplace_back(given.values[0]);
  }
  return std::unique_ptr<Pipe>(std::make_unique<Filter>(std::move(include), std::move(exclude)));
}

}  // namespace tftf::transform
