// Quantised layouts: a model of one file and its config.json, in the form of packed_folder.h. Every module that opens is
// decoded, forwards and backwards, by the fastest kernels and by the scalar ones, with the same result.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "input.h"
#include "packed_folder.h"
#include "tftf/inspect/info.h"
#include "tftf/inspect/statistics.h"

namespace {

using tftf::fuzz::require;

using namespace tftf;

constexpr uint64_t kMostElements = uint64_t{1} << 20;  // that are decoded: a small file may stand for many

struct Model {
  Checkpoint checkpoint;
  std::string_view file;
};

// Whether the file is sound, as plans want it.
bool read_model(const std::vector<fuzz::PackedFile>& files, Model& model) {
  for (const fuzz::PackedFile& packed : files) {
    if (packed.path == "config.json") {
      SideFile& file = model.checkpoint.side_files.emplace_back();
      file.name = packed.path;
      file.text = packed.content;
      file.document = parse_json(file.text, JsonDialect::kPython);
    }
    if (packed.path == "model.safetensors") model.file = packed.content;
  }
  HeaderReader reader("model.safetensors", model.file.size());
  while (const auto wanted = reader.want())
    reader.supply(as_bytes(model.file.substr(wanted->offset, wanted->length)));
  HeaderScan scan = reader.take();
  if (!scan.sound) return false;
  Shard& shard = model.checkpoint.shards.emplace_back();
  shard.name = "model.safetensors";
  shard.size = model.file.size();
  shard.readable = true;
  shard.header = std::move(scan.header);
  for (uint32_t i = 0; i < shard.header.tensors.size(); ++i) {
    model.checkpoint.order.push_back({0, i});
    model.checkpoint.by_name.emplace(shard.header.tensors[i].name, TensorRef{0, i});
  }
  return true;
}

std::string bytes_of(const Model& model, const ShardRange& range) {
  std::string out;
  for (uint32_t row = 0; row < range.rows; ++row) {
    const uint64_t at = range.offset + row * range.stride;
    require(at <= model.file.size() && range.row_bytes <= model.file.size() - at);
    out += model.file.substr(at, range.row_bytes);
  }
  return out;
}

// Elements of all modules; nothing when they cannot be counted.
std::optional<uint64_t> logical_elements(const Model& model) {
  Inspector inspector(model.checkpoint);
  for (auto wanted = inspector.want(); !wanted.empty(); wanted = inspector.want())
    for (const ReadRequest& request : wanted) {
      const auto [offset, length] = request.range;
      require(offset <= model.file.size() && length <= model.file.size() - offset);
      inspector.supply(request, as_bytes(model.file.substr(offset, length)));
    }
  return inspector.take().logical_parameters;
}

std::string decoded(const Model& model, bool backwards) {
  Statistics pass(model.checkpoint, {.logical = true});
  for (auto wanted = pass.want(); !wanted.empty(); wanted = pass.want())
    for (const ValuePass::SmallRead& read : wanted) {
      const auto [offset, length] = read.request.range;
      pass.supply(read, as_bytes(model.file.substr(offset, length)));
    }
  if (!pass.start()) return "";
  do {
    for (uint64_t i = 0; i < pass.piece_count(); ++i) {
      const uint64_t index = backwards ? pass.piece_count() - 1 - i : i;
      std::vector<std::string> held;
      for (const auto& [unused, range] : pass.piece(index)) held.push_back(bytes_of(model, range));
      std::vector<Bytes> bytes;
      for (const std::string& part : held) bytes.push_back(as_bytes(part));
      pass.add(index, pass.run(index, bytes, backwards ? scalar_kernels() : best_kernels()));
    }
  } while (pass.next_stage());
  return pass.to_json();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<fuzz::PackedFile> files =
      fuzz::unpack_folder({reinterpret_cast<const char*>(data), size});
  Model model;
  if (!read_model(files, model)) return 0;
  const std::optional<uint64_t> elements = logical_elements(model);
  if (!elements || *elements > kMostElements) return 0;
  require(decoded(model, false) == decoded(model, true));
  return 0;
}
