// The base of an adapter, and the ways to its names.
#include <algorithm>
#include <set>

#include "adapter/fit_modules.h"
#include "adapter/merge_names.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::fitting {
namespace {

std::string owner_of(std::string_view name) {
  return std::string(name.substr(0, std::min(name.rfind('.'), name.size())));
}

// Elements as they are, so that shapes are those of the matrices.
bool tells_shape(const TensorInfo& tensor) {
  return is_floating(tensor.dtype) && dtype_bits(tensor.dtype) >= 8;
}

void set_sizes(const ExpertKind& kind, NameLayout under, const Shape& up, const Shape& down,
               BaseExperts& to) {
  if (up.size() != 3 || down.size() != 3 || up[0] != down[0]) return;
  const auto twice = [](uint64_t whole, uint64_t half) { return whole % 2 == 0 && whole / 2 == half; };
  if (!kind.gated()) {
    const bool out_in = kind.axes[under] == ExpertAxes::kOutIn;
    to.inner = up[out_in ? 1 : 2];
    to.outer = up[out_in ? 2 : 1];
  } else if (down[1] == up[2] && twice(up[1], down[2])) {
    to.inner = down[2];
    to.outer = up[2];
  } else if (down[2] == up[1] && twice(up[2], down[1])) {
    to.inner = down[1];
    to.outer = up[1];
  }
}

// One way of moving names, in words.
struct NameWay {
  std::string text{};  // empty: names stay
  std::vector<std::string> paths{};
  std::vector<std::string> left{};  // modules that it does not put on the base
};

std::string replaced_begin(const std::string& path, std::string_view from, std::string_view to) {
  const std::string dotted = path + ".";
  if (from.empty() || !starts_with(dotted, from)) return path;
  std::string moved = std::string(to) + dotted.substr(from.size());
  if (!moved.empty() && moved.back() == '.') moved.pop_back();
  return moved;
}

// Between a text model alone and one inside of a wrapper.
std::string moved_part(const std::string& path, std::string_view body, std::string_view head, bool into) {
  constexpr std::string_view kBody = "model.", kHead = "lm_head.";
  std::string moved = into ? replaced_begin(path, kBody, body) : replaced_begin(path, body, kBody);
  if (moved == path) moved = into ? replaced_begin(path, kHead, head) : replaced_begin(path, head, kHead);
  return moved;
}

class WayFinder {
 public:
  WayFinder(const Input& input, const FitBase& base) : input_(input), base_(base) {}

  std::vector<NameWay> find() {
    try_way("", [](const std::string& path) { return path; });
    if (base_.names() != nullptr && base_.names()->has_rules()) {
      for (const NameLayout to : {NameLayout::kTransformers4, NameLayout::kTransformers5}) {
        try_way("to the names of " + std::string(name_layout_text(to)), [&](const std::string& path) {
          std::string moved = base_.names()->convert(path + ".", to).name;
          if (!moved.empty() && moved.back() == '.') moved.pop_back();
          return moved;
        });
      }
    }
    std::set<std::pair<std::string_view, std::string_view>> parts;  // each body with its head once
    for (const ModelType& type : model_types()) {
      if (type.text == nullptr) continue;
      for (const NameLayout layout : {NameLayout::kTransformers4, NameLayout::kTransformers5})
        parts.emplace(type.text->body[layout], type.text->head[layout]);
    }
    for (const bool into : {true, false})
      for (const auto& part : parts) {
        const std::string_view body = part.first, head = part.second;
        try_way((into ? "from a text model into the wrapper's " : "from a wrapper's text model out of ") +
                    quote_name(body),
                [&](const std::string& path) { return moved_part(path, body, head, into); });
      }
    return std::move(ways_);
  }

 private:
  template <class Move>
  void try_way(std::string text, const Move& move) {
    NameWay way{.text = std::move(text)};
    for (const Unit& unit : input_.units) {
      way.paths.push_back(move(unit.path));
      if (!base_.has(unit, way.paths.back())) way.left.push_back(way.paths.back());
    }
    const bool known = std::any_of(ways_.begin(), ways_.end(),
                                   [&](const NameWay& other) { return other.paths == way.paths; });
    if (!known) ways_.push_back(std::move(way));
  }

  const Input& input_;
  const FitBase& base_;
  std::vector<NameWay> ways_;
};

}  // namespace

