#include "tftf_native/adapter_reader.h"

#include <algorithm>
#include <filesystem>

#include "tftf/adapter/dcp.h"
#include "tftf/base/escape.h"
#include "tftf/base/natural_order.h"
#include "tftf_native/byte_source.h"
#include "tftf_native/model_reader.h"

namespace tftf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelName = "adapter_model.safetensors";
constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kDcpName = ".metadata";
constexpr uint64_t kMaxConfig = uint64_t{16} << 20;

std::string in_folder(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / std::string(name)).string();
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}
bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
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
  if (!is_file(path)) {
    return Error{.code = ErrorCode::kUsagePath,
                 .message = "The adapter's configuration " + quote_name(path) +
                            (is_folder(path) ? " is a folder." : " does not exist."),
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

// `named`: given by the user; `hint`: of a training folder; else what lies in `beside`, if anything does.
Result<std::optional<AdapterConfigText>> choose_config(const std::optional<std::string>& named,
                                                       const std::optional<std::string>& hint,
                                                       const std::string& beside) {
  std::optional<std::string> path = named ? named : hint;
  if (!path) {
    const std::string found = in_folder(beside, kConfigName);
    if (!is_file(found)) return std::optional<AdapterConfigText>();
    path = found;
  }
  Result<AdapterConfigText> config = read_config(*path);
  if (!config) return std::move(config).error();
  return std::optional<AdapterConfigText>(*std::move(config));
}

std::string parent_of(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  const fs::path parent = whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
  return parent.string();
}

Result<std::vector<NamedTensor>> load_file(const std::string& path, uint64_t max_header) {
  ReaderOptions options;
  options.mode = ReadMode::kTransform;
  options.max_header = max_header;
  Result<NativeModel> model = read_model(path, options);
  if (!model) return std::move(model).error();
  TensorLoader loader(model->checkpoint);
  while (const auto wanted = loader.want()) {
    auto bytes = read_range(model->path_of(wanted->file), wanted->range.offset, wanted->range.length);
    if (!bytes) return std::move(bytes).error();
    loader.supply(*bytes);
  }
  return loader.take();
}

Result<std::vector<NamedTensor>> load_dcp(const std::string& folder) {
  auto files = entries_of(folder);
  if (!files) return std::move(files).error();
  DcpReader reader(*std::move(files));
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

class Search {
 public:
  explicit Search(const AdapterRequest& request) : request_(request) {}

  Result<std::shared_ptr<const Adapter>> read() {
    const std::string& path = request_.path;
    std::error_code error;
    if (!fs::exists(path, error)) {
      return Error{.code = ErrorCode::kUsagePath,
                   .message = "The adapter " + quote_name(path) + " does not exist.",
                   .file = path};
    }
    if (!is_folder(path)) {
      if (request_.dcp_only) {
        return Error{.code = ErrorCode::kUsagePath,
                     .message = quote_name(path) + " is a file where a folder is needed.",
                     .file = path};
      }
      return read_file(path, std::nullopt);
    }
    if (is_file(in_folder(path, kDcpName))) return read_dcp(path, std::nullopt);
    auto checkpoint = last_checkpoint(path);
    if (!checkpoint) return std::move(checkpoint).error();
    if (*checkpoint) return read_training(path, **checkpoint);
    return request_.dcp_only ? read_dcp(path, std::nullopt) : read_folder(path, std::nullopt);
  }

 private:
  void note(std::string sentence) { notices_.push_back(std::move(sentence)); }

  // The sub-folder checkpoint-N with the highest number.
  static Result<std::optional<std::string>> last_checkpoint(const std::string& folder) {
    constexpr std::string_view kPrefix = "checkpoint-";
    auto entries = entries_of(folder);
    if (!entries) return std::move(entries).error();
    std::optional<std::string> last;
    for (const FileEntry& entry : *entries) {
      const std::string_view name = entry.name;
      if (!entry.folder || !name.starts_with(kPrefix) || name.size() == kPrefix.size() ||
          name.substr(kPrefix.size()).find_first_not_of("0123456789") != std::string_view::npos)
        continue;
      if (!last || natural_less(*last, entry.name)) last = entry.name;
    }
    return last;
  }

  Result<std::shared_ptr<const Adapter>> read_training(const std::string& folder, const std::string& name) {
    std::optional<std::string> hint = in_folder(folder, kConfigName);
    if (!is_file(*hint)) hint.reset();
    if (!request_.dcp_only && is_file(in_folder(folder, kModelName))) {
      note("Training folder " + quote_name(folder) + ": its final adapter is taken, not " + quote_name(name) +
           ".");
      return read_folder(folder, hint);
    }
    note("Training folder " + quote_name(folder) + ": its last checkpoint " + quote_name(name) +
         " is taken.");
    const std::string checkpoint = in_folder(folder, name);
    auto dcp = dcp_folder(checkpoint);
    if (!dcp) return std::move(dcp).error();
    if (*dcp) return read_dcp(**dcp, hint);
    if (is_file(in_folder(checkpoint, kDcpName))) return read_dcp(checkpoint, hint);
    if (!request_.dcp_only && is_file(in_folder(checkpoint, kModelName)))
      return read_folder(checkpoint, hint);
    return Error{.code = ErrorCode::kUsagePath,
                 .message = "The last checkpoint " + quote_name(name) + " of training folder " +
                            quote_name(folder) + " holds no adapter that can be merged.",
                 .file = checkpoint};
  }

  // The sub-folder with a distributed checkpoint: none of an optimizer's unless there are only such, first by name.
  Result<std::optional<std::string>> dcp_folder(const std::string& checkpoint) {
    auto entries = entries_of(checkpoint);
    if (!entries) return std::move(entries).error();
    std::vector<std::string> names, optimizers;
    for (const FileEntry& entry : *entries) {
      if (!entry.folder || !is_file(in_folder(in_folder(checkpoint, entry.name), kDcpName))) continue;
      const bool optimizer = lower(entry.name).find("optimizer") != std::string::npos;
      (optimizer ? optimizers : names).push_back(entry.name);
    }
    if (names.empty()) names = std::move(optimizers);
    if (names.empty()) return std::optional<std::string>();
    std::sort(names.begin(), names.end());
    if (names.size() > 1)
      note("Several distributed checkpoints in " + quote_name(checkpoint) + "; " + quote_name(names[0]) +
           " is taken.");
    return std::optional<std::string>(in_folder(checkpoint, names[0]));
  }

  Result<std::shared_ptr<const Adapter>> read_folder(const std::string& folder,
                                                     const std::optional<std::string>& hint) {
    const std::string file = in_folder(folder, kModelName);
    if (is_file(file)) return read_file(file, hint);
    auto entries = entries_of(folder);
    if (!entries) return std::move(entries).error();
    std::string others;
    for (const FileEntry& entry : *entries) {
      const std::string_view name = entry.name;
      if (!entry.regular ||
          !(name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".pt")))
        continue;
      others += (others.empty() ? "" : ", ") + quote_name(name);
    }
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = "Folder " + quote_name(folder) + " has no " + std::string(kModelName) +
                            (others.empty() ? " and nothing like an adapter."
                                            : "; files like an adapter: " + others + " (name one of them)."),
                 .file = folder};
  }

  Result<std::shared_ptr<const Adapter>> read_file(const std::string& file,
                                                   const std::optional<std::string>& hint) {
    auto config = choose_config(request_.config, hint, parent_of(file));
    if (!config) return std::move(config).error();
    auto tensors = load_file(file, request_.max_header);
    if (!tensors) return std::move(tensors).error();
    return make_adapter(request_.path, file, *std::move(tensors), *config, std::move(notices_));
  }

  Result<std::shared_ptr<const Adapter>> read_dcp(const std::string& folder,
                                                  const std::optional<std::string>& hint) {
    auto config = choose_config(request_.config, hint, parent_of(folder));
    if (!config) return std::move(config).error();
    auto tensors = load_dcp(folder);
    if (!tensors) return std::move(tensors).error();
    return make_adapter(request_.path, folder, *std::move(tensors), *config, std::move(notices_));
  }

  const AdapterRequest& request_;
  std::vector<std::string> notices_;
};

}  // namespace

Result<std::shared_ptr<const Adapter>> read_adapter(const AdapterRequest& request) {
  return Search(request).read();
}

Result<std::shared_ptr<const Adapter>> read_sharded_adapter(const ShardedAdapterRequest& request) {
  std::vector<std::string> files = request.files;
  std::vector<std::string> notices;
  if (request.folder) {
    if (!is_folder(*request.folder)) {
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
  for (const std::string& file : files) {
    if (!is_file(file)) {
      return Error{.code = ErrorCode::kUsagePath,
                   .message = "The file " + quote_name(file) + " does not exist.",
                   .file = file};
    }
    auto tensors = load_file(file, request.max_header);
    if (!tensors) return std::move(tensors).error();
    ranks.push_back(*std::move(tensors));
  }
  auto config = choose_config(request.config, std::nullopt, parent_of(files.at(0)));
  if (!config) return std::move(config).error();
  std::string given = request.folder ? *request.folder : files.at(0);
  return make_sharded_adapter(std::move(given), std::move(files), std::move(ranks), request.dim, *config,
                              std::move(notices));
}

}  // namespace tftf
