#include <algorithm>
#include <map>
#include <unordered_map>

#include "tftf/adapter/dcp.h"
#include "tftf/adapter/names.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";

const std::vector<PickleGlobal>& metadata_globals() {
  static const std::vector<PickleGlobal> kAllowed = [] {
    using enum PickleCall;
    std::vector<PickleGlobal> list = {
        {kMetadata, "Metadata"},
        {kMetadata, "TensorStorageMetadata"},
        {kMetadata, "BytesStorageMetadata"},
        {kMetadata, "ChunkStorageMetadata"},
        {kMetadata, "TensorProperties"},
        {kMetadata, "MetadataIndex"},
        {kMetadata, "StorageMeta"},
        {kMetadata, "_MEM_FORMAT_ENCODING", kFirstArgument},
        {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"},
        {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", kFirstArgument},
        {"torch.distributed.checkpoint.filesystem", "_StorageInfo"},
        {"torch", "Size", kFirstArgument},
        {"torch", "strided"},
        {"torch.serialization", "_get_layout"},
        {"pathlib", "PosixPath"},
        {"pathlib", "PurePosixPath"},
        {"pathlib", "WindowsPath"},
        {"pathlib._local", "PosixPath"},
        {"pathlib._local", "PurePosixPath"},
        {"pathlib._local", "WindowsPath"},
        {"collections", "OrderedDict", kEmptyDict},
        {"builtins", "set"},
        {"builtins", "frozenset"},
        {"builtins", "object"},
        {"__builtin__", "set"},
        {"__builtin__", "frozenset"},
        {"__builtin__", "object"},
        {"copyreg", "_reconstructor", kReconstruct},
        {"copy_reg", "_reconstructor", kReconstruct}};
    for (const PickleGlobal& dtype : torch_dtype_globals()) list.push_back(dtype);
    return list;
  }();
  return kAllowed;
}

Error metadata_refused(std::string why) {
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.file = ".metadata";
  error.message = ".metadata: " + std::move(why) + ".";
  return error;
}

struct StorageInfo {
  std::string_view file;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool transformed = false;
};

// (flat name, chunk offsets) → slice. An entry without offset stands for all-zero offsets.
using StorageMap = std::map<std::pair<std::string_view, std::vector<uint64_t>>, StorageInfo>;

bool is_class(const Pickle& pickle, PickleId id, std::string_view name) {
  return pickle[id].kind == PickleNode::Kind::kObject && pickle[pickle[id].callee].text == name;
}

Result<StorageMap> read_storage(const Pickle& pickle, PickleId storage_data) {
  StorageMap map;
  const auto entries = pickle.items(storage_data);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    if (!is_class(pickle, entries[i], "MetadataIndex") || !is_class(pickle, entries[i + 1], "_StorageInfo"))
      return metadata_refused("storage_data holds something that is no storage entry");
    const auto name_id = pickle.attribute(entries[i], "fqn");
    const auto offset_id = pickle.attribute(entries[i], "offset");
    const auto name = name_id ? pickle.text(*name_id) : std::nullopt;
    if (!name) return metadata_refused("a storage entry has no name");
    std::vector<uint64_t> offsets;
    if (offset_id && pickle[*offset_id].kind != PickleNode::Kind::kNone) {
      auto sizes = pickle.sizes(*offset_id);
      if (!sizes)
        return metadata_refused("the storage entry of " + quote_name(*name) +
                                " has negative or malformed offsets");
      if (std::any_of(sizes->begin(), sizes->end(), [](uint64_t o) { return o != 0; }))
        offsets = std::move(*sizes);
    }
    StorageInfo info;
    const auto file = pickle.attribute(entries[i + 1], "relative_path");
    const auto offset = pickle.attribute(entries[i + 1], "offset");
    const auto length = pickle.attribute(entries[i + 1], "length");
    const auto text = file ? pickle.text(*file) : std::nullopt;
    const auto begin = offset ? pickle.size(*offset) : std::nullopt;
    const auto bytes = length ? pickle.size(*length) : std::nullopt;
    if (!text || !begin || !bytes)
      return metadata_refused("the storage entry of " + quote_name(*name) + " is incomplete");
    if (text->empty() || text->find_first_of("/\\") != std::string_view::npos || *text == ".." ||
        *text == "." || text->find('\0') != std::string_view::npos)
      return metadata_refused("the data file " + quote_name(*text) + " is not a plain file name");
    info.file = *text;
    info.offset = *begin;
    info.length = *bytes;
    if (auto transforms = pickle.attribute(entries[i + 1], "transform_descriptors"))
      info.transformed = !pickle.items(*transforms).empty();
    map[{*name, std::move(offsets)}] = info;
  }
  return map;
}

Result<DType> read_properties(const Pickle& pickle, PickleId tensor, std::string_view name) {
  const auto properties = pickle.attribute(tensor, "properties");
  std::optional<PickleId> dtype;
  if (properties && pickle[*properties].kind == PickleNode::Kind::kObject) {
    const PickleId state = pickle[*properties].state;
    if (pickle[state].kind == PickleNode::Kind::kTuple && !pickle.items(state).empty())
      dtype = pickle.items(state)[0];
    else
      dtype = pickle.find(state, "dtype");
  }
  if (dtype && pickle[*dtype].kind == PickleNode::Kind::kGlobal && pickle[*dtype].module == "torch")
    if (const auto known = torch_dtype(pickle[*dtype].text)) return *known;
  return metadata_refused("the dtype of " + quote_name(name) + " is not known");
}

// A box must lie inside the tensor; its volume is returned.
std::optional<uint64_t> chunk_volume(const DcpChunk& chunk, const Shape& shape) {
  if (chunk.offsets.size() != shape.size() || chunk.sizes.size() != shape.size()) return std::nullopt;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto end = checked_add(chunk.offsets[d], chunk.sizes[d]);
    if (!end || *end > shape[d]) return std::nullopt;
  }
  return element_count(chunk.sizes);
}

