#include <algorithm>

#include "commands.h"
#include "folder_run.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/rans_encoder.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf_native/file_digest.h"
#include "tftf_native/small_file.h"

namespace tftf::cli {
namespace {

const std::string* metadata_value(const Header& header, std::string_view key) {
  for (const auto& [name, value] : header.metadata)
    if (name == key) return &value;
  return nullptr;
}

Error no_container(const std::string& file, const std::string& why) {
  return {.code = ErrorCode::kRefusedInput,
          .message = quote_name(file) + " is no shard of a range-coded container: " + why + ".",
          .file = file};
}

// Digests of one shard, its records named by its stamps. `crc`: of the table, the same in all shards.
Result<colibri::RansManifestShard> describe_shard(const NativeModel& model, const Shard& shard,
                                                  std::string& crc) {
  if (shard.status != ShardStatus::kOk) return no_container(shard.name, "it is not sound");
  const std::string* stamps = metadata_value(shard.header, colibri::kStampKey);
  const std::string* table = metadata_value(shard.header, colibri::kRansTableKey);
  if (stamps == nullptr || table == nullptr) return no_container(shard.name, "it has no stamps or no table");
  const JsonDocument claims = parse_json(*stamps, JsonDialect::kPython);
  const JsonDocument numbers = parse_json(*table, JsonDialect::kPython);
  if (claims.error || !claims.root.is_object() || numbers.error || !numbers.root.string("table_crc32"))
    return no_container(shard.name, "its stamps or its table cannot be read");
  const std::string own(*numbers.root.string("table_crc32"));
  if (!crc.empty() && crc != own)
    return no_container(shard.name, "its table is another than that of the others");
  crc = own;
  const std::string path = model.path_of(shard.name);
  colibri::RansManifestShard described{.file = shard.name, .bytes = shard.size};
  auto whole = file_digest(path, 0, shard.size);
  if (!whole) return std::move(whole).error();
  described.sha256 = *std::move(whole);
  for (const TensorInfo& tensor : shard.header.tensors) {
    if (claims.root.string(tensor.name) != "int4-rans256-g0") continue;
    auto record = file_digest(path, shard.header.data_offset() + tensor.begin, tensor.bytes());
    if (!record) return std::move(record).error();
    described.records[tensor.name] = *std::move(record);
  }
  return described;
}

int write_manifest_only(const Session& session, const std::string& folder, bool replace) {
  constexpr const char* kName = "repack-manifest.json";
  Result<NativeModel> model = open_shard_folder(session, folder);
  if (!model) return session.fail(model.error());
  const auto& files = model->checkpoint.listing.files;
  const bool there =
      std::any_of(files.begin(), files.end(), [&](const FileEntry& file) { return file.name == kName; });
  if (there && !replace) {
    return session.fail(
        {.code = ErrorCode::kRefusedOutput,
         .message = quote_name(folder) + " has a " + kName + " already (--force replaces it).",
         .file = kName});
  }
  std::vector<const Shard*> shards;
  for (const Shard& shard : model->checkpoint.shards)
    if (shard.name.starts_with("out-rans-") && shard.status != ShardStatus::kMissing)
      shards.push_back(&shard);
  if (shards.empty()) {
    return session.fail({.code = ErrorCode::kRefusedMissing,
                         .message = quote_name(folder) + " holds no out-rans-*.safetensors.",
                         .file = folder});
  }
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  std::vector<colibri::RansManifestShard> described;
  std::string crc;
  for (const Shard* shard : shards) {
    auto one = describe_shard(*model, *shard, crc);
    if (!one) return session.fail(one.error());
    described.push_back(*std::move(one));
  }
  const std::string text = colibri::rans_manifest_text(crc, described);
  if (auto written = write_small_file(folder, kName, text); !written) return session.fail(written.error());
  if (session.common.json) {
    session.print_json(OrderedJson::parse(text));
  } else {
    session.note("The digests of " + std::to_string(described.size()) + " shards are in " +
                 std::string(kName) + ".");
  }
  return 0;
}

}  // namespace

int run_rans_repack(Session& session, const CommandLine& line) {
  if (!line.has("manifest-only")) return run_folder_tool(session, line);
  return write_manifest_only(session, line.value("manifest-only"),
                             line.has("overwrite") || line.has("force"));
}

}  // namespace tftf::cli
