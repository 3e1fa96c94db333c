#include "output_parts.h"

#include <algorithm>
#include <set>

#include "posix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr size_t kMaxOpenOutputs = 128;

using OpenMode = OutputFolder::OpenMode;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "model" of "model-00001-of-00002.safetensors" and of "model.safetensors.index.json"; nothing for other
// names.
std::optional<std::string> shard_stem(std::string_view name) {
  constexpr std::string_view kEnd = ".safetensors";
  constexpr std::string_view kIndex = ".safetensors.index.json";
  const auto strip = [&](std::string_view end) {
    if (name.size() <= end.size() || name.substr(name.size() - end.size()) != end) return false;
    name.remove_suffix(end.size());
    return true;
  };
  if (strip(kIndex)) return std::string(name);
  if (!strip(kEnd)) return std::nullopt;
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || !all_digits(name.substr(of + 4))) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (of == 0 || dash == std::string_view::npos || !all_digits(name.substr(dash + 1, of - dash - 1)))
    return std::nullopt;
  return std::string(name.substr(0, dash));
}

}  // namespace

OutputParts::OutputParts(const Plan& plan, std::shared_ptr<OutputFolder> folder, const OutputTarget& target,
                         const std::vector<SeenFile>& sides, const ExecuteOptions& options)
    : plan_(plan),
      folder_(std::move(folder)),
      target_(target),
      names_(target_names(plan, target, options)),
      sides_(sides),
      options_(options),
      files_(kMaxOpenOutputs,
             [this](uint32_t i) { return folder_->open(part_name(names_.finals[i]), OpenMode::kOld); }) {}

Result<void> OutputParts::make(const Journal& before) {
  names_ = target_names(plan_, target_, options_);
  renamed_.resize(plan_.outputs().size(), false);
  const size_t made = made_;
  while (made_ < plan_.outputs().size() && plan_.outputs()[made_].known) TFTF_TRY(make_part(made_++, before));
  // The journal must not know more than the folder.
  return made_ != made ? folder_->sync() : Result<void>();
}

Result<void> OutputParts::make_part(size_t i, const Journal& before) {
  const uint64_t size = plan_.outputs()[i].size;
  const std::string part = part_name(names_.finals[i]);
  const bool has_done = i < before.done.size() && !before.done[i].empty();
  auto there = folder_->look(part);
  if (!there.ok()) return std::move(there).error();
  if (has_done) {
    const auto refused = [&](const std::string& why) {
      return Error{.code = ErrorCode::kRefusedJournal,
                   .message = "Cannot continue from journal " + quote_name(folder_->path_of(names_.journal)) +
                              ": " + why + "; --no-resume discards it and starts anew.",
                   .file = folder_->path_of(names_.journal)};
    };
    if (*there) {
      if (!(*there)->regular || (*there)->fingerprint.size != size)
        return refused("part " + quote_name(part) + " is not the one it was written for");
    } else {
      // Renamed by a run that ended before it could note that.
      auto last = folder_->look(names_.finals[i]);
      if (!last.ok()) return std::move(last).error();
      if (!*last || !(*last)->regular || (*last)->fingerprint.size != size || !before.done[i].covers(0, size))
        return refused("part " + quote_name(part) + " is missing");
      renamed_[i] = true;
      return {};
    }
  } else if (*there) {
    TFTF_TRY(folder_->remove(part));
    there->reset();
  }
  auto file = folder_->open(part, *there ? OpenMode::kOld : OpenMode::kNew);
  if (!file.ok()) return std::move(file).error();
  return (*file)->allocate(size);
}

