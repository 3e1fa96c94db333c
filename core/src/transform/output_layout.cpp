#include "tftf/transform/output_layout.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tftf/base/checked.h"
#include "tftf/base/glob.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

constexpr uint64_t kLargestSideFile = uint64_t{64} << 20;

// Weights in any container, indexes, and what an interrupted run left.
constexpr std::string_view kNeverCopied[] = {
    "*.safetensors", "*.safetensors.*", "*.gguf",        "*.bin", "*.pt",
    "*.pth",         "*.ckpt",          "*.onnx",        "*.h5",  "*.msgpack",
    "*.tftf-part",   ".tftf-journal",   "*.tftf-journal"};
// A lone file may lie in any folder: only what is known to belong to a model goes with it.
constexpr std::string_view kKnown[] = {"config.json",
                                       "adapter_config.json",
                                       "generation_config.json",
                                       "tokenizer*",
                                       "vocab*",
                                       "merges.txt",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "chat_template*",
                                       "preprocessor_config.json",
                                       "processor_config.json",
                                       "README*",
                                       "LICENSE*",
                                       "*.py"};
constexpr std::string_view kDataHashes[] = {"sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"};

bool matches_any(std::span<const std::string_view> patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](std::string_view pattern) { return Glob(pattern).matches(name); });
}

// As json.dumps(value, indent=2) does at this depth.
void append_value(std::string& to, const JsonValue& value, size_t depth) {
  const auto line = [&to](size_t at) { to += '\n' + std::string(2 * at, ' '); };
  switch (value.kind) {
    case JsonKind::kNull:
      to += "null";
      return;
    case JsonKind::kBoolean:
      to += value.boolean ? "true" : "false";
      return;
    case JsonKind::kNumber:
      to += value.text;
      return;
    case JsonKind::kString:
      to += json_ascii_string(value.text);
      return;
    case JsonKind::kArray:
      to += '[';
      for (size_t i = 0; i < value.elements.size(); ++i) {
        if (i > 0) to += ',';
        line(depth + 1);
        append_value(to, value.elements[i], depth + 1);
      }
      if (!value.elements.empty()) line(depth);
      to += ']';
      return;
    case JsonKind::kObject: {
      to += '{';
      bool first = true;
      std::unordered_map<std::string_view, const JsonValue*> last;  // of repeated keys the last counts
      for (const JsonValue::Member& member : value.members) last[member.first] = &member.second;
      for (const JsonValue::Member& member : value.members) {
        if (last[member.first] != &member.second) continue;
        if (!first) to += ',';
        first = false;
        line(depth + 1);
        to += json_ascii_string(member.first) + ": ";
        append_value(to, member.second, depth + 1);
      }
      if (!first) line(depth);
      to += '}';
      return;
    }
  }
}

}  // namespace

std::vector<size_t> pack_shards(const std::vector<uint64_t>& tensor_bytes, uint64_t max) {
  std::vector<size_t> starts;
  uint64_t current = 0;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    const auto sum = checked_add(current, tensor_bytes[i]);
    if (starts.empty() || (starts.back() < i && (!sum || *sum > max))) {
      starts.push_back(i);
      current = tensor_bytes[i];
    } else {
      current = sum.value_or(UINT64_MAX);
    }
  }
  return starts;
}

OutputNames output_names(const Checkpoint& checkpoint) {
  OutputNames names;
  if (checkpoint.shards.empty()) return names;
  const std::string& path = checkpoint.shards.front().name;
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  names.one_file = checkpoint.shards.size() == 1 && file == "adapter_model.safetensors";
  if (names.one_file) names.stem = "adapter_model";
  for (const std::string_view end : {".safetensors", ".", "-"})
    if (file.starts_with("diffusion_pytorch_model" + std::string(end)))
      names.stem = "diffusion_pytorch_model";
  return names;
}

std::string shard_name(size_t index, size_t count, std::string_view stem) {
  const std::string of = std::to_string(count);
  const size_t width = std::max<size_t>(5, of.size());
  const auto padded = [width](const std::string& digits) {
    return std::string(width - digits.size(), '0') + digits;
  };
  return std::string(stem) + "-" + padded(std::to_string(index + 1)) + "-of-" + padded(of) + ".safetensors";
}

Metadata output_metadata(const Checkpoint& checkpoint, bool add_format, bool data_changed) {
  Metadata merged;
  std::unordered_set<std::string_view> seen;  // views into the headers
  for (const Shard& shard : checkpoint.shards) {
    for (const auto& [key, value] : shard.header.metadata) {
      if (!(data_changed && is_data_hash_key(key)) && seen.insert(key).second)
        merged.emplace_back(key, value);
    }
  }
  if (add_format && seen.count("format") == 0) merged.emplace_back("format", "pt");
  return merged;
}

bool is_data_hash_key(std::string_view key) {
  return std::find(std::begin(kDataHashes), std::end(kDataHashes), key) != std::end(kDataHashes);
}

std::string index_text(const ShardIndex* old, uint64_t total_size,
                       const std::vector<std::pair<std::string_view, std::string_view>>& weight_map) {
  JsonValue total;
  total.kind = JsonKind::kNumber;
  total.text = std::to_string(total_size);
  JsonValue metadata;
  metadata.kind = JsonKind::kObject;
  bool placed = false;
  if (old != nullptr && old->metadata.is_object()) {
    for (const JsonValue::Member& member : old->metadata.members) {
      const bool is_total = member.first == "total_size";
      if (is_total && placed) continue;
      metadata.members.push_back({member.first, is_total ? total : member.second});
      placed = placed || is_total;
    }
  }
  if (!placed) metadata.members.push_back({"total_size", total});

  std::string text = "{\n  \"metadata\": ";
  append_value(text, metadata, 1);
  text += ",\n  \"weight_map\": {";
  // Hundreds of thousands of lines are not to be copied while the text grows.
  constexpr size_t kAround = 12;
  size_t length = text.size() + kAround;
  for (const auto& [tensor, file] : weight_map) length += tensor.size() + file.size() + kAround;
  text.reserve(length);
  for (size_t i = 0; i < weight_map.size(); ++i) {
    text += i > 0 ? ",\n    " : "\n    ";
    text += json_ascii_string(weight_map[i].first);
    text += ": ";
    text += json_ascii_string(weight_map[i].second);
  }
  text += weight_map.empty() ? "}\n}" : "\n  }\n}";
  return text;
}

namespace {

std::vector<FileEntry> side_entries(ModelListing::Kind kind, std::span<const FileEntry> folder,
                                    bool regular) {
  std::vector<FileEntry> files;
  for (const FileEntry& file : folder) {
    if (file.regular != regular || file.folder || file.name.find('/') != std::string::npos) continue;
    if (matches_any(kNeverCopied, file.name) || file.size > kLargestSideFile) continue;
    if (kind == ModelListing::Kind::kFile && !matches_any(kKnown, file.name)) continue;
    files.push_back(file);
  }
  std::sort(files.begin(), files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  return files;
}

}  // namespace

std::vector<FileEntry> side_files_to_copy(ModelListing::Kind kind, std::span<const FileEntry> folder) {
  return side_entries(kind, folder, true);
}

std::vector<FileEntry> side_files_left_out(ModelListing::Kind kind, std::span<const FileEntry> folder) {
  return side_entries(kind, folder, false);
}

}  // namespace tftf
