// Plans and their execution for JavaScript. Reading, writing and the order of things are the driver's
// (wasm/src/run.ts); what happens to the bytes is the plan's.
#include <algorithm>
#include <new>

#include "tftf/simd/kernels.h"
#include "transformation.h"

namespace tftf::wasm {
namespace {

AlignedBytes aligned_bytes(uint64_t bytes) {
  const auto length = static_cast<size_t>(std::max<uint64_t>(bytes, 1));
  if (length < bytes) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(::operator new[](length, std::align_val_t(kSlotAlign))));
}

}  // namespace

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

EMSCRIPTEN_BINDINGS(tftf_transform) {
  using namespace emscripten;
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
