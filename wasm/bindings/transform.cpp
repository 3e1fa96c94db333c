// Plans and their execution for JavaScript. Reading, writing and the order of things are the driver's
// (wasm/src/run.ts); what happens to the bytes is the plan's.
#include <algorithm>
#include <memory>
#include <optional>

#include "adapter.h"
#include "border.h"
#include "model.h"
#include "tftf/checkpoint/lone_shard.h"
#include "tftf/command/adapter_request.h"
#include "tftf/command/colibri_request.h"
#include "tftf/command/command_line.h"
#include "tftf/simd/kernels.h"
#include "tftf/transform/adapter_tool.h"
#include "tftf/transform/planner.h"
#include "tftf/transform/validation.h"

namespace tftf::wasm {
namespace {

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kSlotAlign)); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedBytes aligned_bytes(uint64_t bytes) {
  const auto length = static_cast<size_t>(std::max<uint64_t>(bytes, 1));
  if (length < bytes) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(::operator new[](length, std::align_val_t(kSlotAlign))));
}

constexpr uint64_t kNone = ~uint64_t{0};

class Transformation {
 public:
  Transformation(const Checkpoint& checkpoint, TransformRequest request)
      : checkpoint_(checkpoint), planner_(std::make_unique<Planner>(checkpoint, std::move(request))) {}

  std::string want() {
    OrderedJson list = OrderedJson::array();
    for (ReadRequest& request : planner_->want()) {
      OrderedJson line = range_line(request.file, request.range.offset, request.range.length);
      requests_.add(list, std::move(line), std::move(request));
    }
    return json_text(list);
  }
  void supply(uint32_t id, uintptr_t data, uint32_t length) {
    planner_->supply(requests_.at(id), bytes_at(data, length));
  }
  void fail(uint32_t id, const std::string& reason) { planner_->fail(requests_.at(id), reason); }
  void take() {
    transform_ = need(planner_->take());
    planner_.reset();
  }

  // Of a converter of folders: sentences that are no warnings, the file that is written last (empty: none), and its text
  // from the digests of all outputs, hexadecimal SHA-256.
  std::string notes() const { return json_text(OrderedJson(transform_->notes)); }
  std::string manifest_name() const { return transform_->manifest_name; }
  std::string manifest(const std::string& digests) const {
    std::vector<std::string> list;
    for (const JsonValue& digest : parse_argument(digests).elements) list.push_back(digest.text);
    return transform_->manifest(plan(), list);
  }

  // After take(), with the text of an index beside a lone file; true when the warning was added.
  bool warn_of_index(const std::string& name, uintptr_t text, uint32_t length) {
    auto warning = lone_shard_warning(checkpoint_.listing, name, as_text(bytes_at(text, length)));
    if (warning) told().warnings.push_back(*std::move(warning));
    return warning.has_value();
  }
  std::string text(bool steps) const { return plan().to_text(steps); }
  std::string account() const { return json_text(told().to_json()); }
  std::string account_text(bool all_names) const { return told().to_text(all_names); }
  // {"inputs": [{"path", "size"}], "outputs": [{"name", "size", "known"}], "sides": [{"name", "copied", "from", "size",
  // "data", "index"}], "read", "written", "memory", "phases"}
  std::string summary() const;
  // {"first", "count", "firstCopy", "copies", "firstLiteral", "literals", "inBytes", "outBytes", "readBytes",
  // "writes"}
  std::string phase(uint32_t index) const;
  void begin_phase(uint32_t index);
  void end_phase(uint32_t index) { need(transform_->plan.finish(index, values_)); }

  // inputs, outputs, residents, entry; then file, rows, offset, row bytes and stride of each extent, inputs
  // first; then the numbers of the residents.
  uintptr_t io(double step);
  // `pointers`: where the inputs and then the outputs of the step lie. Residents that it needs are loaded.
  void run(double step, uintptr_t pointers);

