#include "stream.h"

#include "tftf/base/escape.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf::transform {

std::string Stream::described(const StreamTensor& tensor) const {
  if (tensor.added) return quote_name(tensor.name) + " of an adapter";
  return quote_name(checkpoint->info(tensor.source).name) + " of " + quote_name(file_of(tensor.source));
}

Stream open_stream(const Checkpoint& checkpoint, SmallValues& values, const LayoutReport& layouts) {
  Stream stream;
  stream.checkpoint = &checkpoint;
  stream.values = &values;
  stream.layouts = &layouts;
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
  for (uint32_t s = 0; s < checkpoint.shards.size(); ++s) {
    for (const auto& [key, text] : checkpoint.shards[s].header.metadata) {
      if (key != colibri::kRansTableKey) continue;
      colibri::RansTableReading reading = colibri::read_rans_table(text);
      if (reading.table)
        stream.rans_tables[s] = std::make_shared<const colibri::RansTable>(*std::move(reading.table));
    }
  }
  for (const TensorRef ref : checkpoint.unlisted) {
    stream.dropped.push_back({checkpoint.info(ref).name, "not in the index"});
  }
  return stream;
}

}  // namespace tftf::transform
