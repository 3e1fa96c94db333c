#include "stream.h"

#include "tftf/base/escape.h"

namespace tftf::transform {

std::string Stream::described(const StreamTensor& tensor) const {
  if (tensor.added) return quote_name(tensor.name) + " of an adapter";
  return quote_name(checkpoint->info(tensor.source).name) + " of " + quote_name(file_of(tensor.source));
}

const JsonValue* Stream::config() const {
  if (rewritten == nullptr) return checkpoint->config();
  return rewritten->document.root.is_object() ? &rewritten->document.root : nullptr;
}

void Stream::rewrite_config(ConfigText config) {
  auto made = std::make_shared<Config>();
  if (rewritten != nullptr) made->changes = rewritten->changes;
  made->changes.insert(made->changes.end(), config.changes().begin(), config.changes().end());
  made->text = config.text();
  made->document = parse_json(made->text, JsonDialect::kPython);
  rewritten = std::move(made);
}

void Stream::rename(StreamTensor& tensor, std::string name) {
  if (tensor.name == name) return;
  if (lists_current && !tensor.listed_name) tensor.listed_name = std::move(tensor.name);
  tensor.name = std::move(name);
  renamed = true;
}

Stream open_stream(const Checkpoint& checkpoint, SmallValues& values, const LayoutReport& layouts,
                   const TransformRequest& request) {
  Stream stream;
  stream.checkpoint = &checkpoint;
  stream.values = &values;
  stream.layouts = &layouts;
  stream.request = &request;
  stream.tensors.reserve(checkpoint.order.size());
  for (const TensorRef ref : checkpoint.order) {
    const TensorInfo& info = checkpoint.info(ref);
    StreamTensor tensor;
    tensor.name = info.name;
    tensor.dtype = info.dtype;
    tensor.shape = info.shape;
    tensor.source = ref;
    stream.tensors.push_back(std::move(tensor));
  }
  stream.open =
      std::make_shared<OpenContext>(OpenContext{checkpoint, read_quant_config(checkpoint), &values});
  for (const TensorRef ref : checkpoint.unlisted) {
    stream.dropped.push_back({checkpoint.info(ref).name, "not in the index"});
  }
  return stream;
}

}  // namespace tftf::transform