  bool resident_loaded(uint32_t index) const {
    return index < residents_.size() && residents_[index].bytes != nullptr;
  }
  // Its extents as io() gives them: their number, raw bytes, extents.
  uintptr_t resident(uint32_t index);
  void load_resident(uint32_t index, uintptr_t raw);
  // A resident that is gathered: its tiles (0: it is not), the extents of one as resident() gives them without raw
  // bytes, and the tile itself. `step`: the one that needs it; the first tile begins it, the last loads it.
  double gather_tiles(uint32_t index) const { return to_number(plan().gather_tiles(index)); }
  uintptr_t gather_io(uint32_t index, double tile);
  void gather(double step, uint32_t index, double tile, uintptr_t pointers);

  // From file, offset, bytes, to file, offset.
  uintptr_t copy(uint32_t index);
  // File, offset, bytes, where they lie.
  uintptr_t literal(uint32_t index);
  std::string entry_name(uint32_t entry) const { return plan().entries()[entry].name; }

  void finish(double bytes_read, double bytes_written) {
    const uint64_t read = from_number(bytes_read), written = from_number(bytes_written);
    told() = transform_->final_account(read, written, false);
  }
  std::string validation(bool text, bool verbose, double elapsed_ms) const {
    const ValidationReport report{&*transform_, from_number(elapsed_ms)};
    return text ? report.to_text(verbose) : json_text(report.to_json(verbose));
  }

 private:
  struct LoadedResident {
    AlignedBytes bytes;
    uint64_t left = 0;     // steps still to come
    uint32_t counted = 0;  // of Resident::users
  };
  const Plan& plan() const { return transform_->plan; }
  Account& told() { return transform_->account; }
  const Account& told() const { return transform_->account; }
  void push(const Extent& extent) {
    for (const uint64_t number :
         {uint64_t{extent.file}, uint64_t{extent.rows}, extent.offset, extent.row_bytes, extent.stride})
      numbers_.push_back(to_number(number));
  }
  uintptr_t numbers() const { return reinterpret_cast<uintptr_t>(numbers_.data()); }

  const Checkpoint& checkpoint_;  // JavaScript keeps the model
  std::unique_ptr<Planner> planner_;
  Requests<ReadRequest> requests_;
  std::optional<Transform> transform_;
  std::vector<Value> values_;
  AlignedBytes scratch_;
  AlignedBytes gathering_, gather_scratch_;
  uint64_t scratch_bytes_ = 0;
  uint32_t phase_ = 0;
  StepIo io_;
  std::vector<double> numbers_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<Bytes> ready_;
  std::vector<LoadedResident> residents_;
};

std::string Transformation::summary() const {
  OrderedJson out;
  out["inputs"] = OrderedJson::array();
  for (const Input& input : plan().inputs()) {
    OrderedJson one;
    one["path"] = input.path;
    one["size"] = to_number(input.size);
    out["inputs"].push_back(std::move(one));
  }
  out["outputs"] = OrderedJson::array();
  for (const Output& output : plan().outputs()) {
    OrderedJson one;
    one["name"] = output.name;
    one["size"] = to_number(output.size);
    one["known"] = output.known;
    out["outputs"].push_back(std::move(one));
  }
  out["sides"] = OrderedJson::array();
  for (const SideOutput& side : plan().sides()) {
    OrderedJson one;
    one["name"] = side.name;
    one["copied"] = side.copied;
    one["from"] = side.from.empty() ? side.name : side.from;
    one["size"] = side.bytes.size();
    one["data"] = reinterpret_cast<uintptr_t>(side.bytes.data());
    one["index"] = side.is_index;
    out["sides"].push_back(std::move(one));
  }
  out["read"] = to_number(plan().read_bytes());
  out["written"] = to_number(plan().written_bytes());
  out["memory"] = to_number(plan().memory_bytes(1));
  out["phases"] = plan().phases().size();
  return json_text(out);
}

std::string Transformation::phase(uint32_t index) const {
  const Phase& phase = plan().phases()[index];
  OrderedJson out;
  out["first"] = to_number(phase.first);
  out["count"] = to_number(phase.count);
  out["firstCopy"] = phase.first_copy;
  out["copies"] = phase.copy_count;
  out["firstLiteral"] = phase.first_literal;
  out["literals"] = phase.literal_count;
  out["inBytes"] = to_number(phase.in_bytes);
  out["outBytes"] = to_number(phase.out_bytes);
  out["readBytes"] = to_number(phase.read_bytes);
  out["writes"] = phase.writes;
  return json_text(out);
}

