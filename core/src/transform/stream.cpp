#include "stream.h"

#include "tftf/base/escape.h"

namespace tftf::transform {

std::string Stream::described(const StreamTensor& tensor) const {
  if (tensor.added) return quote_name(tensor.name) + " of an adapter";
  return quote_name(checkpoint->info(tensor.source).name) + " of " + quote_name(file_of(tensor.source));
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
