// Where the adapter lies in what was given: a file, a folder, a training folder, a distributed checkpoint (spec tftf
// 1.6). The host looks, this decides.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// All paths are relative to the folder that was given, or to that of the file that was given, '/' between names;
// "../NAME" lies in the folder around it.
struct FoundAdapter {
  bool distributed = false;        // `path` is a folder with .metadata, else one file of tensors
  std::string path{};              // may be empty: the folder itself
  std::string file{};              // the same in the user's words
  std::vector<FileEntry> files{};  // distributed: the folder's own
  std::optional<std::string> config{};
  std::string config_file{};  // the same in the user's words
  std::vector<std::string> notices{};
  // Files of a tokenizer beside an adapter that is a folder: their paths, by name.
  std::vector<FileEntry> tokenizer{};
};

class AdapterSearch {
 public:
  // `given`: as the user named it; `main`: the name of a lone file, empty for a folder. `distributed`: nothing but
  // distributed checkpoints will do. `configured`: the user named a configuration, none is looked for.
  AdapterSearch(std::string given, std::string main, bool distributed, bool configured)
      : given_(std::move(given)),
        main_(std::move(main)),
        distributed_(distributed),
        configured_(configured) {}

  struct Question {
    std::string path;
    bool entries = false;  // what lies in that folder; else what that path is
  };
  // Nothing when the search has ended.
  std::optional<Question> want();
  // A path: its entry, or none when there is nothing.
  void answer(const Question& question, std::vector<FileEntry> entries);
  // Errors: kUsagePath for a training folder without an adapter and a file where a folder is needed;
  // kRefusedMissing for a folder without one; kIoRead for a configuration that is a folder or a device.
  Result<FoundAdapter> take() { return *std::move(result_); }

 private:
  template <class T>
  using Maybe = std::optional<T>;  // nothing: a question is open

  Maybe<bool> is_file(const std::string& path);
  // The same of a configuration: what has its name and is no file is a mistake.
  Maybe<Result<bool>> is_config(const std::string& path);
  const std::vector<FileEntry>* entries_of(const std::string& folder);
  std::string words_for(const std::string& path) const;

  // Each returns nothing when it cannot go on without an answer.
  Maybe<Result<FoundAdapter>> search();
  Maybe<std::string> last_checkpoint();
  Maybe<Result<FoundAdapter>> search_training(const std::string& name);
  Maybe<std::string> distributed_folder(const std::string& checkpoint);
  Maybe<Result<FoundAdapter>> in_folder(const std::string& folder, const std::string& hint);
  Maybe<Result<FoundAdapter>> with_config(FoundAdapter found, const std::string& hint,
                                          const std::string& beside);
  Maybe<Result<FoundAdapter>> in_distributed(const std::string& folder, const std::string& hint);

  std::string given_, main_;
  bool distributed_, configured_;
  std::map<std::string, std::vector<FileEntry>> paths_, folders_;
  std::optional<Question> open_;
  std::vector<std::string> notices_;
  std::optional<Result<FoundAdapter>> result_;
};

}  // namespace tftf
