// An index against the shards it names.
#include <algorithm>
#include <set>
#include <string>

#include "lint/file_names.h"
#include "lint/header/header_facts.h"
#include "lint/index/index_rules.h"
#include "lint/side_text.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// The tensors that the referenced, readable shards hold.
class Stored {
 public:
  struct Holder {
    uint32_t shard;            // in the list of ShardUse
    const TensorInfo* tensor;  // null: the entry is there but cannot be used
    uint32_t next;             // another holder of the name; kNone: no more
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  Stored(const Tree& tree, const std::vector<ShardUse>& shards) {
    std::set<uint32_t> seen;  // two spellings of one path are one shard
    for (uint32_t i = 0; i < shards.size(); ++i) {
      if (!shards[i].present()) continue;
      const TreeFile& file = tree.files[*shards[i].file];
      if (!file.readable() || !seen.insert(*shards[i].file).second) continue;
      for (const TensorInfo& tensor : file.scan->header.tensors) add(tensor.name, i, &tensor);
      for (std::string_view name : unusable_entries(*file.scan)) add(name, i, nullptr);
    }
  }

  NameTable names;

  uint32_t first(uint32_t name) const { return first_[name]; }
  const Holder& holder(uint32_t number) const { return holders_[number]; }
  // The holder of `name` in the file of that shard, null when it is not there.
  const Holder* find(std::string_view name, const std::vector<ShardUse>& shards, uint32_t shard) const {
    const std::optional<uint32_t> number = names.find(name);
    if (!number) return nullptr;
    for (uint32_t at = first_[*number]; at != kNone; at = holders_[at].next)
      if (shards[holders_[at].shard].file == shards[shard].file) return &holders_[at];
    return nullptr;
  }

 private:
  void add(std::string_view name, uint32_t shard, const TensorInfo* tensor) {
    const uint32_t number = names.insert(name);
    const auto at = static_cast<uint32_t>(holders_.size());
    if (number == first_.size()) {
      first_.push_back(at);
      last_.push_back(at);
    } else {
      if (holders_[last_[number]].shard == shard) return;  // declared twice in one shard: ST022
      holders_[last_[number]].next = at;
      last_[number] = at;
    }
    holders_.push_back({shard, tensor, kNone});
  }

