#include "model.h"

#include "tftf/base/error_json.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/adapter_info.h"
#include "tftf/transform/operation.h"

namespace tftf::wasm {
namespace {

// {"given", "main" or null, "index", "files", "strict", "maxHeader"}
ModelReader* open_model(const std::string& request) {
  const JsonValue given = parse_argument(request);
  ModelListing listing;
  listing.given = text_of(given, "given");
  listing.main = text_of(given, "main");
  if (!listing.main.empty())
    listing.kind = flag_of(given, "index") ? ModelListing::Kind::kIndex : ModelListing::Kind::kFile;
  for (const JsonValue& file : given.get("files")->elements) listing.files.push_back(file_entry(file));
  ReaderOptions options;
  options.mode = flag_of(given, "strict") ? ReadMode::kTransform : ReadMode::kInspect;
  options.max_header = number_of(given, "maxHeader", kDefaultMaxHeader);
  return new ModelReader(std::move(listing), options);
}

std::string text_of_error(const std::optional<Error>& error) {
  return error ? json_text(error_json(*error)) : std::string();
}

template <class Pump>
std::string wanted(Pump& pump, Requests<ReadRequest>& requests) {
  OrderedJson list = OrderedJson::array();
  for (ReadRequest& request : pump.want()) {
    OrderedJson line = range_line(request.file, request.range.offset, request.range.length);
    requests.add(list, std::move(line), std::move(request));
  }
  return json_text(list);
}

}  // namespace

FileEntry file_entry(const JsonValue& value) {
  FileEntry entry;
  entry.name = text_of(value, "path");
  entry.size = number_of(value, "size", 0);
  entry.folder = flag_of(value, "folder");
  entry.unreadable = text_of(value, "unreadable");
  entry.regular = !entry.folder && !flag_of(value, "irregular");
  return entry;
}

std::string ModelReader::want_files() { return json_text(OrderedJson(reader_.want_files())); }

void ModelReader::add_file(const std::string& name, const std::string& entry) {
  std::optional<FileEntry> file;
  if (!entry.empty()) file = file_entry(parse_argument(entry));
  reader_.add_file(name, std::move(file));
}

std::string ModelReader::want() { return wanted(reader_, requests_); }

void ModelReader::supply(uint32_t id, uintptr_t data, uint32_t length) {
  reader_.supply(requests_.at(id), bytes_at(data, length));
}

void ModelReader::fail(uint32_t id, const std::string& reason) { reader_.fail(requests_.at(id), reason); }

Model* ModelReader::take() { return new Model(need(reader_.take())); }

std::string Model::want() {
  if (!inspector_) inspector_.emplace(*checkpoint_);
  return wanted(*inspector_, requests_);
}

void Model::supply(uint32_t id, uintptr_t data, uint32_t length) {
  inspector_->supply(requests_.at(id), bytes_at(data, length));
}

void Model::fail(uint32_t id, const std::string&) { inspector_->fail(requests_.at(id)); }

const ModelInfo& Model::inspected() {
  if (!info_) {
    if (!inspector_) inspector_.emplace(*checkpoint_);
    info_ = inspector_->take();
    inspector_.reset();
  }
  return *info_;
}

std::string Model::refusal() const { return text_of_error(nothing_to_inspect(*checkpoint_)); }
std::string Model::broken() { return text_of_error(broken_model(inspected())); }
std::string Model::info(const std::string& filter) { return info_json_text(inspected(), filter); }

std::string Model::info_text(const std::string& options) {
  const JsonValue given = parse_argument(options);
  InfoTextOptions text;
  text.filter = text_of(given, "filter");
  text.dtype_summary = flag_of(given, "dtypeSummary");
  text.offsets = flag_of(given, "offsets");
  text.fold = flag_of(given, "fold");
  text.width = static_cast<uint32_t>(number_of(given, "width", 0));
  text.ascii = flag_of(given, "ascii");
  return tftf::info_text(inspected(), text);
}

std::string Model::adapter_info(bool text) {
  return text ? adapter_info_text(inspected()) : json_text(adapter_info_json(inspected()));
}
std::string Model::no_adapter() { return text_of_error(tftf::no_adapter(inspected())); }

bool Model::matches(const std::string& filter) { return !filtered_rows(inspected(), filter).empty(); }

std::string Model::operations() const { return json_text(operations_json(checkpoint_.get())); }

std::string Model::side_files() const {
  OrderedJson list = OrderedJson::array();
  const auto add = [&list](const std::string& name, const std::string& text) {
    OrderedJson file;
    file["name"] = name;
    file["text"] = text;
    list.push_back(std::move(file));
  };
  if (checkpoint_->index) add(checkpoint_->index->file, checkpoint_->index->text);
  for (const SideFile& file : checkpoint_->side_files) add(file.name, file.text);
  return json_text(list);
}

TensorRef Model::tensor_ref(uint32_t row) {
  const ModelInfo& info = inspected();
  if (row >= info.rows.size())
    throw Failure{{.code = ErrorCode::kUsage, .message = "There is no tensor of that number."}};
  return info.rows[row].tensor;
}

TensorRef Model::tensor_named(const std::string& name) const {
  const std::optional<TensorRef> found = checkpoint_->find(name);
  const std::string& given = checkpoint_->listing.given;
  if (!found)
    throw Failure{{.code = ErrorCode::kRefusedMissing,
                   .message = "There is no tensor " + quote_name(name) + " in " + quote_name(given) + ".",
                   .file = given}};
  return *found;
}

std::string Model::tensor(uint32_t row) {
  const TensorRef ref = tensor_ref(row);
  const Shard& shard = checkpoint_->shards[ref.shard];
  const TensorInfo& tensor = checkpoint_->info(ref);
  OrderedJson out;
  out["name"] = tensor.name;
  out["dtype"] = std::string(dtype_name(tensor.dtype));
  out["bits"] = dtype_bits(tensor.dtype);
  out["shape"] = OrderedJson::array();
  for (const uint64_t dimension : tensor.shape) out["shape"].push_back(to_number(dimension));
  out["file"] = shard.name;
  out["offset"] = to_number(shard.header.data_offset() + tensor.begin);
  out["bytes"] = to_number(tensor.bytes());
  return json_text(out);
}

std::string all_operations_text() { return json_text(operations_json(nullptr)); }

EMSCRIPTEN_BINDINGS(tftf_model) {
  using namespace emscripten;
  function("openModel", guard<&open_model>, allow_raw_pointers());
  function("operations", guard<&all_operations_text>);
  class_<ModelReader>("ModelReader")
      .function("wantFiles", guard<&ModelReader::want_files>)
      .function("addFile", guard<&ModelReader::add_file>)
      .function("want", guard<&ModelReader::want>)
      .function("supply", guard<&ModelReader::supply>)
      .function("fail", guard<&ModelReader::fail>)
      .function("done", guard<&ModelReader::done>)
      .function("take", guard<&ModelReader::take>, allow_raw_pointers());
  class_<Model>("Model")
      .function("want", guard<&Model::want>)
      .function("supply", guard<&Model::supply>)
      .function("fail", guard<&Model::fail>)
      .function("refusal", guard<&Model::refusal>)
      .function("broken", guard<&Model::broken>)
      .function("info", guard<&Model::info>)
      .function("table", guard<&Model::table>)
      .function("infoText", guard<&Model::info_text>)
      .function("adapterInfo", guard<&Model::adapter_info>)
      .function("noAdapter", guard<&Model::no_adapter>)
      .function("matches", guard<&Model::matches>)
      .function("operations", guard<&Model::operations>)
      .function("sideFiles", guard<&Model::side_files>)
      .function("tensor", guard<&Model::tensor>);
}

}  // namespace tftf::wasm
