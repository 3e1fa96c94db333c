// Lays out the file of a tool's result.
#include "transform/lowrank/adapter_file.h"

#include <algorithm>

#include "tftf/base/bytes.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"
#include "tftf/transform/output_layout.h"

namespace tftf::lowrank {
namespace {

constexpr std::string_view kConfigName = "adapter_config.json";
// Metadata that says a scale, wrong or needless once alphas are tensors.
constexpr std::string_view kScaleKeys[] = {"lora_adapter_metadata", "lora_alpha", "network_alpha", "alpha"};

bool is_scale_key(std::string_view key) {
  return std::find(std::begin(kScaleKeys), std::end(kScaleKeys), key) != std::end(kScaleKeys);
}

// "8", or "Dynamic" where modules differ, as sd-scripts writes it.
template <class Of>
std::string one_for_all(const std::vector<ConfiguredModule>& modules, Of of) {
  for (const ConfiguredModule& module : modules)
    if (of(module) != of(modules.front())) return "Dynamic";
  return modules.empty() ? "Dynamic" : json_float(of(modules.front())).dump();
}

const std::string* side_text(const AdapterInput* input) {
  const SideFile* file = input == nullptr ? nullptr : input->checkpoint().side_file(kConfigName);
  return file != nullptr && !file->document.error && file->document.root.is_object() ? &file->text : nullptr;
}

}  // namespace

Extent PlanInputs::stored(uint32_t source, const AdapterInput& input, TensorRef tensor) {
  const Checkpoint& checkpoint = input.checkpoint();
  const Shard& shard = checkpoint.shards[tensor.shard];
  const auto [at, fresh] = numbers_.emplace(std::pair(source, tensor.shard), 0);
  if (fresh) {
    at->second = builder_.add_input(
        {.path = shard.name, .size = shard.size, .header_sha256 = input.header_sha256(tensor.shard)});
    sources_.push_back(source);
  }
  const TensorInfo& info = checkpoint.info(tensor);
  return {.file = at->second, .offset = shard.header.data_offset() + info.begin, .row_bytes = info.bytes()};
}

size_t AdapterFile::copy(std::string name, DType dtype, Shape shape, Extent from) {
  tensors_.push_back({{std::move(name), dtype, std::move(shape)}, from, {}, Tensor::Kind::kCopy});
  return tensors_.size() - 1;
}

size_t AdapterFile::literal(std::string name, DType dtype, Shape shape, std::string bytes) {
  tensors_.push_back(
      {{std::move(name), dtype, std::move(shape)}, {}, std::move(bytes), Tensor::Kind::kLiteral});
  return tensors_.size() - 1;
}

size_t AdapterFile::scalar(std::string name, DType dtype, double value) {
  std::byte bytes[8], back[8];
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  const bool floats =
      dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
  bool exact = false;
  if (floats) {
    cast(scalar_kernels(), DType::F64, dtype, from, bytes, 1);
    cast(scalar_kernels(), dtype, DType::F64, bytes, back, 1);
    exact = load_le<double>(back) == value;
  }
  if (!exact) {
    dtype = DType::F32;
    cast(scalar_kernels(), DType::F64, dtype, from, bytes, 1);
  }
  return literal(std::move(name), dtype, {},
                 std::string(reinterpret_cast<const char*>(bytes), dtype_bits(dtype) / 8));
}

size_t AdapterFile::made(std::string name, DType dtype, Shape shape) {
  tensors_.push_back({{std::move(name), dtype, std::move(shape)}, {}, {}, Tensor::Kind::kMade});
  return tensors_.size() - 1;
}

void AdapterFile::add_item(Item item, std::vector<size_t> outputs) {
  items_.push_back({std::move(item), std::move(outputs)});
}

Result<void> AdapterFile::lay_out(PlanBuilder& builder, uint32_t output, Account& account,
                                  std::vector<std::string>& names) {
  std::vector<OutputEntry> entries;
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!numbers.emplace(tensors_[i].entry.name, i).second) {
      return Error{.code = ErrorCode::kRefusedCollision,
                   .message = "Tensor " + quote_name(tensors_[i].entry.name) + " would be written twice.",
                   .tensor = tensors_[i].entry.name};
    }
    entries.push_back(tensors_[i].entry);
  }
  sort_in_reference_order(entries);
  std::vector<uint64_t> begins;
  Result<std::string> header = write_header(entries, metadata, HeaderForm::kTftf, &begins);
  if (!header) return std::move(header).error();
  const uint64_t data = header->size();
  builder.set_output(output, data + begins.back(), *std::move(header));
  std::vector<Extent> places(tensors_.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    places[numbers.at(entries[i].name)] = {
        .file = output, .offset = data + begins[i], .row_bytes = begins[i + 1] - begins[i]};
  }
  const auto entry_of = [&](size_t number) {
    const OutputEntry& entry = tensors_[number].entry;
    return PlanEntry{.name = entry.name, .dtype = entry.dtype, .shape = entry.shape, .to = places[number]};
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (tensor.kind == Tensor::Kind::kMade) continue;
    PlanEntry entry = entry_of(i);
    if (tensor.kind == Tensor::Kind::kLiteral) {
      entry.bytes = std::move(tensor.bytes);
      builder.add_literal(std::move(entry));
      ++account.changed;
    } else {
      entry.from = {tensor.from};
      builder.add_copy(std::move(entry));
      ++account.copied;
    }
  }
  for (Work& work : items_) {
    PlanEntry entry = entry_of(work.outputs.front());
    entry.word = std::string(work.item.op->id);
    if (!work.item.in.empty()) entry.from = {work.item.in.front()};
    for (size_t i = 1; i < work.item.in.size(); ++i) entry.with.push_back(work.item.in[i]);
    work.item.tensor = builder.add_tensor(std::move(entry));
    for (const size_t number : work.outputs) {
      work.item.out.push_back(places[number]);
      ++account.changed;
      if (number == work.outputs.front()) continue;
      PlanEntry also = entry_of(number);
      also.kind = PlanEntry::Kind::kAlso;
      builder.add_note(std::move(also));
    }
    builder.add_item(std::move(work.item));
    names.push_back(tensors_[work.outputs.front()].entry.name);
  }
  account.tensors_out = tensors_.size();
  account.files.back().tensors = tensors_.size();
  account.files.back().bytes = data + begins.back();
  return {};
}