void Transformation::begin_phase(uint32_t index) {
  const Phase& phase = plan().phases()[index];
  phase_ = index;
  values_.assign(static_cast<size_t>(phase.value_count()), Value{});
  scratch_bytes_ = phase.scratch_bytes;
  scratch_ = aligned_bytes(scratch_bytes_);
  // Phases may have been appended, and with them users.
  residents_.resize(plan().residents().size());
  for (size_t i = 0; i < residents_.size(); ++i) {
    const uint32_t users = plan().residents()[i].users;
    residents_[i].left += users - residents_[i].counted;
    residents_[i].counted = users;
  }
}

uintptr_t Transformation::io(double step) {
  const uint64_t at = from_number(step);
  plan().io(at, io_);
  const std::span<const uint32_t> residents = plan().residents_of(at);
  numbers_.clear();
  numbers_.push_back(static_cast<double>(io_.in.size()));
  numbers_.push_back(static_cast<double>(io_.out.size()));
  numbers_.push_back(static_cast<double>(residents.size()));
  numbers_.push_back(plan().items()[plan().item_of(at)].tensor);
  for (const Extent& extent : io_.in) push(extent);
  for (const Extent& extent : io_.out) push(extent);
  for (const uint32_t resident : residents) numbers_.push_back(resident);
  return numbers();
}

void Transformation::run(double step, uintptr_t pointers) {
  const uint64_t at = from_number(step);
  plan().io(at, io_);
  const auto* table = reinterpret_cast<const uintptr_t*>(pointers);
  in_.clear();
  out_.clear();
  ready_.clear();
  for (size_t i = 0; i < io_.in.size(); ++i) in_.push_back(reinterpret_cast<const std::byte*>(*table++));
  for (size_t i = 0; i < io_.out.size(); ++i) out_.push_back(reinterpret_cast<std::byte*>(*table++));
  const std::span<const uint32_t> residents = plan().residents_of(at);
  for (const uint32_t r : residents)
    ready_.emplace_back(residents_[r].bytes.get(), static_cast<size_t>(plan().residents()[r].ready_bytes));
  Value value;
  plan().run(at, best_kernels(),
             {.in = in_,
              .out = out_,
              .scratch = {scratch_.get(), static_cast<size_t>(scratch_bytes_)},
              .residents = ready_},
             value);
  for (const uint32_t r : residents)
    if (--residents_[r].left == 0) residents_[r].bytes.reset();
  const Phase& phase = plan().phases()[phase_];
  const uint64_t index = phase.keeps_values ? at - phase.first : plan().item_of(at) - phase.first_item;
  plan().merge_values(at, values_[static_cast<size_t>(index)], value);
}

uintptr_t Transformation::resident(uint32_t index) {
  const Resident& resident = plan().residents()[index];
  numbers_.clear();
  numbers_.push_back(static_cast<double>(resident.from.size()));
  numbers_.push_back(to_number(resident.raw_bytes));
  for (const Extent& extent : resident.from) push(extent);
  return numbers();
}

void Transformation::load_resident(uint32_t index, uintptr_t raw) {
  const Resident& resident = plan().residents()[index];
  const auto raw_bytes = static_cast<size_t>(resident.raw_bytes);
  AlignedBytes ready = aligned_bytes(resident.ready_bytes);
  const Bytes from(reinterpret_cast<const std::byte*>(raw), raw_bytes);
  if (resident.prepare == nullptr)
    std::copy(from.begin(), from.end(), ready.get());
  else
    plan().prepare(index, from, {ready.get(), static_cast<size_t>(resident.ready_bytes)});
  residents_[index].bytes = std::move(ready);
}

uintptr_t Transformation::gather_io(uint32_t index, double tile) {
  plan().gather_io(index, from_number(tile), io_);
  numbers_.clear();
  numbers_.push_back(static_cast<double>(io_.in.size()));
  for (const Extent& extent : io_.in) push(extent);
  return numbers();
}

