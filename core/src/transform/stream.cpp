#include "stream.h"

#include "tftf/base/escape.h"

namespace tftf::transform {

std::string Stream::described(const StreamTensor& tensor) const {
  if (tensor.added) return quote_name(tensor.name) + " of an adapter";
  return quote_name(checkpoint->info(tensor.source).name) + " of " + quote_name(file_of(tensor.source));
}

const JsonValue* Stream::config() const {
  if (rewritten == nullptr) return home->config();
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

namespace {

StreamTensor stored_tensor(const Checkpoint& checkpoint, TensorRef ref) {
  const TensorInfo& info = checkpoint.info(ref);
  StreamTensor tensor;
  tensor.name = info.name;
  tensor.dtype = info.dtype;
  tensor.shape = info.shape;
  tensor.source = ref;
  return tensor;
}

}  // namespace

Stream open_stream(const Checkpoint& checkpoint, SmallValues& values, const LayoutReport& layouts,
                   const TransformRequest& request) {
  Stream stream;
  stream.checkpoint = &checkpoint;
  stream.values = &values;
  stream.layouts = &layouts;
  stream.request = &request;
  stream.tensors.reserve(checkpoint.order.size());
  for (const TensorRef ref : checkpoint.order) stream.tensors.push_back(stored_tensor(checkpoint, ref));
  stream.home = &checkpoint;
  stream.open =
      std::make_shared<OpenContext>(OpenContext{checkpoint, read_quant_config(checkpoint), &values});
  for (const TensorRef ref : checkpoint.unlisted) {
    stream.dropped.push_back({checkpoint.info(ref).name, "not in the index"});
  }
  return stream;
}

Stream open_other(const Stream& stream, size_t number) {
  const Checkpoint& checkpoint = *stream.others[number].model->checkpoint;
  const uint32_t first = stream.checkpoint->first_shard(number);
  Stream other;
  other.checkpoint = stream.checkpoint;
  other.home = &checkpoint;
  other.values = stream.values;
  other.scans = stream.scans;
  other.layouts = stream.others[number].layouts;
  other.others = stream.others;
  other.request = stream.request;
  other.tensors.reserve(checkpoint.order.size());
  for (const TensorRef ref : checkpoint.order)
    other.tensors.push_back(stored_tensor(*stream.checkpoint, {ref.shard + first, ref.tensor}));
  other.open = std::make_shared<OpenContext>(
      OpenContext{*stream.checkpoint, read_quant_config(checkpoint), stream.values});
  return other;
}

void renumber(LayoutReport& report, uint32_t first_shard) {
  for (QuantFinding& finding : report.findings) {
    for (QuantMatch& match : finding.matches) {
      match.weight.shard += first_shard;
      for (QuantCompanion& companion : match.companions) companion.tensor.shard += first_shard;
    }
    for (TensorRef& extra : finding.extras) extra.shard += first_shard;
  }
}

}  // namespace tftf::transform