std::string adapter_file_name(AdapterFamily family) {
  switch (family) {
    case AdapterFamily::kMlx:
      return "adapters.safetensors";
    case AdapterFamily::kDiffusersPeft:
    case AdapterFamily::kDiffusersOld:
    case AdapterFamily::kDiffusersMid:
      return "pytorch_lora_weights.safetensors";
    default:
      return is_peft_family(family) ? "adapter_model.safetensors" : "adapter.safetensors";
  }
}

bool keeps_configuration(AdapterFamily family) {
  return is_peft_family(family) || family == AdapterFamily::kMlx;
}

void announce(const Announcement& what, const AdapterToolRequest& request, AdapterFile& file,
              PlanBuilder& builder, Account& account) {
  if (what.input != nullptr) file.metadata = output_metadata(what.input->checkpoint(), true, true);
  if (file.metadata.empty()) file.metadata.emplace_back("format", "pt");
  // cloneofsimo's files keep the rank of each module there.
  std::map<std::string, uint64_t> ranks;
  for (const ConfiguredModule& module : what.modules) ranks.emplace(module.path + ":rank", module.rank);
  for (auto& [key, value] : file.metadata) {
    if (const auto rank = ranks.find(key); rank != ranks.end()) value = std::to_string(rank->second);
    if (key == "ss_network_dim")
      value =
          one_for_all(what.modules, [](const ConfiguredModule& m) { return static_cast<double>(m.rank); });
    if (key == "ss_network_alpha")
      value = one_for_all(what.modules, [](const ConfiguredModule& m) { return m.alpha; });
  }
  const bool configured = keeps_configuration(what.family);
  if (what.scales_stored || configured) {
    file.metadata.erase(std::remove_if(file.metadata.begin(), file.metadata.end(),
                                       [](const auto& member) { return is_scale_key(member.first); }),
                        file.metadata.end());
  }
  if (!configured) return;
  const std::string* text = side_text(what.input);
  uint64_t largest = 0;
  for (const ConfiguredModule& module : what.modules) largest = std::max(largest, module.rank);
  std::string written =
      what.family == AdapterFamily::kMlx
          ? mlx_config_text(text == nullptr ? "" : *text, largest, what.mlx_scale, &account.config)
          : peft_config_text(text == nullptr ? "" : *text, what.modules, what.retarget, &account.config);
  if (request.single_name.empty()) {
    builder.add_side({.name = std::string(kConfigName), .copied = false, .bytes = std::move(written)});
    return;
  }
  account.config_written = false;
  const JsonDocument document = parse_json(written, JsonDialect::kPython);
  if (what.family != AdapterFamily::kMlx)
    file.metadata.emplace_back("lora_adapter_metadata", to_ordered_json(document.root).dump());
}

Error not_finite_factors(const std::string& module) {
  return {.code = ErrorCode::kRefusedValues,
          .message = "The factors of module " + quote_name(module) +
                     " hold values that are NaN, infinite, or too large for their squares.",
          .tensor = module};
}

}  // namespace tftf::lowrank