  std::vector<uint32_t> first_;
  std::vector<uint32_t> last_;
  std::vector<Holder> holders_;
};

void check_shard_names(FindingList& findings, const Tree& tree, const IndexDocument& index,
                       const std::vector<ShardUse>& shards) {
  // The key that first names a shard is where a reader looks.
  std::vector<uint32_t> first(shards.size(), kNotText);
  for (uint32_t i = 0; i < index.map.size(); ++i)
    if (const uint32_t shard = index.map[i].shard; shard != kNotText && first[shard] == kNotText)
      first[shard] = i;
  for (uint32_t i = 0; i < shards.size(); ++i) {
    const ShardUse& use = shards[i];
    if (!use.used()) continue;
    auto report = [&](Rule rule) -> Diagnostic* {
      Diagnostic* finding = findings.add(rule);
      if (!finding) return nullptr;
      finding->subject = std::string(use.name);
      finding->pointer = pointer_of({"weight_map", index.tensors.name(index.map[first[i]].name)});
      finding->offset = use.offset;
      finding->values = {{"shard", std::string(use.name)}};
      return finding;
    };
    if (use.status == ShardUse::Status::kUnsafe) {
      if (Diagnostic* finding = report(Rule::IX012))
        finding->values.emplace_back("reason", std::string(use.reason));
      continue;
    }
    if (use.name.find('/') != std::string_view::npos) report(Rule::IX013);
    if (use.status == ShardUse::Status::kForeign) report(Rule::IX014);
    if (use.status == ShardUse::Status::kMissing)
      if (Diagnostic* finding = report(Rule::IX011)) finding->values.emplace_back("count", use.tensors);
    if (use.file && use.status != ShardUse::Status::kPresent)
      if (Diagnostic* finding = report(Rule::IX034))
        finding->values.emplace_back("actual", std::string(tree.files[*use.file].path));
  }
}

void check_mapped(FindingList& findings, const Tree& tree, const IndexDocument& index,
                  const std::vector<ShardUse>& shards, const Stored& stored) {
  for (const MappedTensor& entry : index.map) {
    if (entry.shard == kNotText || !shards[entry.shard].present()) continue;
    const TreeFile& file = tree.files[*shards[entry.shard].file];
    if (!file.readable()) continue;
    const std::string_view name = index.tensors.name(entry.name);
    if (stored.find(name, shards, entry.shard) || !all_entries_known(*file.scan)) continue;
    Diagnostic* finding = findings.add(Rule::IX015);
    if (!finding) continue;
    std::string elsewhere;
    if (const std::optional<uint32_t> number = stored.names.find(name))
      elsewhere = "; it is in " + quote_name(shards[stored.holder(stored.first(*number)).shard].name);
    finding->subject = std::string(name);
    finding->pointer = pointer_of({"weight_map", name});
    finding->offset = entry.offset;
    finding->values = {{"tensor", std::string(name)},
                       {"shard", std::string(shards[entry.shard].name)},
                       {"elsewhere", std::move(elsewhere)}};
  }
}

void check_stored(FindingList& findings, const IndexDocument& index, const std::vector<ShardUse>& shards,
                  const Stored& stored) {
  for (uint32_t number = 0; number < stored.names.size(); ++number) {
    const std::string_view name = stored.names.name(number);
    const Stored::Holder& first = stored.holder(stored.first(number));
    if (!index.tensors.find(name)) {
      if (Diagnostic* finding = findings.add(Rule::IX016)) {
        finding->subject = std::string(name);
        finding->values = {{"tensor", std::string(name)}, {"shard", std::string(shards[first.shard].name)}};
      }
    }
    if (first.next == Stored::kNone) continue;
    Diagnostic* finding = findings.add(Rule::IX017);
    if (!finding) continue;
    std::vector<std::string> holders = {std::string(shards[first.shard].name)};
    bool same = first.tensor != nullptr;
    for (uint32_t at = first.next; at != Stored::kNone; at = stored.holder(at).next) {
      const Stored::Holder& other = stored.holder(at);
      holders.emplace_back(shards[other.shard].name);
      same = same && other.tensor && other.tensor->dtype == first.tensor->dtype &&
             other.tensor->shape == first.tensor->shape;
    }
    std::sort(holders.begin(), holders.end());
    finding->subject = std::string(name);
    finding->values = {{"tensor", std::string(name)},
                       {"shards", std::move(holders)},
                       {"same", std::string(same ? "are equal" : "differ")}};
  }
}

// Sums over the mapped tensors; nothing unless every one was found and every name was safe.
struct Totals {
  uint64_t bytes = 0;
  uint64_t elements = 0;
  bool countable = true;  // no integer or sub-byte dtype: elements are parameters
};
std::optional<Totals> add_up(const IndexDocument& index, const std::vector<ShardUse>& shards,
                             const Stored& stored) {
  Totals totals;
  for (const MappedTensor& entry : index.map) {
    if (entry.shard == kNotText || !shards[entry.shard].present()) return std::nullopt;
    const Stored::Holder* holder = stored.find(index.tensors.name(entry.name), shards, entry.shard);
    if (!holder || !holder->tensor) return std::nullopt;
    const TensorInfo& tensor = *holder->tensor;
    const DTypeInfo& dtype = dtype_info(tensor.dtype);
    if (dtype.kind == DTypeClass::kSigned || dtype.kind == DTypeClass::kUnsigned || dtype.bits < 8)
      totals.countable = false;
    const std::optional<uint64_t> elements = element_count(tensor.shape);
    const std::optional<uint64_t> bytes = checked_add(totals.bytes, tensor.bytes());
    if (!elements || !bytes) return std::nullopt;
    const std::optional<uint64_t> sum = checked_add(totals.elements, *elements);
    if (!sum) return std::nullopt;
    totals.bytes = *bytes;
    totals.elements = *sum;
  }
  return totals;
}

void check_totals(FindingList& findings, const IndexDocument& index, const Totals& totals) {
  const DeclaredNumber& size = index.total_size;
  if (size.present && size.is_plain_integer() && json_unsigned(size.text) != totals.bytes) {
    if (Diagnostic* finding = findings.add(Rule::IX008)) {
      finding->pointer = "/metadata/total_size";
      finding->offset = size.offset;
      finding->values = {{"declared", cut_text(size.text)}, {"computed", totals.bytes}};
      if (const std::optional<uint64_t> declared = json_unsigned(size.text)) {
        const bool above = *declared > totals.bytes;
        const uint64_t gap = above ? *declared - totals.bytes : totals.bytes - *declared;
        finding->values[0].second = *declared;
        finding->values.emplace_back("difference", (above ? "+" : "-") + std::to_string(gap));
      } else {
        finding->values.emplace_back("difference", std::string("beyond 64 bits"));
      }
    }
  }
  const DeclaredNumber& parameters = index.total_parameters;
  if (!parameters.present || parameters.kind == JsonKind::kNull || !totals.countable) return;
  if (parameters.kind == JsonKind::kNumber && json_whole_number(parameters.text) == totals.elements) return;
  if (Diagnostic* finding = findings.add(Rule::IX010)) {
    finding->pointer = "/metadata/total_parameters";
    finding->offset = parameters.offset;
    DiagnosticValue declared = "a JSON " + std::string(json_kind_name(parameters.kind));
    if (parameters.kind == JsonKind::kNumber) declared = cut_text(parameters.text);
    if (parameters.kind == JsonKind::kString) declared = quote_name(parameters.text);
    if (const auto number = json_unsigned(parameters.text); number && parameters.kind == JsonKind::kNumber)
      declared = *number;
    finding->values = {{"declared", std::move(declared)}, {"computed", totals.elements}};
  }
}

void check_shard_formats(FindingList& findings, const Tree& tree, const std::vector<ShardUse>& shards) {
  std::set<std::string> formats;
  for (const ShardUse& use : shards) {
    if (!use.present() || !tree.files[*use.file].readable()) continue;
    for (const auto& [key, value] : tree.files[*use.file].scan->header.metadata)
      if (key == "format") formats.insert(cut_text(value));
  }
  if (formats.size() < 2) return;
  if (Diagnostic* finding = findings.add(Rule::IX032))
    finding->values = {{"list", std::vector<std::string>(formats.begin(), formats.end())}};
}

}  // namespace

