#include "adapter.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/natural_order.h"
#include "tftf/container/header.h"

namespace tftf::wasm {
namespace {

// {"given", "main" or null, "distributed", "configured"}
AdapterLoad* open_adapter(const std::string& request) {
  const JsonValue given = parse_argument(request);
  return new AdapterLoad(AdapterSearch(text_of(given, "given"), text_of(given, "main"),
                                       flag_of(given, "distributed"), flag_of(given, "configured")));
}

// ["NAME"] by the numbers in the names.
std::string natural_order(const std::string& names) {
  std::vector<std::string> sorted;
  for (const JsonValue& name : parse_argument(names).elements) sorted.push_back(name.text);
  std::sort(sorted.begin(), sorted.end(), natural_less);
  return json_text(OrderedJson(sorted));
}

AdapterList* open_adapter_list() { return new AdapterList(); }

}  // namespace

std::string AdapterLoad::ask() {
  question_ = search_.want();
  if (!question_) return {};
  OrderedJson out;
  out["path"] = question_->path;
  out["entries"] = question_->entries;
  return json_text(out);
}

void AdapterLoad::answer(const std::string& entries) {
  std::vector<FileEntry> files;
  for (const JsonValue& entry : parse_argument(entries).elements) files.push_back(file_entry(entry));
  search_.answer(*question_, std::move(files));
}

std::string AdapterLoad::found() {
  FoundAdapter found = need(search_.take());
  files_ = std::move(found.files);
  OrderedJson out;
  out["distributed"] = found.distributed;
  out["path"] = found.path;
  out["file"] = found.file;
  out["config"] = found.config ? OrderedJson(*found.config) : OrderedJson();
  out["configFile"] = found.config_file;
  out["notices"] = found.notices;
  out["tokenizer"] = OrderedJson::array();
  for (const FileEntry& file : found.tokenizer) out["tokenizer"].push_back(file.name);
  return json_text(out);
}

void AdapterLoad::begin(const Model& model) { loader_.emplace(model.checkpoint()); }
void AdapterLoad::begin_distributed() { distributed_.emplace(std::move(files_)); }

std::string AdapterLoad::want() {
  OrderedJson list = OrderedJson::array();
  const auto add = [&](ReadRequest request) {
    OrderedJson line = range_line(request.file, request.range.offset, request.range.length);
    requests_.add(list, std::move(line), std::move(request));
  };
  if (distributed_) {
    for (ReadRequest& request : distributed_->want()) add(std::move(request));
  } else if (auto request = loader_->want()) {
    add(*std::move(request));
  }
  return json_text(list);
}

void AdapterLoad::supply(uint32_t id, uintptr_t data, uint32_t length) {
  if (distributed_)
    distributed_->supply(requests_.at(id), bytes_at(data, length));
  else
    loader_->supply(bytes_at(data, length));
}

void AdapterLoad::fail(uint32_t id, const std::string& reason) {
  const ReadRequest& request = requests_.at(id);
  if (distributed_) return distributed_->fail(request, reason);
  throw Failure{{.code = ErrorCode::kIoRead,
                 .message = "Cannot read " + quote_name(request.file) + ": " + reason + ".",
                 .file = request.file,
                 .found = reason}};
}

void AdapterLoad::end() {
  if (loader_) metadata_ = loader_->metadata();
  ranks_.push_back(distributed_ ? need(distributed_->take()) : loader_->take());
  distributed_.reset();
  loader_.reset();
}

void AdapterLoad::archive(uintptr_t data, uint32_t length) {
  ranks_.push_back(need(read_torch_state(bytes_at(data, length))));
}

void AdapterLoad::configure(const std::string& file, uintptr_t text, uint32_t length) {
  config_ = AdapterConfigText{file, std::string(as_text(bytes_at(text, length)))};
}

void AdapterLoad::tokenizer_file(const std::string& name, bool read, uintptr_t text, uint32_t length) {
  AdapterSideFile file{.name = name};
  if (read) file.text = std::string(as_text(bytes_at(text, length)));
  tokenizer_.push_back(std::move(file));
}

void AdapterLoad::make(const std::string& request) {
  const JsonValue given = parse_argument(request);
  std::vector<std::string> files = texts_of(given, "files");
  std::vector<std::string> notices = texts_of(given, "notices");
  if (given.get("shardDim") != nullptr) {
    adapter_ = need(make_sharded_adapter(text_of(given, "given"), std::move(files), std::move(ranks_),
                                         static_cast<uint32_t>(number_of(given, "shardDim", 0)), config_,
                                         std::move(notices)));
  } else {
    adapter_ = need(make_adapter(text_of(given, "given"), std::move(files.at(0)), std::move(ranks_.at(0)),
                                 config_, std::move(notices), std::move(metadata_), std::move(tokenizer_)));
  }
  ranks_.clear();
}

std::string AdapterLoad::content() {
  std::vector<OutputEntry> entries;
  for (const NamedTensor& tensor : adapter_->tensors)
    entries.push_back({tensor.name, tensor.data.dtype, tensor.data.shape});
  header_ = need(write_header(entries, {{"format", "pt"}}, HeaderForm::kReference));
  OrderedJson out;
  out["pieces"] = OrderedJson::array();
  const auto add = [&](const void* data, size_t length) {
    if (length > 0) out["pieces"].push_back({reinterpret_cast<uintptr_t>(data), length});
  };
  add(header_.data(), header_.size());
  for (const NamedTensor& tensor : adapter_->tensors) add(tensor.data.bytes.data(), tensor.data.bytes.size());
  out["config"] = config_ ? OrderedJson(config_->text) : OrderedJson();
  out["notices"] = adapter_->notices;
  return json_text(out);
}

uint32_t AdapterList::add(const AdapterLoad& load) {
  adapters_.push_back(load.adapter());
  return static_cast<uint32_t>(adapters_.size() - 1);
}

const std::shared_ptr<const Adapter>& AdapterList::at(uint64_t number) const {
  if (number >= adapters_.size())
    throw Failure{{.code = ErrorCode::kInternal, .message = "There is no such adapter."}};
  return adapters_[static_cast<size_t>(number)];
}

uint32_t AdapterList::add_model(Model& model, const std::string& place, const std::string& folder) {
  std::vector<FileEntry> files;
  for (const JsonValue& entry : parse_argument(folder).elements) files.push_back(file_entry(entry));
  models_.push_back(other_model(model.release(), place, std::move(files)));
  return static_cast<uint32_t>(models_.size() - 1);
}

const std::shared_ptr<const OtherModel>& AdapterList::model_at(uint64_t number) const {
  if (number >= models_.size())
    throw Failure{{.code = ErrorCode::kInternal, .message = "There is no such model."}};
  return models_[static_cast<size_t>(number)];
}

uint32_t AdapterList::add_file(uintptr_t data, uint32_t length) {
  files_.push_back(std::make_shared<const std::string>(as_text(bytes_at(data, length))));
  return static_cast<uint32_t>(files_.size() - 1);
}

const std::shared_ptr<const std::string>& AdapterList::file_at(uint64_t number) const {
  if (number >= files_.size())
    throw Failure{{.code = ErrorCode::kInternal, .message = "There is no such file."}};
  return files_[static_cast<size_t>(number)];
}

EMSCRIPTEN_BINDINGS(tftf_adapter) {
  using namespace emscripten;
  function("openAdapter", guard<&open_adapter>, allow_raw_pointers());
  function("openAdapterList", guard<&open_adapter_list>, allow_raw_pointers());
  function("naturalOrder", guard<&natural_order>);
  class_<AdapterLoad>("AdapterLoad")
      .function("ask", guard<&AdapterLoad::ask>)
      .function("answer", guard<&AdapterLoad::answer>)
      .function("found", guard<&AdapterLoad::found>)
      .function("begin", guard<&AdapterLoad::begin>)
      .function("beginDistributed", guard<&AdapterLoad::begin_distributed>)
      .function("want", guard<&AdapterLoad::want>)
      .function("supply", guard<&AdapterLoad::supply>)
      .function("fail", guard<&AdapterLoad::fail>)
      .function("end", guard<&AdapterLoad::end>)
      .function("archive", guard<&AdapterLoad::archive>)
      .function("configure", guard<&AdapterLoad::configure>)
      .function("tokenizerFile", guard<&AdapterLoad::tokenizer_file>)
      .function("make", guard<&AdapterLoad::make>)
      .function("content", guard<&AdapterLoad::content>);
  class_<AdapterList>("AdapterList")
      .function("add", guard<&AdapterList::add>)
      .function("addModel", guard<&AdapterList::add_model>)
      .function("addFile", guard<&AdapterList::add_file>);
}

}  // namespace tftf::wasm
