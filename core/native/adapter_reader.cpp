#include "tftf_native/adapter_reader.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tftf/adapter/adapter_search.h"
#include "tftf/adapter/dcp.h"
#include "tftf/adapter/tokenizer_files.h"
#include "tftf/base/escape.h"
#include "tftf/base/natural_order.h"
#include "tftf_native/byte_source.h"
#include "tftf_native/model_reader.h"
#include "tftf_native/path_kind.h"
#include "tftf_native/small_file.h"

namespace tftf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr uint64_t kMaxConfig = uint64_t{16} << 20;

std::string in_folder(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / std::string(name)).string();
}

Result<std::vector<FileEntry>> entries_of(const std::string& folder) {
  Result<NativeListing> listing = list_model(folder);
  if (!listing) return std::move(listing).error();
  return std::move(listing->listing.files);
}

Result<std::vector<std::byte>> read_range(const std::string& path, uint64_t offset, uint64_t length) {
  auto source = open_file_source(path);
  if (!source) return std::move(source).error();
  std::vector<std::byte> bytes(static_cast<size_t>(length));
  if (length != 0) TFTF_TRY((*source)->read(offset, bytes));
  return bytes;
}

// A configuration that must be there.
Result<AdapterConfigText> read_config(const std::string& path) {
  const auto kind = path_kind(path);
  if (!kind) return kind.error();
  if (*kind == PathKind::kNothing || *kind == PathKind::kFolder) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = "The adapter's configuration " + quote_name(path) +
                            (*kind == PathKind::kFolder ? " is a folder." : " does not exist."),
                 .file = path};
  }
  auto source = open_file_source(path);
  if (!source) return std::move(source).error();
  if ((*source)->size() > kMaxConfig) {
    return Error{.code = ErrorCode::kRefusedConfig,
                 .message = "The adapter's configuration " + quote_name(path) + " has more than 16 MiB.",
                 .file = path};
  }
  AdapterConfigText config{path, std::string(static_cast<size_t>((*source)->size()), '\0')};
  TFTF_TRY((*source)->read(0, {reinterpret_cast<std::byte*>(config.text.data()), config.text.size()}));
  return config;
}

// `named`: given by the user; else what lies in `beside`, if anything does.
Result<std::optional<AdapterConfigText>> choose_config(const std::optional<std::string>& named,
                                                       const std::string& beside) {
  const std::string path = named ? *named : in_folder(beside, kConfigName);
  const auto kind = path_kind(path);
  if (!kind) return kind.error();
  if (!named && *kind == PathKind::kNothing) return std::optional<AdapterConfigText>();
  Result<AdapterConfigText> config = read_config(path);
  if (!config) return std::move(config).error();
  return std::optional<AdapterConfigText>(*std::move(config));
}

std::string parent_of(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  const fs::path parent = whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
  return parent.string();
}

Result<std::vector<NamedTensor>> load_torch(const std::string& path) {
  auto source = open_file_source(path);
  if (!source) return std::move(source).error();
  auto bytes = read_range(path, 0, (*source)->size());
  if (!bytes) return std::move(bytes).error();
  auto tensors = read_torch_state(*bytes);
  if (tensors) return tensors;
  Error error = std::move(tensors).error();
  error.message = "Adapter " + quote_name(path) + ": " + error.message;
  error.file = path;
  return error;
}

Result<std::vector<NamedTensor>> load_file(const std::string& path, uint64_t max_header, Metadata& metadata) {
  if (is_torch_file(path)) return load_torch(path);
  ReaderOptions options;
  options.mode = ReadMode::kTransform;
  options.max_header = max_header;
  Result<NativeModel> model = read_model(path, options);
  if (!model) return std::move(model).error();
  TensorLoader loader(model->checkpoint);
  metadata = loader.metadata();
  while (const auto wanted = loader.want()) {
    auto bytes = read_range(model->path_of(wanted->file), wanted->range.offset, wanted->range.length);
    if (!bytes) return std::move(bytes).error();
    loader.supply(*bytes);
  }
  return loader.take();
}

Result<std::vector<NamedTensor>> load_dcp(const std::string& folder, std::vector<FileEntry> files) {
  DcpReader reader(std::move(files));
  while (true) {
    const std::vector<ReadRequest> requests = reader.want();
    if (requests.empty()) return reader.take();
    for (const ReadRequest& wanted : requests) {
      auto bytes = read_range(in_folder(folder, wanted.file), wanted.range.offset, wanted.range.length);
      if (!bytes) return std::move(bytes).error();
      reader.supply(wanted, *bytes);
    }
  }
}

// `read`: with their texts.
Result<std::vector<AdapterSideFile>> load_tokenizer(
    const std::vector<FileEntry>& files, bool read,
    const std::function<std::string(const std::string&)>& path_of) {
  std::vector<AdapterSideFile> loaded;
  for (const FileEntry& file : files) {
    AdapterSideFile side{.name = fs::path(file.name).filename().string()};
    if (read) {
      auto text = read_small_file(path_of(file.name), kMostTokenizerBytes);
      if (!text) return std::move(text).error();
      side.text = *std::move(text);
    }
    loaded.push_back(std::move(side));
  }
  return loaded;
}

}  // namespace

