#include "tftf/adapter/adapter.h"

#include <algorithm>

#include "tftf/adapter/families.h"
#include "tftf/adapter/names.h"
#include "tftf/adapter/peft_key.h"
#include "tftf/base/content_hash.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_reader.h"
#include "tftf/base/sha256.h"

namespace tftf {
namespace {

Error adapter_error(ErrorCode code, const std::string& file, std::string what, std::string tensor = "") {
  return {.code = code,
          .message = "Adapter " + quote_name(file) + " " + std::move(what) + ".",
          .file = file,
          .tensor = std::move(tensor)};
}

// Names of other families would be read as plain tensors of no module. Whether they are such; refused are those that no
// base can place.
Result<bool> is_foreign(const std::string& file, const std::vector<NamedTensor>& tensors, bool configured) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  const AdapterFileFacts facts = adapter_file_facts(names);
  for (const std::string_view name : names) {
    const auto parsed = parse_adapter_name(name, facts);
    if (!parsed) continue;
    switch (parsed->family) {
      case AdapterFamily::kPeft:
      case AdapterFamily::kPeftNamed:
      case AdapterFamily::kPeftBare:
      case AdapterFamily::kFalKontext:
        continue;
      case AdapterFamily::kDiffusersPeft:
        if (configured) continue;  // a model whose own names begin like those of diffusers
        return true;
      case AdapterFamily::kControlLora:
      case AdapterFamily::kCloneofsimo:
      case AdapterFamily::kRawIndexed:
        return adapter_error(ErrorCode::kRefusedUnsupported, file,
                             "is of the family " + std::string(adapter_family_id(parsed->family)) + " (" +
                                 quote_name(name) + "), whose modules no name ties to a base",
                             std::string(name));
      default:
        return true;
    }
  }
  return false;
}

// A whole model reads like an adapter that has saved every tensor; merged, it would take the model's place.
Result<void> check_adapted(const std::string& file, const std::vector<NamedTensor>& tensors) {
  const auto saved = [](const NamedTensor& tensor) {
    const PeftPart part = parse_peft_key(tensor.name).part;
    return part == PeftPart::kSaved || part == PeftPart::kOriginal;
  };
  if (!std::all_of(tensors.begin(), tensors.end(), saved)) return {};
  return adapter_error(ErrorCode::kRefusedUnmatched, file,
                       "is no adapter: none of its " + std::to_string(tensors.size()) +
                           " tensors belongs to an adapted module (the first is " +
                           quote_name(tensors[0].name) + "), and it has no adapter_config.json",
                       tensors[0].name);
}

std::string fingerprint_of(const std::vector<NamedTensor>& tensors, const std::string& config) {
  std::string text = config;
  for (const NamedTensor& tensor : tensors) {
    const ContentHash hash = content_hash(tensor.data.bytes);
    text += '\n' + tensor.name + ' ' + std::string(dtype_name(tensor.data.dtype)) +
            shape_text(tensor.data.shape) + std::to_string(hash.high) + ' ' + std::to_string(hash.low);
  }
  return sha256_hex(as_bytes(text)).substr(0, 32);
}

Result<PeftConfig> read_config(const AdapterConfigText& config) {
  const JsonDocument document = parse_json(config.text, JsonDialect::kPython);
  if (document.error) {
    return Error{.code = ErrorCode::kRefusedConfig,
                 .message = quote_name(config.file) +
                            " is not valid JSON: " + escape_text(document.error->detail) + ".",
                 .file = config.file};
  }
  return read_peft_config(config.file, document.root);
}

}  // namespace

const TensorData* Adapter::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const NamedTensor& a, std::string_view b) { return a.name < b; });
  return at == tensors.end() || at->name != name ? nullptr : &at->data;
}

Result<std::shared_ptr<const Adapter>> make_adapter(std::string given, std::string file,
                                                    std::vector<NamedTensor> tensors,
                                                    const std::optional<AdapterConfigText>& config,
                                                    std::vector<std::string> notices, Metadata metadata,
                                                    std::vector<AdapterSideFile> tokenizer) {
  auto adapter = std::make_shared<Adapter>();
  adapter->given = std::move(given);
  adapter->file = std::move(file);
  adapter->notices = std::move(notices);
  adapter->tokenizer = std::move(tokenizer);
  if (tensors.empty()) return adapter_error(ErrorCode::kRefusedMissing, adapter->file, "holds no tensors");
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const NamedTensor& a, const NamedTensor& b) { return a.name == b.name; });
  if (twin != tensors.end()) {
    return adapter_error(ErrorCode::kRefusedCollision, adapter->file,
                         "has two tensors of the name " + quote_name(twin->name), twin->name);
  }
  const Result<bool> foreign = is_foreign(adapter->file, tensors, config.has_value());
  if (!foreign) return foreign.error();
  if (*foreign) {
    adapter->foreign = true;
    adapter->metadata = std::move(metadata);
    if (config) adapter->config_text = config->text;
    adapter->config = default_peft_config();
  } else if (config) {
    Result<PeftConfig> read = read_config(*config);
    if (!read) return std::move(read).error();
    adapter->config = *std::move(read);
  } else {
    TFTF_TRY(check_adapted(adapter->file, tensors));
    adapter->config = default_peft_config();
  }
  adapter->fingerprint = fingerprint_of(tensors, config ? config->text : "");
  adapter->tensors = std::move(tensors);
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

Metadata TensorLoader::metadata() const {
  return checkpoint_->shards.empty() ? Metadata() : checkpoint_->shards.front().header.metadata;
}

std::optional<ReadRequest> TensorLoader::want() const {
  if (tensors_.size() == checkpoint_->order.size()) return std::nullopt;
  const TensorRef ref = checkpoint_->order[tensors_.size()];
  const Shard& shard = checkpoint_->shards[ref.shard];
  const TensorInfo& info = checkpoint_->info(ref);
  return ReadRequest{shard.name, {shard.header.data_offset() + info.begin, info.bytes()}};
}

void TensorLoader::supply(Bytes bytes) {
  const TensorInfo& info = checkpoint_->info(checkpoint_->order[tensors_.size()]);
  tensors_.push_back({info.name, {info.dtype, info.shape, {bytes.begin(), bytes.end()}}});
}

}  // namespace tftf
