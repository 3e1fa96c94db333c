// Replaces tensors of a stream, and moves their names.
#include <unordered_map>

#include "layout_change.h"
#include "tftf/base/escape.h"

namespace tftf::transform {

Result<GatherSource> StreamRebuild::source(size_t tensor) {
  const StreamTensor& from = stream_.tensors[tensor];
  if (from.is_copy() && !from.added && from.provided == nullptr) return GatherSource{from.source, nullptr};
  if (!from.is_single() || dtype_bits(from.dtype) < 8) {
    return Error{
        .code = ErrorCode::kRefusedUnsupported,
        .message = "Tensor " + stream_.described(from) +
                   " has been given another layout of codes in this run; experts are fused and split "
                   "before that.",
        .file = stream_.file_of(from.source),
        .tensor = from.name};
  }
  std::shared_ptr<const StreamTensor>& way = ways_[tensor];
  if (way == nullptr) way = std::make_shared<const StreamTensor>(from);
  return GatherSource{from.source, way};
}

void StreamRebuild::put(size_t at, StreamTensor made) {
  size_t& list = gone_[at];
  if (list == 0) {
    made_.emplace_back();
    list = made_.size();
  }
  made_[list - 1].push_back(std::move(made));
}

void StreamRebuild::apply() {
  if (gone_.empty()) return;
  std::vector<StreamTensor> kept;
  kept.reserve(stream_.tensors.size());
  for (size_t i = 0; i < stream_.tensors.size(); ++i) {
    const auto gone = gone_.find(i);
    if (gone == gone_.end()) {
      kept.push_back(std::move(stream_.tensors[i]));
    } else if (gone->second != 0) {
      for (StreamTensor& tensor : made_[gone->second - 1]) kept.push_back(std::move(tensor));
    }
  }
  stream_.tensors = std::move(kept);
  stream_.relaid = true;
}

Result<void> check_unique_names(const Stream& stream) {
  std::unordered_map<std::string_view, const StreamTensor*> names;
  names.reserve(stream.tensors.size());
  for (const StreamTensor& tensor : stream.tensors) {
    const auto [other, fresh] = names.emplace(tensor.name, &tensor);
    if (fresh) continue;
    return Error{.code = ErrorCode::kRefusedCollision,
                 .message = "Two tensors would get the name " + quote_name(tensor.name) + ": " +
                            stream.described(*other->second) + " and " + stream.described(tensor) + ".",
                 .file = stream.file_of(tensor.source),
                 .tensor = stream.checkpoint->info(tensor.source).name,
                 .found = tensor.name};
  }
  return {};
}

Result<void> convert_names(Stream& stream, const LayoutNames& names, NameLayout to, bool allow_unmapped,
                           LayoutCounts& counts) {
  const std::string layout(name_layout_text(to));
  for (StreamTensor& tensor : stream.tensors) {
    LayoutNames::Answer answer = names.convert(tensor.name, to);
    if (!answer.known) {
      if (!allow_unmapped) {
        return Error{.code = ErrorCode::kRefusedMissing,
                     .message = "Tensor " + stream.described(tensor) +
                                " has a name that the model type does not know in either layout; "
                                "--allow-unmapped copies such tensors.",
                     .file = stream.file_of(tensor.source),
                     .tensor = tensor.name};
      }
      ++counts.unmapped;
      continue;
    }
    if (!answer.moved) {
      ++counts.kept;
      continue;
    }
    if (!answer.one_way) {
      const auto back = names.convert(answer.name, other_layout(to));
      const auto same = names.convert(tensor.name, other_layout(to));
      if (back.name != same.name) {
        return Error{.code = ErrorCode::kRefusedCollision,
                     .message = "Tensor " + stream.described(tensor) + " would become " +
                                quote_name(answer.name) + " in " + layout + " and come back as " +
                                quote_name(back.name) + ", not as " + quote_name(same.name) + ".",
                     .file = stream.file_of(tensor.source),
                     .tensor = tensor.name,
                     .found = back.name};
      }
    }
    ++counts.moved;
    tensor.name = std::move(answer.name);
    stream.relaid = true;
  }
  return counts.moved > 0 ? check_unique_names(stream) : Result<void>();
}

}  // namespace tftf::transform