Result<std::shared_ptr<const Adapter>> read_adapter(const AdapterRequest& request) {
  const std::string& path = request.path;
  const auto kind = path_kind(path);
  if (!kind) return kind.error();
  if (*kind == PathKind::kNothing) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = "The adapter " + quote_name(path) + " does not exist.",
                 .file = path};
  }
  const bool folder = *kind == PathKind::kFolder;
  const std::string main = folder ? "" : fs::path(path).filename().string();
  // What the search calls by a path relative to the folder.
  const auto path_of = [&](const std::string& name) {
    if (!folder) return name == main ? path : in_folder(parent_of(path), name);
    if (name.empty()) return path;
    return name.starts_with("../") ? in_folder(parent_of(path), name.substr(3)) : in_folder(path, name);
  };
  AdapterSearch search(path, main, request.dcp_only, request.config.has_value());
  while (const auto question = search.want()) {
    const std::string asked = path_of(question->path);
    std::vector<FileEntry> entries;
    if (question->entries) {
      auto listed = entries_of(asked);
      if (!listed) return std::move(listed).error();
      entries = *std::move(listed);
    } else {
      const auto what = path_kind(asked);
      if (!what) return what.error();
      if (*what != PathKind::kNothing)
        entries.push_back({.name = question->path,
                           .regular = *what == PathKind::kFile,
                           .unreadable = *what == PathKind::kDangling ? "it is a link to nothing" : "",
                           .folder = *what == PathKind::kFolder});
    }
    search.answer(*question, std::move(entries));
  }
  Result<FoundAdapter> found = search.take();
  if (!found) return std::move(found).error();
  const std::string place = path_of(found->path);
  const auto note = [&](const std::string& source) {
    if (request.sources != nullptr) request.sources->push_back(source);
  };
  if (folder) note(path);
  note(place);
  for (const FileEntry& entry : found->files)
    if (entry.regular) note(in_folder(place, entry.name));
  std::optional<AdapterConfigText> config;
  if (request.config || found->config) {
    auto read = read_config(request.config ? *request.config : path_of(*found->config));
    if (!read) return std::move(read).error();
    config = *std::move(read);
    note(config->file);
  }
  auto tokenizer = load_tokenizer(found->tokenizer, request.tokenizer, path_of);
  if (!tokenizer) return std::move(tokenizer).error();
  Metadata metadata;
  auto tensors = found->distributed ? load_dcp(place, std::move(found->files))
                                    : load_file(place, request.max_header, metadata);
  if (!tensors) return std::move(tensors).error();
  return make_adapter(path, std::move(found->file), *std::move(tensors), config, std::move(found->notices),
                      std::move(metadata), *std::move(tokenizer));
}

Result<std::shared_ptr<const Adapter>> read_sharded_adapter(const ShardedAdapterRequest& request) {
  std::vector<std::string> files = request.files;
  std::vector<std::string> notices;
  if (request.folder) {
    const auto kind = path_kind(*request.folder);
    if (!kind) return kind.error();
    if (*kind != PathKind::kFolder) {
      return Error{.code = ErrorCode::kUsagePath,
                   .message = "The folder " + quote_name(*request.folder) + " does not exist.",
                   .file = *request.folder};
    }
    auto entries = entries_of(*request.folder);
    if (!entries) return std::move(entries).error();
    std::vector<std::string> names;
    for (const FileEntry& entry : *entries)
      if (!entry.folder && std::string_view(entry.name).ends_with(".safetensors"))
        names.push_back(entry.name);
    if (names.empty()) {
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "The folder " + quote_name(*request.folder) + " has no .safetensors file.",
                   .file = *request.folder};
    }
    std::sort(names.begin(), names.end(), natural_less);
    std::string order;
    for (const std::string& name : names) {
      files.push_back(in_folder(*request.folder, name));
      order += (order.empty() ? "" : ", ") + quote_name(name);
    }
    if (names.size() > 1) notices.push_back("Ranks in this order: " + order + ".");
  }
  std::vector<std::vector<NamedTensor>> ranks;
  std::vector<Fingerprint> seen;
  for (const std::string& file : files) {
    const auto kind = path_kind(file);
    if (!kind) return kind.error();
    if (*kind != PathKind::kFile) {
      return Error{.code = ErrorCode::kUsagePath,
                   .message = "The file " + quote_name(file) +
                              (*kind == PathKind::kNothing    ? " does not exist."
                               : *kind == PathKind::kDangling ? " is a link to nothing."
                                                              : " is not a regular file."),
                   .file = file};
    }
    auto here = file_fingerprint(file);
    if (!here) return std::move(here).error();
    for (size_t i = 0; i < seen.size(); ++i)
      if (seen[i].device == here->device && seen[i].inode == here->inode)
        return Error{.code = ErrorCode::kUsage,
                     .message = "The file " + quote_name(file) + " is given as two ranks, " +
                                std::to_string(i) + " and " + std::to_string(seen.size()) + ".",
                     .file = file};
    seen.push_back(*here);
    Metadata ignored;
    auto tensors = load_file(file, request.max_header, ignored);
    if (!tensors) return std::move(tensors).error();
    ranks.push_back(*std::move(tensors));
  }
  auto config = choose_config(request.config, parent_of(files.at(0)));
  if (!config) return std::move(config).error();
  if (request.sources != nullptr) {
    *request.sources = files;
    if (request.folder) request.sources->push_back(*request.folder);
    if (*config) request.sources->push_back((*config)->file);
  }
  std::string given = request.folder ? *request.folder : files.at(0);
  return make_sharded_adapter(std::move(given), std::move(files), std::move(ranks), request.dim, *config,
                              std::move(notices));
}

}  // namespace tftf
