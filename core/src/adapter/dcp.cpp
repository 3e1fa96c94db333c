#include "tftf/adapter/dcp.h"

#include <algorithm>
#include <unordered_map>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kMetadataName = ".metadata";

Error refused(std::string_view file, std::string_view tensor, std::string why) {
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.file = file;
  error.tensor = tensor;
  error.message = escape_text(file) + ": " + std::move(why) + ".";
  return error;
}

// A slice is an archive of torch.save, or (newest writers) a safetensors file with one tensor.
Result<TensorData> read_slice(Bytes bytes, uint64_t max_elements) {
  if (bytes.size() >= 4 && load_le<uint32_t>(bytes.data()) == 0x04034b50)
    return read_torch_tensor(bytes, max_elements);
  HeaderReader reader("the slice", bytes.size());
  while (auto range = reader.want())
    reader.supply(bytes.subspan(to_size(range->offset), to_size(range->length)));
  const HeaderScan scan = reader.take();
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.message =
      "a saved tensor cannot be read: it is neither an archive of torch.save nor one safetensors tensor.";
  if (!scan.sound || scan.header.tensors.size() != 1) return error;
  const TensorInfo& info = scan.header.tensors[0];
  const Bytes data = bytes.subspan(to_size(scan.header.data_offset() + info.begin), to_size(info.bytes()));
  return TensorData{info.dtype, info.shape, {data.begin(), data.end()}};
}

// Copies a chunk's rows into the tensor and marks each element; false when one was there already.
bool place(const DcpChunk& chunk, const DcpTensor& tensor, const TensorData& part, TensorData& whole,
           std::vector<bool>& seen) {
  const uint64_t size = dtype_bits(tensor.dtype) / 8;
  const size_t rank = tensor.shape.size();
  const uint64_t run = rank == 0 ? 1 : chunk.sizes[rank - 1];
  std::vector<uint64_t> index(rank);
  for (uint64_t from = 0; from * size < part.bytes.size(); from += run) {
    uint64_t to = 0;
    for (size_t d = 0; d < rank; ++d) to = to * tensor.shape[d] + chunk.offsets[d] + index[d];
    for (uint64_t i = 0; i < run; ++i) {
      if (seen[to_size(to + i)]) return false;
      seen[to_size(to + i)] = true;
    }
    std::memcpy(whole.bytes.data() + to * size, part.bytes.data() + from * size, to_size(run * size));
    for (size_t d = rank > 0 ? rank - 1 : 0; d-- > 0;) {
      if (++index[d] < chunk.sizes[d]) break;
      index[d] = 0;
    }
  }
  return true;
}

}  // namespace

struct DcpReader::State {
  struct Piece {
    size_t tensor;
    size_t chunk;
  };

  std::unordered_map<std::string, uint64_t> sizes;
  std::optional<uint64_t> metadata_size;
  bool metadata_asked = false;
  std::vector<DcpTensor> tensors;
  std::vector<TensorData> data;
  std::vector<std::vector<bool>> seen;
  std::vector<Piece> pieces;
  size_t next = 0;  // first piece that was not asked for
  std::optional<Error> error;

  void fail(Error problem) {
    if (!error) error = std::move(problem);
  }
  void read_metadata(Bytes bytes);
  void read_piece(const Piece& piece, Bytes bytes);
};

void DcpReader::State::read_metadata(Bytes bytes) {
  auto read = read_dcp_metadata(bytes);
  if (!read) return fail(read.error());
  tensors = std::move(*read);
  if (tensors.empty()) {
    Error none =
        refused(kMetadataName, "", "the checkpoint holds no adapter tensors (names with lora_A, lora_B …)");
    none.code = ErrorCode::kRefusedMissing;
    return fail(std::move(none));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.adapter_name < b.adapter_name; });
  for (size_t t = 0; t < tensors.size(); ++t) {
    const DcpTensor& tensor = tensors[t];
    const std::string shown = quote_name(tensor.name);
    if (t > 0 && tensors[t - 1].adapter_name == tensor.adapter_name)
      return fail(refused(kMetadataName, tensor.name,
                          "two entries are the adapter tensor " + quote_name(tensor.adapter_name)));
    for (size_t c = 0; c < tensor.chunks.size(); ++c) {
      const DcpChunk& chunk = tensor.chunks[c];
      const auto file = sizes.find(chunk.file);
      if (file == sizes.end())
        return fail(refused(chunk.file, tensor.name, "the data file of " + shown + " is not in the folder"));
      const auto end = checked_add(chunk.offset, chunk.length);
      if (!end || *end > file->second)
        return fail(refused(chunk.file, tensor.name,
                            "the file has " + std::to_string(file->second) + " bytes; a chunk of " + shown +
                                " ends at " + std::to_string(chunk.offset) + " + " +
                                std::to_string(chunk.length)));
      // A chunk's values lie in its slice, which lies in the file: so no description can ask for more memory
      // than is stored.
      const auto elements = element_count(chunk.sizes);
      const auto needed = elements ? byte_count(*elements, tensor.dtype) : std::nullopt;
      if (!needed || *needed > chunk.length)
        return fail(
            refused(chunk.file, tensor.name, "a chunk of " + shown + " is larger than its stored slice"));
      pieces.push_back({t, c});
    }
    const uint64_t elements = element_count(tensor.shape).value_or(0);
    data.push_back({tensor.dtype, tensor.shape,
                    std::vector<std::byte>(to_size(byte_count(elements, tensor.dtype).value_or(0)))});
    seen.emplace_back(elements);
  }
}