FitBase::FitBase(const Checkpoint& base, std::optional<ModelEntry> entry)
    : entry_(std::move(entry)), given_(base.listing.given) {
  if (entry_) names_.emplace(*entry_);
  for (const TensorRef ref : base.order) add(base.info(ref));
  for (const auto& [experts, shapes] : fused_shapes_) {
    auto& sized = *containers_.at(experts->fused_path);
    if (sized.inner == 0)
      set_sizes(
          *sized.kind,
          sized.kind->path.in4 != sized.kind->path.in5 && ends_with(sized.fused_path, sized.kind->path.in5)
              ? NameLayout::kTransformers5
              : NameLayout::kTransformers4,
          shapes.first, shapes.second, sized);
  }
}

void FitBase::add(const TensorInfo& tensor) {
  modules_.insert(owner_of(tensor.name));
  if (!entry_) return;
  const auto name = parse_expert_name(entry_->experts(), tensor.name);
  if (!name || (name->what != ExpertName::What::kSplit && name->what != ExpertName::What::kFused)) return;
  const std::string prefix(name->prefix);
  const std::string fused = prefix + std::string(name->kind->path[name->under]);
  std::shared_ptr<BaseExperts>& at = containers_[fused];
  if (at == nullptr) {
    at = std::make_shared<BaseExperts>();
    at->kind = name->kind;
    at->fused_path = fused;
    at->split_path = prefix + std::string(name->kind->split_at(name->under));
    containers_[at->split_path] = at;
  }
  size_up(*name, tensor, *at);
}

void FitBase::size_up(const ExpertName& name, const TensorInfo& tensor, BaseExperts& experts) {
  if (name.what == ExpertName::What::kFused) {
    experts.fused = true;
    if (!name.rest.empty() || tensor.shape.size() != 3 || !tells_shape(tensor)) return;
    experts.experts = tensor.shape[0];
    auto& [up, down] = fused_shapes_[&experts];
    (name.part == ExpertName::Part::kDown ? down : up) = tensor.shape;
    return;
  }
  experts.split = true;
  if (const auto number = json_unsigned(name.number); number && *number < UINT32_MAX)
    experts.experts = std::max(experts.experts, *number + 1);
  if (name.part != ExpertName::Part::kUp || name.rest != "weight" || tensor.shape.size() != 2 ||
      !tells_shape(tensor))
    return;
  experts.inner = tensor.shape[0];
  experts.outer = tensor.shape[1];
}

const BaseExperts* FitBase::container(std::string_view path) const {
  const auto found = containers_.find(std::string(path));
  return found == containers_.end() ? nullptr : found->second.get();
}

bool FitBase::has(const Unit& unit, std::string_view path) const {
  if (container(path) != nullptr) return unit.flat;
  if (!unit.flat && modules_.count(std::string(path)) > 0) return true;
  if (unit.flat || !entry_) return unit.flat && modules_.count(std::string(path)) > 0;
  const std::string weight = std::string(path) + ".weight";
  const auto name = parse_expert_name(entry_->experts(), weight);
  if (!name || name->what != ExpertName::What::kSplit) return false;
  const BaseExperts* experts =
      container(std::string(name->prefix) + std::string(name->kind->path[name->under]));
  const auto number = json_unsigned(name->number);
  return experts != nullptr && number && (experts->experts == 0 || *number < experts->experts);
}

Result<std::string> move_names(Input& input, const FitBase& base) {
  const std::vector<NameWay> ways = WayFinder(input, base).find();
  std::vector<const NameWay*> whole;
  const NameWay* best = &ways.front();
  for (const NameWay& way : ways) {
    if (way.left.empty()) whole.push_back(&way);
    if (way.left.size() < best->left.size()) best = &way;
  }
  const auto said = [](const NameWay& way) {
    return way.text.empty() ? std::string("as they are") : way.text;
  };
  if (whole.size() > 1) {
    std::string texts;
    for (const NameWay* way : whole) texts += (texts.empty() ? "" : "; ") + said(*way);
    return fit_error(input, ErrorCode::kRefusedAmbiguous,
                     "The adapter's modules are in " + quote_name(base.given()) + " in several ways (" +
                         texts + "); which is meant cannot be told.");
  }
  if (whole.empty()) {
    return fit_error(
        input, ErrorCode::kRefusedUnmatched,
        "No way of moving the adapter's names puts all of its " + grouped_digits(input.units.size()) +
            " modules on " + quote_name(base.given()) + ". The best one, " + said(*best) + ", leaves " +
            merging::counted(best->left.size(), "module") + ": " + merging::listed(best->left) + ".",
        best->left.front());
  }
  for (size_t i = 0; i < input.units.size(); ++i) input.units[i].path = whole.front()->paths[i];
  return whole.front()->text;
}

}  // namespace tftf::fitting
