#include "tftf/adapter/adapter_search.h"

#include <algorithm>

#include "tftf/adapter/tokenizer_files.h"
#include "tftf/adapter/torch_tensor.h"
#include "tftf/base/escape.h"
#include "tftf/base/natural_order.h"

namespace tftf {
namespace {

constexpr std::string_view kAdapterModelName = "adapter_model.safetensors";
constexpr std::string_view kAdapterTorchName = "adapter_model.bin";
constexpr std::string_view kAdapterConfigName = "adapter_config.json";
constexpr std::string_view kDistributedName = ".metadata";

std::string path_joined(const std::string& folder, std::string_view name) {
  std::string path = folder;
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

// The folder around a path; of the folder that was given: "..".
std::string around(const std::string& path) {
  if (path.empty()) return "..";
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.substr(kPrefix.size()).find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_tensor_file(std::string_view name) { return name.ends_with(".safetensors") || is_torch_file(name); }

// Files of whole models, and their shards.
bool is_model_name(std::string_view name) {
  for (const std::string_view begin :
       {"model.", "model-", "consolidated", "pytorch_model", "diffusion_pytorch_model"})
    if (name.starts_with(begin)) return true;
  return name.find("-of-") != std::string_view::npos;
}

}  // namespace

std::optional<AdapterSearch::Question> AdapterSearch::want() {
  if (result_) return std::nullopt;
  open_.reset();
  notices_.clear();
  result_ = search();
  return open_;
}

void AdapterSearch::answer(const Question& question, std::vector<FileEntry> entries) {
  (question.entries ? folders_ : paths_)[question.path] = std::move(entries);
}

std::optional<bool> AdapterSearch::is_file(const std::string& path) {
  const auto known = paths_.find(path);
  if (known == paths_.end()) {
    open_ = Question{path, false};
    return std::nullopt;
  }
  return !known->second.empty() && known->second[0].regular;
}

std::optional<Result<bool>> AdapterSearch::is_config(const std::string& path) {
  const auto there = is_file(path);
  if (!there) return std::nullopt;
  const std::vector<FileEntry>& found = paths_.at(path);
  if (*there || found.empty()) return Result<bool>(*there);
  const std::string words = words_for(path);
  return Result<bool>(Error{.code = ErrorCode::kIoRead,
                            .message = "The adapter's configuration " + quote_name(words) +
                                       (!found[0].unreadable.empty() ? ": " + found[0].unreadable + "."
                                        : found[0].folder            ? " is a folder."
                                                                     : " is not a regular file."),
                            .file = words});
}

const std::vector<FileEntry>* AdapterSearch::entries_of(const std::string& folder) {
  const auto known = folders_.find(folder);
  if (known != folders_.end()) return &known->second;
  open_ = Question{folder, true};
  return nullptr;
}

std::string AdapterSearch::words_for(const std::string& path) const {
  if (!main_.empty()) return path == main_ ? given_ : given_.substr(0, given_.rfind('/') + 1) + path;
  if (path.empty()) return given_;
  if (!path.starts_with("../")) return path_joined(given_, path);
  std::string folder = given_;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const size_t begin = folder.rfind('/') + 1;
  const std::string last = folder.substr(begin);
  if (last.empty() || last == "." || last == "..") return path_joined(folder, path);
  return folder.substr(0, begin) + path.substr(3);
}

std::optional<Result<FoundAdapter>> AdapterSearch::search() {
  if (!main_.empty()) {
    if (distributed_) {
      return Error{.code = ErrorCode::kUsagePath,
                   .message = quote_name(given_) + " is a file where a folder is needed.",
                   .file = given_};
    }
    return with_config({.path = main_}, "", "");
  }
  const auto distributed = is_file(std::string(kDistributedName));
  if (!distributed) return std::nullopt;
  if (*distributed) return in_distributed("", "");
  const auto checkpoint = last_checkpoint();
  if (!checkpoint) return std::nullopt;
  if (!checkpoint->empty()) return search_training(*checkpoint);
  return distributed_ ? in_distributed("", "") : in_folder("", "");
}

// The sub-folder checkpoint-N with the highest number; empty: there is none.
std::optional<std::string> AdapterSearch::last_checkpoint() {
  const auto* entries = entries_of("");
  if (entries == nullptr) return std::nullopt;
  std::string last;
  for (const FileEntry& entry : *entries) {
    if (!entry.folder || !is_checkpoint_name(entry.name)) continue;
    if (last.empty() || natural_less(last, entry.name)) last = entry.name;
  }
  return last;
}

std::optional<Result<FoundAdapter>> AdapterSearch::search_training(const std::string& name) {
  const std::string folder = "Training folder " + quote_name(given_);
  const auto configured = is_config(std::string(kAdapterConfigName));
  const auto final_one = is_file(std::string(kAdapterModelName));
  if (!configured || !final_one) return std::nullopt;
  if (!configured->ok()) return Result<FoundAdapter>(configured->error());
  const std::string hint(**configured ? kAdapterConfigName : "");
  if (!distributed_ && *final_one) {
    notices_.push_back(folder + ": its final adapter is taken, not " + quote_name(name) + ".");
    return in_folder("", hint);
  }
  notices_.push_back(folder + ": its last checkpoint " + quote_name(name) + " is taken.");
  const auto inner = distributed_folder(name);
  if (!inner) return std::nullopt;
  if (!inner->empty()) return in_distributed(*inner, hint);
  const auto distributed = is_file(path_joined(name, kDistributedName));
  if (!distributed) return std::nullopt;
  if (*distributed) return in_distributed(name, hint);
  const auto adapter = is_file(path_joined(name, kAdapterModelName));
  if (!adapter) return std::nullopt;
  if (!distributed_ && *adapter) return in_folder(name, hint);
  return Error{.code = ErrorCode::kUsagePath,
               .message = "The last checkpoint " + quote_name(name) + " of training folder " +
                          quote_name(given_) + " holds no adapter that can be merged.",
               .file = words_for(name)};
}

// The sub-folder with a distributed checkpoint: none of an optimizer's unless there are only such, first by name;
// empty: there is none.
std::optional<std::string> AdapterSearch::distributed_folder(const std::string& checkpoint) {
  const auto* entries = entries_of(checkpoint);
  if (entries == nullptr) return std::nullopt;
  std::vector<std::string> names, optimizers;
  for (const FileEntry& entry : *entries) {
    if (!entry.folder) continue;
    const auto distributed = is_file(path_joined(path_joined(checkpoint, entry.name), kDistributedName));
    if (!distributed) return std::nullopt;
    if (!*distributed) continue;
    const bool optimizer = lower_case(entry.name).find("optimizer") != std::string::npos;
    (optimizer ? optimizers : names).push_back(entry.name);
  }
  if (names.empty()) names = std::move(optimizers);
  if (names.empty()) return std::string();
  std::sort(names.begin(), names.end());
  if (names.size() > 1)
    notices_.push_back("Several distributed checkpoints in " + quote_name(words_for(checkpoint)) + "; " +
                       quote_name(names[0]) + " is taken.");
  return path_joined(checkpoint, names[0]);
}

std::optional<Result<FoundAdapter>> AdapterSearch::in_folder(const std::string& folder,
                                                             const std::string& hint) {
  const std::string file = path_joined(folder, kAdapterModelName);
  const auto there = is_file(file);
  if (!there) return std::nullopt;
  if (*there) return with_config({.path = file}, hint, folder);
  const std::string torch_file = path_joined(folder, kAdapterTorchName);
  const auto saved_by_torch = is_file(torch_file);
  if (!saved_by_torch) return std::nullopt;
  if (*saved_by_torch) return with_config({.path = torch_file}, hint, folder);
  const auto* entries = entries_of(folder);
  if (entries == nullptr) return std::nullopt;
  std::string others, whole;
  for (const FileEntry& entry : *entries) {
    if (!entry.regular || !is_tensor_file(entry.name)) continue;
    std::string& list = is_model_name(entry.name) ? whole : others;
    list += (list.empty() ? "" : ", ") + quote_name(entry.name);
  }
  const std::string words = words_for(folder);
  return Error{.code = ErrorCode::kRefusedMissing,
               .message = "Folder " + quote_name(words) + " has no " + std::string(kAdapterModelName) +
                          (!others.empty() ? "; files like an adapter: " + others + " (name one of them)."
                           : whole.empty() ? " and nothing like an adapter."
                                           : ": it holds a whole model, " + whole + ", and no adapter."),
               .file = words};
}

std::optional<Result<FoundAdapter>> AdapterSearch::in_distributed(const std::string& folder,
                                                                  const std::string& hint) {
  const auto* entries = entries_of(folder);
  if (entries == nullptr) return std::nullopt;
  return with_config({.distributed = true, .path = folder, .files = *entries}, hint, around(folder));
}

// `hint`: the configuration of a training folder; else what lies in `beside`, if anything does.
std::optional<Result<FoundAdapter>> AdapterSearch::with_config(FoundAdapter found, const std::string& hint,
                                                               const std::string& beside) {
  if (!configured_) {
    const std::string config = hint.empty() ? path_joined(beside, kAdapterConfigName) : hint;
    const auto there = is_config(config);
    if (!there) return std::nullopt;
    if (!there->ok()) return Result<FoundAdapter>(there->error());
    if (**there) {
      found.config = config;
      found.config_file = words_for(config);
    }
  }
  if (main_.empty() && !beside.starts_with("..")) {
    const auto* entries = entries_of(beside);
    if (entries == nullptr) return std::nullopt;
    for (FileEntry entry : *entries) {
      if (entry.folder || !(is_tokenizer_file(entry.name) || is_chat_template(entry.name))) continue;
      entry.name = path_joined(beside, entry.name);
      found.tokenizer.push_back(std::move(entry));
    }
    std::sort(found.tokenizer.begin(), found.tokenizer.end(),
              [](const FileEntry& a, const FileEntry& b) { return a.name < b.name; });
  }
  found.file = words_for(found.path);
  found.notices = std::move(notices_);
  return Result<FoundAdapter>(std::move(found));
}

}  // namespace tftf
