#include "output_target.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "posix.h"
#include "tftf/base/escape.h"
#include "tftf_native/path_kind.h"

namespace tftf {
namespace {

namespace fs = std::filesystem;

Error refused(const std::string& path, const std::string& why) {
  return {.code = ErrorCode::kRefusedOutput,
          .message = "Cannot write to " + quote_name(path) + ": " + why + ".",
          .file = path};
}

Error refused_system(const std::string& path, int error) {
  return refused(path, std::generic_category().message(error));
}

Error not_seen(const std::string& given, const std::string& path, int error) {
  return refused(given, "cannot look at " + quote_name(path) + ": " + std::generic_category().message(error));
}

using InputFile = std::pair<uint64_t, uint64_t>;  // device, inode

// What the run reads, as files: links and mounts are seen through.
struct InputPlaces {
  std::set<InputFile> files;
  std::set<InputFile> folders;
};

Result<InputPlaces> input_places(const std::vector<Fingerprint>& inputs, const ExecuteOptions& options) {
  InputPlaces places;
  for (const Fingerprint& input : inputs) places.files.emplace(input.device, input.inode);
  std::vector<std::string> others = options.also_read;
  for (const SeenFile& side : options.sides) others.push_back(side.path);
  if (!options.input_folder.empty()) others.push_back(options.input_folder);
  for (const std::string& path : others) {
    const auto info = look_at_path(path);
    if (!info.ok()) return info.error();
    if (!*info) continue;
    (S_ISDIR((*info)->st_mode) ? places.folders : places.files).emplace((*info)->st_dev, (*info)->st_ino);
  }
  return places;
}

Result<bool> is_among(const std::string& path, const std::set<InputFile>& inputs) {
  const auto info = look_at_path(path);
  if (!info.ok()) return info.error();
  return *info && inputs.count({(*info)->st_dev, (*info)->st_ino}) != 0;
}

// The folder itself or one of its parents is one of `folders`.
Result<bool> lies_in(const fs::path& resolved, const std::set<InputFile>& folders) {
  for (fs::path at = resolved;; at = at.parent_path()) {
    auto here = is_among(at.string(), folders);
    if (!here.ok() || *here || at == at.parent_path()) return here;
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A small file that an earlier pass has brought along already.
bool is_same_copy(OutputFolder& folder, const std::string& name, const ExecuteOptions& options) {
  auto source = open_file_source(side_path(options, {.name = name}));
  if (!source.ok()) return false;
  std::vector<std::byte> bytes(static_cast<size_t>((*source)->size()));
  const auto there = folder.look(name);
  if (!there.ok() || !*there || !(*there)->regular || (*there)->fingerprint.size != bytes.size())
    return false;
  const auto text = folder.read(name, bytes.size());
  return text.ok() && (*source)->read(0, bytes).ok() &&
         std::equal(bytes.begin(), bytes.end(), as_bytes(*text).begin(), as_bytes(*text).end());
}

}  // namespace

std::string target_folder(const OutputTarget& target) {
  if (!target.single_file) return target.path;
  const std::string folder = fs::path(target.path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string ResolvedFolder::path() const {
  std::string path = existing;
  for (const std::string& name : missing) path += (path.back() == '/' ? "" : "/") + name;
  return path;
}

Result<ResolvedFolder> resolve_folder(const std::string& given) {
  std::error_code error;
  fs::path at = fs::absolute(given, error);
  if (error) return refused_system(given, error.value());
  ResolvedFolder result;
  std::vector<std::string> rest;  // from the end
  for (;;) {
    if (char* real = retry([&] { return ::realpath(at.c_str(), nullptr); })) {
      result.existing = real;
      std::free(real);
      break;
    }
    const int reason = errno;
    if (reason != ENOENT && reason != ENOTDIR) return not_seen(given, at.string(), reason);
    if (reason == ENOENT && fs::is_symlink(fs::symlink_status(at, error)))
      return refused(given, quote_name(at.string()) + " is a link to nothing");
    if (at == at.parent_path()) return refused_system(given, ENOENT);
    if (const std::string name = at.filename().string(); !name.empty()) rest.push_back(name);
    at = at.parent_path();
  }
  for (auto name = rest.rbegin(); name != rest.rend(); ++name) {
    if (*name == "." || (*name == ".." && result.missing.empty())) continue;
    if (*name == "..") {
      result.missing.pop_back();
    } else {
      result.missing.push_back(*name);
    }
  }
  // A detour through a name that is not there may have led back to one that is.
  if (!result.missing.empty() && rest.size() != result.missing.size() &&
      fs::exists(fs::symlink_status(fs::path(result.existing) / result.missing[0], error)))
    return resolve_folder(result.path());
  const auto kind = path_kind(result.existing);
  if (!kind.ok()) return kind.error();
  if (*kind != PathKind::kFolder) return refused(given, quote_name(result.existing) + " is not a folder");
  return result;
}

std::string journal_name(const OutputTarget& target) {
  return target.single_file ? fs::path(target.path).filename().string() + ".tftf-journal" : ".tftf-journal";
}

std::string side_path(const ExecuteOptions& options, const SideOutput& side) {
  if (!side.from.empty()) return side.from;
  const std::string& folder = options.side_folder;
  if (folder == "." || folder.empty()) return side.name;  // as the model's other files are called
  return folder + (folder.back() == '/' ? "" : "/") + side.name;
}

TargetNames target_names(const Plan& plan, const OutputTarget& target, const ExecuteOptions& options) {
  TargetNames names{.finals = {}, .sides = {}, .copied = {}, .journal = journal_name(target)};
  for (const Output& output : plan.outputs())
    names.finals.push_back(target.single_file ? fs::path(target.path).filename().string() : output.name);
  for (const SideOutput& side : plan.sides()) {
    names.sides.push_back(side.name);
    if (side.copied) names.copied.push_back(side.name);
  }
  if (options.last_text != nullptr) names.sides.push_back(options.last_name);
  return names;
}

Result<std::optional<Journal>> read_journal(OutputFolder& folder, const std::string& name) {
  auto there = folder.look(name);
  if (!there.ok()) return std::move(there).error();
  if (!there->has_value()) return std::optional<Journal>();
  if (!(*there)->regular) return refused(folder.path_of(name), "it is there and is not a regular file");
  auto text = folder.read(name, kMaxJournal);
  if (!text.ok()) return std::move(text).error();
  return parse_journal(*text, folder.path_of(name));
}

Result<void> check_place(const OutputTarget& target, const TargetNames& names,
                         const std::vector<Fingerprint>& inputs, const ExecuteOptions& options) {
  const fs::path path(target.path);
  if (target.path.empty() || (target.single_file && !path.has_filename()))
    return Error{.code = ErrorCode::kUsage, .message = "The output has no name."};
  auto resolved = resolve_folder(target_folder(target));
  if (!resolved.ok()) return std::move(resolved).error();
  const fs::path folder = resolved->path();

  const auto places = input_places(inputs, options);
  if (!places.ok()) return places.error();
  const auto inside = lies_in(resolved->existing, places->folders);
  if (!inside.ok()) return inside.error();
  if (*inside) return refused(target.path, "it is or lies in the input folder");
  std::vector<std::string> all = {target.path, (folder / names.journal).string()};
  for (const auto* list : {&names.finals, &names.sides})
    for (const std::string& name : *list)
      for (const std::string& file : {name, part_name(name)}) all.push_back((folder / file).string());
  for (const std::string& file : all) {
    const auto input = is_among(file, places->files);
    if (!input.ok()) return input.error();
    if (*input) return refused(file, "it is an input");
  }

  if (!target.single_file && (!target.beside || options.overwrite) && resolved->missing.empty()) {
    // Stale shards are removed and side files replaced there, whatever they are called.
    auto opened = open_output_folder(resolved->existing);
    if (!opened.ok()) return std::move(opened).error();
    auto listed = (*opened)->list();
    if (!listed.ok()) return std::move(listed).error();
    for (const std::string& name : *listed) {
      const auto input = is_among((folder / name).string(), places->files);
      if (!input.ok()) return input.error();
      if (*input) return refused(target.path, "it holds an input, " + quote_name(name));
    }
  }

  if (target.single_file) {
    const auto kind = path_kind(target.path);
    if (!kind.ok()) return kind.error();
    if (*kind == PathKind::kFolder) return refused(target.path, "it is a folder");
    if (*kind == PathKind::kOther) return refused(target.path, "it is not a regular file");
  }
  return {};
}

Result<void> check_contents(OutputFolder& folder, const OutputTarget& target, const TargetNames& names,
                            bool journal, const ExecuteOptions& options) {
  auto listed = folder.list();
  if (!listed.ok()) return std::move(listed).error();
  std::vector<std::string> ours = names.finals;
  ours.insert(ours.end(), names.sides.begin(), names.sides.end());
  const bool alone = !target.single_file && !target.beside;
  for (const std::string& name : *listed) {
    if (name == names.journal) continue;
    const bool part = is_part_name(name) && contains(ours, name.substr(0, name.size() - kPartSuffix.size()));
    const bool mine = part || contains(ours, name);
    if (!mine && !alone) continue;
    if (mine) {
      auto info = folder.look(name);
      if (!info.ok()) return std::move(info).error();
      if (*info && !(*info)->regular && !fs::is_symlink(folder.path_of(name)))
        return refused(folder.path_of(name), "it is there and is not a regular file");
    }
    if (journal || options.overwrite) continue;
    if (target.beside && contains(names.copied, name) && is_same_copy(folder, name, options)) continue;
    if (is_part_name(name) && !options.resume && (part || alone)) continue;  // removed at the start
    if (part)
      return refused(target.path,
                     "it holds " + quote_name(name) +
                         " of an earlier run and no journal to continue from (--no-resume starts anew)");
    return alone ? refused(target.path, "the folder is not empty, it holds " + quote_name(name) +
                                            " (--overwrite writes into it)")
                 : refused(folder.path_of(name), "it exists already (--overwrite replaces it)");
  }
  return {};
}

}  // namespace tftf