void Transformation::gather(double step, uint32_t index, double tile, uintptr_t pointers) {
  const Resident& resident = plan().residents()[index];
  const uint64_t at = from_number(tile);
  const auto ready_bytes = static_cast<size_t>(resident.ready_bytes);
  if (at == 0) {
    gathering_ = aligned_bytes(resident.ready_bytes);
    gather_scratch_ = aligned_bytes(resident.gather_scratch_bytes);
    std::fill_n(gathering_.get(), ready_bytes, std::byte{0});
  }
  plan().gather_io(index, at, io_);
  const auto* table = reinterpret_cast<const uintptr_t*>(pointers);
  in_.clear();
  ready_.clear();
  for (size_t i = 0; i < io_.in.size(); ++i) in_.push_back(reinterpret_cast<const std::byte*>(*table++));
  for (const uint32_t r : plan().residents_of(from_number(step))) {
    if (r == index) break;
    ready_.emplace_back(residents_[r].bytes.get(), static_cast<size_t>(plan().residents()[r].ready_bytes));
  }
  plan().gather(index, at, best_kernels(),
                {.in = in_,
                 .out = {},
                 .scratch = {gather_scratch_.get(), static_cast<size_t>(resident.gather_scratch_bytes)},
                 .residents = ready_},
                {gathering_.get(), ready_bytes});
  if (at + 1 < plan().gather_tiles(index)) return;
  residents_[index].bytes = std::move(gathering_);
  gather_scratch_.reset();
}

uintptr_t Transformation::copy(uint32_t index) {
  const Copy& copy = plan().copies()[index];
  numbers_.clear();
  for (const uint64_t number : {uint64_t{copy.from.file}, copy.from.offset, copy.from.bytes(),
                                uint64_t{copy.to.file}, copy.to.offset})
    numbers_.push_back(to_number(number));
  return numbers();
}

uintptr_t Transformation::literal(uint32_t index) {
  const Literal& literal = plan().literals()[index];
  numbers_.clear();
  for (const uint64_t number : {uint64_t{literal.to.file}, literal.to.offset, uint64_t{literal.bytes.size()},
                                uint64_t{reinterpret_cast<uintptr_t>(literal.bytes.data())}})
    numbers_.push_back(to_number(number));
  return numbers();
}

// {"id", "options": [{"name", "values"}]}
Operation operation_of(const JsonValue& given) {
  Operation operation;
  operation.id = text_of(given, "id");
  if (const JsonValue* options = given.get("options"))
    for (const JsonValue& option : options->elements)
      operation.options.push_back({text_of(option, "name"), texts_of(option, "values")});
  spell_out_choices(operation);
  return operation;
}

void check_given(const std::string& operation) {
  need(check_operation(operation_of(parse_argument(operation))));
}

// The files that have to be read for an operation: [{"option", "path"}].
std::string operation_files(const std::string& operation) {
  OrderedJson out = OrderedJson::array();
  for (const OperationFile& file : files_of(operation_of(parse_argument(operation))))
    out.push_back({{"option", file.option}, {"path", file.path}});
  return json_text(out);
}

// {"command", "operations": [{"id", "options", "adapter", "other": numbers in the list or null, "files": {option: number}}], "input",
// "output", "dryRun", "examine",
// "singleName", "maxShardSize", "align", "folder": [entries], "tileBytes"}
Transformation* open_transform(Model& model, const AdapterList& adapters, const std::string& request) {
  const JsonValue given = parse_argument(request);
  TransformRequest out;
  out.command = text_of(given, "command");
  for (const JsonValue& one : given.get("operations")->elements) {
    Operation operation = operation_of(one);
    const uint64_t adapter = number_of(one, "adapter", kNone), other = number_of(one, "other", kNone);
    if (adapter != kNone) operation.adapter = adapters.at(adapter);
    if (other != kNone) operation.other = adapters.model_at(other);
    if (const JsonValue* files = one.get("files"))
      for (const auto& [option, number] : files->members)
        operation.files[option] = adapters.file_at(number_of(*files, option, kNone));
    out.operations.push_back(std::move(operation));
  }
  model.join(out.operations);
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.examine = flag_of(given, "examine");
  const std::string single = text_of(given, "singleName");
  out.layout.single_file = !single.empty();
  if (!single.empty()) out.layout.single_name = single;
  out.layout.max_shard_size = number_of(given, "maxShardSize", out.layout.max_shard_size);
  out.layout.align = flag_of(given, "align");
  if (const JsonValue* folder = given.get("folder"))
    for (const JsonValue& file : folder->elements) out.folder.push_back(file_entry(file));
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(model.checkpoint(), std::move(out));
}