Result<void> OutputParts::publish(JournalWriter& journal) {
  const size_t count = plan_.outputs().size();
  for (uint32_t i = 0; i < count; ++i) {
    if (renamed_[i]) continue;
    auto file = files_.get(i);
    if (!file.ok()) return std::move(file).error();
    TFTF_TRY((*file)->sync());
  }
  files_.close_all();
  // An old index must not name new shards if this is the moment the power fails.
  if (options_.overwrite)
    for (const SideOutput& side : plan_.sides())
      if (side.is_index) TFTF_TRY(folder_->remove(side.name));
  for (uint32_t i = 0; i < count; ++i) {
    if (renamed_[i]) continue;
    TFTF_TRY(folder_->rename(part_name(names_.finals[i]), names_.finals[i]));
    TFTF_TRY(journal.note(journal_renamed_line(i)));
  }
  for (const SideOutput& side : plan_.sides())
    if (!side.is_index) TFTF_TRY(write_side(side));
  TFTF_TRY(folder_->sync());
  bool index = false;
  for (const SideOutput& side : plan_.sides())
    if (side.is_index) {
      TFTF_TRY(write_side(side));
      index = true;
    }
  if (index) TFTF_TRY(folder_->sync());
  if (index && options_.overwrite) TFTF_TRY(remove_stale());
  if (options_.last_text != nullptr) {
    auto text = options_.last_text();
    if (!text.ok()) return std::move(text).error();
    TFTF_TRY(write_side({.name = options_.last_name, .copied = false, .bytes = *std::move(text)}));
    TFTF_TRY(folder_->sync());
  }
  TFTF_TRY(folder_->remove(names_.journal));
  // All is done and durable. A journal that comes back after a crash does no harm: the same command ends at once.
  (void)folder_->sync();
  return {};
}

Result<void> OutputParts::write_side(const SideOutput& side) {
  const std::string part = part_name(side.name);
  TFTF_TRY(folder_->remove(part));
  auto file = folder_->open(part, OpenMode::kNew);
  if (!file.ok()) return std::move(file).error();
  if (side.copied) {
    TFTF_TRY(copy_side(**file, side));
  } else {
    TFTF_TRY((*file)->write(0, as_bytes(side.bytes)));
  }
  TFTF_TRY((*file)->sync());
  return folder_->rename(part, side.name);
}

Result<void> OutputParts::copy_side(OutputFile& file, const SideOutput& side) {
  const std::string path = side_path(options_, side);
  auto from = open_file_source(path);
  if (!from.ok()) return std::move(from).error();
  std::vector<std::byte> buffer;
  TFTF_TRY(file.copy(0, **from, 0, (*from)->size(), buffer));
  struct stat info {};
  if (retry([&] { return ::fstat((*from)->descriptor(), &info); }) != 0)
    return system_error(ErrorCode::kIoRead, "look at", path, errno);
  for (const SeenFile& seen : sides_)
    if (seen.path == path && !(seen.seen == fingerprint_of(info)))
      return Error{.code = ErrorCode::kIoChanged,
                   .message = "Input " + quote_name(path) + " has changed while the run went on.",
                   .file = path};
  return file.set_attributes(info.st_mode, fingerprint_of(info).mtime_ns);
}

Result<void> OutputParts::remove_stale() {
  std::set<std::string> keep(names_.finals.begin(), names_.finals.end());
  keep.insert(names_.sides.begin(), names_.sides.end());
  std::set<std::string> stems;
  for (const std::string& name : keep)
    if (auto stem = shard_stem(name)) stems.insert(*stem);
  auto listed = folder_->list();
  if (!listed.ok()) return std::move(listed).error();
  for (const std::string& name : *listed) {
    const auto stem = shard_stem(name);
    if (stem && stems.count(*stem) != 0 && keep.count(name) == 0) TFTF_TRY(folder_->remove(name));
  }
  return {};
}

void OutputParts::discard() {
  files_.close_all();
  for (const auto* names : {&names_.finals, &names_.sides})
    for (const std::string& name : *names) (void)folder_->remove(part_name(name));
  (void)folder_->remove(names_.journal);
}

Error OutputParts::space_error(Error error) const {
  const auto free = folder_->free_bytes();
  if (error.code != ErrorCode::kIoSpace || !free) return error;
  uint64_t needed = 0;
  for (size_t i = 0; i < plan_.outputs().size(); ++i) {
    const Output& output = plan_.outputs()[i];
    if (!output.known || renamed_[i]) continue;
    auto part = folder_->look(part_name(names_.finals[i]));
    const uint64_t has = part.ok() && *part ? (*part)->allocated : 0;
    needed += output.size - std::min(output.size, has);
  }
  // Free space may lie in pieces, or be kept from us by a quota: at least a byte is missing.
  const uint64_t missing = std::max<uint64_t>(needed - std::min(needed, *free), 1);
  error.message = "The destination of " + quote_name(error.file) + " is full: " + std::to_string(missing) +
                  " more bytes are needed (" + std::to_string(needed) + " to write, " +
                  std::to_string(*free) + " free).";
  error.expected = std::to_string(needed);
  error.found = std::to_string(*free);
  return error;
}

}  // namespace tftf
