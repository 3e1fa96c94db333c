#include "pipe.h"
#include "tftf/base/glob.h"

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
    if (kept.empty() && !stream.tensors.empty()) stream.warnings.push_back("The filter keeps no tensor.");
    stream.tensors = std::move(kept);
    return {};
  }

 private:
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