void DcpReader::State::read_piece(const Piece& piece, Bytes bytes) {
  const DcpTensor& tensor = tensors[piece.tensor];
  const DcpChunk& chunk = tensor.chunks[piece.chunk];
  const std::string shown = quote_name(tensor.name);
  auto part = read_slice(bytes, element_count(chunk.sizes).value_or(0));
  if (!part) {
    Error problem = part.error();
    problem.file = chunk.file;
    problem.tensor = tensor.name;
    problem.message = escape_text(chunk.file) + ": " + shown + ": " + problem.message;
    return fail(std::move(problem));
  }
  if (part->dtype != tensor.dtype || part->shape != chunk.sizes)
    return fail(refused(chunk.file, tensor.name,
                        shown + " is stored as " + std::string(dtype_name(part->dtype)) + " " +
                            shape_text(part->shape) + ", its chunk says " +
                            std::string(dtype_name(tensor.dtype)) + " " + shape_text(chunk.sizes)));
  if (!place(chunk, tensor, *part, data[piece.tensor], seen[piece.tensor]))
    fail(refused(chunk.file, tensor.name, "the chunks of " + shown + " overlap"));
}

DcpReader::DcpReader(std::vector<FileEntry> files) : state_(std::make_unique<State>()) {
  for (const FileEntry& file : files) {
    if (!file.regular) continue;
    if (file.name == kMetadataName) state_->metadata_size = file.size;
    state_->sizes[file.name] = file.size;
  }
  if (!state_->metadata_size) {
    Error none =
        refused(kMetadataName, "", "the folder has no .metadata, so it is no distributed checkpoint");
    none.code = ErrorCode::kRefusedMissing;
    state_->fail(std::move(none));
  } else if (*state_->metadata_size > kMaxDcpMetadata) {
    state_->fail(
        refused(kMetadataName, "",
                "it has " + std::to_string(*state_->metadata_size) + " bytes, the limit is 268435456"));
  }
}
DcpReader::~DcpReader() = default;
DcpReader::DcpReader(DcpReader&&) noexcept = default;
DcpReader& DcpReader::operator=(DcpReader&&) noexcept = default;

std::vector<ReadRequest> DcpReader::want() {
  State& state = *state_;
  if (state.error) return {};
  if (!state.metadata_asked) {
    state.metadata_asked = true;
    return {{std::string(kMetadataName), {0, *state.metadata_size}}};
  }
  // One slice at a time keeps no more than one undecoded.
  if (state.next == state.pieces.size()) return {};
  const State::Piece& piece = state.pieces[state.next++];
  const DcpChunk& chunk = state.tensors[piece.tensor].chunks[piece.chunk];
  return {{chunk.file, {chunk.offset, chunk.length}}};
}

void DcpReader::supply(const ReadRequest& request, Bytes bytes) {
  State& state = *state_;
  if (state.error) return;
  if (request.file == kMetadataName) return state.read_metadata(bytes);
  state.read_piece(state.pieces[state.next - 1], bytes);
}

void DcpReader::fail(const ReadRequest& request, std::string reason) {
  Error error = refused(request.file, "", "cannot be read: " + std::move(reason));
  error.code = ErrorCode::kIoRead;
  state_->fail(std::move(error));
}

Result<std::vector<NamedTensor>> DcpReader::take() {
  State& state = *state_;
  if (state.error) return *std::move(state.error);
  std::vector<NamedTensor> tensors;
  for (size_t t = 0; t < state.tensors.size(); ++t)
    tensors.push_back({std::move(state.tensors[t].adapter_name), std::move(state.data[t])});
  return tensors;
}

}  // namespace tftf