// As open_transform, for a line of colibri's converters of folders: {"words", "input", "output", "dryRun",
// "tileBytes"}. `existing`: the output folder, or null.
Transformation* open_folder_transform(const Model& source, const Model* existing,
                                      const std::string& request) {
  const JsonValue given = parse_argument(request);
  const std::vector<std::string> words = texts_of(given, "words");
  const CommandLine line = need(read_command_line(Program::kTftf, Host::kNode, words));
  TransformRequest out;
  out.command = line.command->info->path;
  out.tool = colibri::folder_tool(line);
  out.existing = existing == nullptr ? nullptr : &existing->checkpoint();
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(source.checkpoint(), std::move(out));
}

// For a line of `adapter convert`: {"words", "input", "output", "singleName", "dryRun", "tileBytes"}. `base`: what --base
// names, or null; it must outlive the plan.
Transformation* open_adapter_conversion(const Model& source, const Model* base, const std::string& request) {
  const JsonValue given = parse_argument(request);
  const std::vector<std::string> words = texts_of(given, "words");
  const CommandLine line = need(read_command_line(Program::kTftf, Host::kNode, words));
  TransformRequest out;
  out.command = line.command->info->path;
  out.tool = make_adapter_conversion(need(adapter_convert_options(
      line, base == nullptr ? nullptr : &base->checkpoint(), text_of(given, "singleName"))));
  out.input = text_of(given, "input");
  out.output = text_of(given, "output");
  out.dry_run = flag_of(given, "dryRun");
  out.tile_bytes = number_of(given, "tileBytes", kDefaultTileBytes);
  return new Transformation(source.checkpoint(), std::move(out));
}

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_transform) {
  using namespace emscripten;
  function("openTransform", guard<&open_transform>, allow_raw_pointers());
  function("checkOperation", guard<&check_given>);
  function("operationFiles", guard<&operation_files>);
  function("openFolderTransform", guard<&open_folder_transform>, allow_raw_pointers());
  function("openAdapterConversion", guard<&open_adapter_conversion>, allow_raw_pointers());
  class_<Transformation>("Transformation")
      .function("want", guard<&Transformation::want>)
      .function("supply", guard<&Transformation::supply>)
      .function("fail", guard<&Transformation::fail>)
      .function("take", guard<&Transformation::take>)
      .function("warnOfIndex", guard<&Transformation::warn_of_index>)
      .function("text", guard<&Transformation::text>)
      .function("account", guard<&Transformation::account>)
      .function("accountText", guard<&Transformation::account_text>)
      .function("summary", guard<&Transformation::summary>)
      .function("phase", guard<&Transformation::phase>)
      .function("beginPhase", guard<&Transformation::begin_phase>)
      .function("endPhase", guard<&Transformation::end_phase>)
      .function("io", guard<&Transformation::io>)
      .function("run", guard<&Transformation::run>)
      .function("residentLoaded", guard<&Transformation::resident_loaded>)
      .function("resident", guard<&Transformation::resident>)
      .function("loadResident", guard<&Transformation::load_resident>)
      .function("gatherTiles", guard<&Transformation::gather_tiles>)
      .function("gatherIo", guard<&Transformation::gather_io>)
      .function("gather", guard<&Transformation::gather>)
      .function("copy", guard<&Transformation::copy>)
      .function("literal", guard<&Transformation::literal>)
      .function("entryName", guard<&Transformation::entry_name>)
      .function("finish", guard<&Transformation::finish>)
      .function("notes", guard<&Transformation::notes>)
      .function("manifestName", guard<&Transformation::manifest_name>)
      .function("manifest", guard<&Transformation::manifest>)
      .function("validation", guard<&Transformation::validation>);
}

}  // namespace tftf::wasm