Result<DcpTensor> read_tensor(const Pickle& pickle, PickleId id, std::string_view name,
                              const StorageMap& storage) {
  const std::string shown = quote_name(name);
  DcpTensor tensor;
  tensor.name = name;
  auto dtype = read_properties(pickle, id, name);
  if (!dtype) return dtype.error();
  tensor.dtype = *dtype;
  const auto size = pickle.attribute(id, "size");
  const auto shape = size ? pickle.sizes(*size) : std::nullopt;
  const auto volume = shape ? element_count(*shape) : std::nullopt;
  if (!volume || !byte_count(*volume, tensor.dtype))
    return metadata_refused("the size of " + shown + " is malformed or too large");
  tensor.shape = *shape;
  const auto chunks = pickle.attribute(id, "chunks");
  if (!chunks) return metadata_refused(shown + " has no chunks");
  uint64_t covered = 0;
  for (PickleId chunk_id : pickle.items(*chunks)) {
    DcpChunk chunk;
    const auto offsets = pickle.attribute(chunk_id, "offsets");
    const auto sizes = pickle.attribute(chunk_id, "sizes");
    const auto begin = offsets ? pickle.sizes(*offsets) : std::nullopt;
    const auto extent = sizes ? pickle.sizes(*sizes) : std::nullopt;
    if (!begin || !extent) return metadata_refused("a chunk of " + shown + " is malformed or negative");
    chunk.offsets = *begin;
    chunk.sizes = *extent;
    const auto part = chunk_volume(chunk, tensor.shape);
    if (!part)
      return metadata_refused("a chunk of " + shown + " leaves the tensor's shape " +
                              shape_text(tensor.shape));
    const auto sum = checked_add(covered, *part);
    if (!sum || *sum > *volume) return metadata_refused("the chunks of " + shown + " overlap");
    covered = *sum;
    if (*part == 0) continue;
    const bool first = std::all_of(begin->begin(), begin->end(), [](uint64_t o) { return o == 0; });
    const auto found = storage.find({name, first ? std::vector<uint64_t>{} : *begin});
    if (found == storage.end()) return metadata_refused("a chunk of " + shown + " is stored nowhere");
    if (found->second.transformed) return metadata_refused(shown + " is stored compressed or transformed");
    chunk.file = found->second.file;
    chunk.offset = found->second.offset;
    chunk.length = found->second.length;
    tensor.chunks.push_back(std::move(chunk));
  }
  if (covered != *volume)
    return metadata_refused("the chunks of " + shown + " hold " + std::to_string(covered) + " of " +
                            std::to_string(*volume) + " elements");
  return tensor;
}

// The last component of each entry's path, by flat name; a flat name without a path is its own.
std::unordered_map<std::string_view, std::string_view> last_components(const Pickle& pickle,
                                                                       std::optional<PickleId> planner) {
  std::unordered_map<std::string_view, std::string_view> last;
  if (!planner || pickle[*planner].kind != PickleNode::Kind::kDict) return last;
  const auto entries = pickle.items(*planner);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    const auto name = pickle.text(entries[i]);
    const auto path = pickle.items(entries[i + 1]);
    const auto component = path.empty() ? std::nullopt : pickle.text(path.back());
    if (name && component) last[*name] = *component;
  }
  return last;
}

}  // namespace

Result<std::vector<DcpTensor>> read_dcp_metadata(Bytes bytes) {
  auto pickle = read_pickle(bytes, metadata_globals());
  if (!pickle) {
    Error error = pickle.error();
    error.file = ".metadata";
    error.message = ".metadata: " + error.message;
    return error;
  }
  const PickleId root = pickle->root();
  if (!is_class(*pickle, root, "Metadata"))
    return metadata_refused("it does not hold a checkpoint's Metadata");
  const auto states = pickle->attribute(root, "state_dict_metadata");
  const auto storage_data = pickle->attribute(root, "storage_data");
  if (!states || (*pickle)[*states].kind != PickleNode::Kind::kDict)
    return metadata_refused("state_dict_metadata is missing");
  if (!storage_data || (*pickle)[*storage_data].kind != PickleNode::Kind::kDict)
    return metadata_refused("storage_data is missing");
  auto storage = read_storage(*pickle, *storage_data);
  if (!storage) return storage.error();
  const auto last = last_components(*pickle, pickle->attribute(root, "planner_data"));
  std::vector<DcpTensor> tensors;
  const auto entries = pickle->items(*states);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    const auto name = pickle->text(entries[i]);
    if (!name) return metadata_refused("an entry has no name");
    const auto known = last.find(*name);
    const std::string_view key = known == last.end() ? *name : known->second;
    if (!is_class(*pickle, entries[i + 1], "TensorStorageMetadata") || !has_adapter_marker(key)) continue;
    auto tensor = read_tensor(*pickle, entries[i + 1], *name, *storage);
    if (!tensor) return tensor.error();
    tensor->adapter_name = unwrapped_name(key);
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

}  // namespace tftf
