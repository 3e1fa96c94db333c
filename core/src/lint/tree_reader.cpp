#include "lint/tree_reader.h"

#include <utility>

#include "lint/file_names.h"
#include "lint/index/index_rules.h"

namespace tftf {

TreeReader::TreeReader(LintSource source, LintInput input, uint64_t max_header)
    : tree(std::move(input)), source_(source), max_header_(max_header) {
  by_entry_.resize(tree.input.entries.size());
  for (uint32_t i = 0; i < tree.files.size(); ++i) by_entry_[tree.files[i].entry] = i;
  choose_files();
}

void TreeReader::choose_files() {
  if (!tree.input.main.empty()) {
    if (const std::optional<uint32_t> main = tree.find(tree.input.main))
      start(*main, is_index_name(tree.files[*main].name) ? Wanted::kIndex : Wanted::kHeader);
    return;
  }
  // The base is the folder's own model.
  const size_t folders = source_ == LintSource::kBase ? 1 : tree.folders.size();
  for (size_t i = 0; i < folders; ++i)
    for (uint32_t number : tree.folders[i].files) choose_folder_file(tree.folders[i], tree.files[number]);
}

void TreeReader::choose_folder_file(const TreeFolder& folder, TreeFile& file) {
  const auto number = static_cast<uint32_t>(&file - tree.files.data());
  if (ends_with(file.name, ".safetensors")) return start(number, Wanted::kHeader);
  if (is_index_name(file.name)) return start(number, Wanted::kIndex);
  if (source_ == LintSource::kBase) {
    // Its model type tells which other names and forms its tensors may have.
    if (file.name == "config.json") start(number, Wanted::kText);
    return;
  }
  const bool read = file.name == "config.json" || file.name == "hf_quant_config.json" ||
                    file.name == "quantize_config.json" || file.name == "quant_config.json" ||
                    file.name == "model_index.json" || file.name == "adapter_config.json" ||
                    file.name == "repack-manifest.json" ||
                    (file.name == "tokenizer.json" && tree.file_in(folder, "config.json"));
  if (read) start(number, Wanted::kText);
}

void TreeReader::start(uint32_t number, Wanted wanted) {
  TreeFile& file = tree.files[number];
  if (file.wanted != Wanted::kNothing) return;
  file.wanted = wanted;
  if (wanted == Wanted::kHeader) {
    HeaderOptions options;
    options.max_header = max_header_;
    file.reader = std::make_unique<HeaderReader>(std::string(file.path), file.size, options);
    if (!file.unreadable.empty()) file.reader->fail(file.unreadable);
    return advance_header(number);
  }
  if (file.unreadable.empty() && file.size > kMaxSideFile)
    file.unreadable = "it is larger than " + std::to_string(kMaxSideFile) + " bytes";
  if (!file.unreadable.empty())
    file.done = true;
  else if (file.size == 0)
    finish_text(number, {});
  else
    request(number, {0, file.size});
}

void TreeReader::request(uint32_t number, ByteRange range) {
  const TreeFile& file = tree.files[number];
  ready_.push_back({source_, file.entry, std::string(file.path), range});
}

void TreeReader::advance_header(uint32_t number) {
  TreeFile& file = tree.files[number];
  if (const std::optional<ByteRange> range = file.reader->want()) return request(number, *range);
  file.scan = file.reader->take();
  file.reader.reset();
  file.done = true;
  if (source_ == LintSource::kBase) return;
  file.colibri.choose(*file.scan);
  for (const ByteRange& range : file.colibri.ranges()) request(number, range);
}

void TreeReader::finish_text(uint32_t number, Bytes bytes) {
  TreeFile& file = tree.files[number];
  file.done = true;
  file.text = std::string(as_text(bytes));
  if (file.wanted != Wanted::kIndex) return;
  file.index = std::make_unique<IndexDocument>(file.text);
  if (!file.index->usable()) return;
  // In a folder its shards are read anyway, where it is linted as a whole.
  if (source_ == LintSource::kInput && tree.input.main.empty()) return;
  for (const ShardUse& use : find_shards(tree, tree.folders.front(), *file.index))
    if (use.present()) start(*use.file, Wanted::kHeader);
}

TreeFile& TreeReader::file_of(const LintRequest& request, uint32_t& number) {
  number = by_entry_.at(request.entry);
  return tree.files[number];
}

std::vector<LintRequest> TreeReader::want() { return std::exchange(ready_, {}); }

void TreeReader::supply(const LintRequest& request, Bytes bytes) {
  uint32_t number = 0;
  TreeFile& file = file_of(request, number);
  if (file.done) {
    if (file.scan) file.colibri.supply(*file.scan, request.range, bytes);
    return;
  }
  if (file.wanted != Wanted::kHeader) {
    if (bytes.size() != request.range.length) return fail(request, "it became shorter while it was read");
    return finish_text(number, bytes);
  }
  file.reader->supply(bytes);
  advance_header(number);
}

void TreeReader::fail(const LintRequest& request, std::string reason) {
  uint32_t number = 0;
  TreeFile& file = file_of(request, number);
  if (file.done) return;
  file.unreadable = std::move(reason);
  if (file.wanted != Wanted::kHeader) {
    file.done = true;
    return;
  }
  file.reader->fail(file.unreadable);
  advance_header(number);
}

}  // namespace tftf
