// A plan and its execution, step by step, for JavaScript.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "border.h"
#include "tftf/checkpoint/lone_shard.h"
#include "tftf/transform/planner.h"
#include "tftf/transform/validation.h"

namespace tftf::wasm {

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kSlotAlign)); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

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

}  // namespace tftf::wasm