std::vector<ShardUse> find_shards(const Tree& tree, const TreeFolder& folder, const IndexDocument& index) {
  std::vector<ShardUse> uses(index.shards.size());
  for (uint32_t i = 0; i < uses.size(); ++i) {
    ShardUse& use = uses[i];
    use.name = index.shards.name(i);
    if (const std::optional<std::string_view> reason = unsafe_reason(use.name)) {
      use.status = ShardUse::Status::kUnsafe;
      use.reason = *reason;
      continue;
    }
    const std::string path = shard_path(folder.path, use.name);
    if (!ends_with(use.name, ".safetensors")) {
      use.status = ShardUse::Status::kForeign;
      if (!tree.find(path))
        if (const std::optional<std::string_view> actual = tree.find_other_case(path))
          use.file = tree.find(*actual);
      continue;
    }
    use.file = tree.find(path);
    if (use.file) continue;
    use.status = ShardUse::Status::kMissing;
    if (const std::optional<std::string_view> actual = tree.find_other_case(path)) {
      use.status = ShardUse::Status::kOtherCase;
      use.file = tree.find(*actual);
    }
  }
  for (const MappedTensor& entry : index.map) {
    if (entry.shard == kNotText) continue;
    ShardUse& use = uses[entry.shard];
    if (use.tensors++ == 0) use.offset = entry.offset;
  }
  return uses;
}

void check_index_shards(FindingList& findings, const Tree& tree, const IndexDocument& index,
                        const std::vector<ShardUse>& shards) {
  check_shard_names(findings, tree, index, shards);
  const Stored stored(tree, shards);
  check_mapped(findings, tree, index, shards, stored);
  check_stored(findings, index, shards, stored);
  if (const std::optional<Totals> totals = add_up(index, shards, stored))
    check_totals(findings, index, *totals);
  check_shard_formats(findings, tree, shards);
}

}  // namespace tftf
