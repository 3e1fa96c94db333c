#include "tftf/plan/journal.h"

#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

std::string journal_line(const OrderedJson& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string bits_text(double value) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto bits = bit_cast<uint64_t>(value);
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(bits >> shift) & 15];
  return text;
}

OrderedJson outputs_json(const std::vector<JournalOutput>& outputs) {
  OrderedJson list = OrderedJson::array();
  for (const JournalOutput& output : outputs) list.push_back({{"name", output.name}, {"size", output.size}});
  return list;
}

void append_value(OrderedJson& list, uint64_t index, const Value& value) {
  OrderedJson row = OrderedJson::array({index});
  for (uint64_t n : value.n) row.push_back(n);
  for (double x : value.x) row.push_back(bits_text(x));
  list.push_back(std::move(row));
}

bool is_zero(const Value& value) {
  for (uint64_t n : value.n)
    if (n != 0) return false;
  for (double x : value.x)
    if (bit_cast<uint64_t>(x) != 0) return false;
  return true;
}

// A name as it comes back from a journal: what is no UTF-8 is replaced when written.
std::string as_written(const std::string& name) {
  return nlohmann::json::parse(json_ascii_string(name)).get<std::string>();
}

Error refused(const std::string& file, const std::string& why) {
  return {.code = ErrorCode::kRefusedJournal,
          .message = "Cannot continue from journal " + quote_name(file) + ": " + why +
                     "; --no-resume discards it and starts anew.",
          .file = file};
}

}  // namespace

std::string journal_head_line(const JournalHead& head) {
  OrderedJson inputs = OrderedJson::array();
  for (const JournalInput& input : head.inputs)
    inputs.push_back({{"path", input.path},
                      {"size", input.size},
                      {"mtime_ns", input.mtime_ns},
                      {"header_sha256", input.header_sha256}});
  return journal_line({{"tftf_journal", 1},
                       {"plan", head.plan},
                       {"tile", head.tile},
                       {"inputs", std::move(inputs)},
                       {"outputs", head.outputs ? outputs_json(*head.outputs) : OrderedJson()}});
}

std::string journal_outputs_line(const std::vector<JournalOutput>& outputs) {
  return journal_line({{"outputs", outputs_json(outputs)}});
}

std::string journal_batch_line(const JournalBatch& batch) {
  OrderedJson done = OrderedJson::array();
  for (const auto& [output, ranges] : batch.done)
    for (const ByteSpan& span : ranges.spans())
      done.push_back(OrderedJson::array({output, span.begin, span.end}));
  OrderedJson values = OrderedJson::array();
  for (const auto& [index, value] : batch.values) append_value(values, index, value);
  return journal_line({{"phase", batch.phase}, {"done", std::move(done)}, {"values", std::move(values)}});
}

std::string journal_result_line(size_t phase, std::span<const Value> values) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < values.size(); ++i)
    if (!is_zero(values[i])) append_value(list, i, values[i]);
  return journal_line({{"phase", phase}, {"result", std::move(list)}});
}

std::string journal_renamed_line(uint32_t output) {
  return journal_line({{"out", output}, {"renamed", true}});
}

bool Journal::was_done(const Extent& out) const {
  return out.bytes() == 0 ||
         (out.file < done.size() && done[out.file].covers(out.offset, out.offset + out.bytes()));
}

std::optional<std::vector<JournalOutput>> journal_outputs(const Plan& plan) {
  std::vector<JournalOutput> outputs;
  for (const Output& output : plan.outputs()) {
    if (!output.known) return std::nullopt;
    outputs.push_back({as_written(output.name), output.size});
  }
  if (outputs.empty()) return std::nullopt;
  return outputs;
}

JournalHead journal_head(const Plan& plan, std::vector<JournalInput> inputs) {
  JournalHead head{.plan = plan.hash(), .tile = plan.tile_bytes(), .inputs = std::move(inputs)};
  for (JournalInput& input : head.inputs) input.path = as_written(input.path);
  head.outputs = journal_outputs(plan);
  return head;
}

Result<void> check_journal(const Journal& journal, const JournalHead& now, const std::string& file) {
  const JournalHead& then = journal.head;
  bool same_paths = then.inputs.size() == now.inputs.size();
  for (size_t i = 0; same_paths && i < then.inputs.size(); ++i)
    same_paths = then.inputs[i].path == now.inputs[i].path;
  for (size_t i = 0; same_paths && i < then.inputs.size(); ++i)
    if (!(then.inputs[i] == now.inputs[i]))
      return refused(file, "input " + quote_name(now.inputs[i].path) + " has changed since");
  if (!same_paths || then.plan != now.plan) return refused(file, "it belongs to another command");
  if (then.tile != now.tile)
    return refused(file, "it was made with tiles of " + std::to_string(then.tile) + " bytes, now they have " +
                             std::to_string(now.tile));
  if (now.outputs && then.outputs && !(*then.outputs == *now.outputs))
    return refused(file, "its outputs are others");
  return {};
}

Result<void> check_journal_state(const Journal& journal, const Plan& plan, const std::string& file) {
  const auto outputs = plan.outputs();
  if (journal.done.size() > outputs.size() || journal.renamed.size() > outputs.size())
    return refused(file, "it names outputs that are not there");
  for (size_t i = 0; i < journal.done.size(); ++i) {
    const auto spans = journal.done[i].spans();
    if (outputs[i].known && !spans.empty() && spans.back().end > outputs[i].size)
      return refused(file, "it claims more than output " + quote_name(outputs[i].name) + " has");
  }
  for (const auto* values : {&journal.results, &journal.partial})
    for (const auto& [phase, list] : *values) {
      if (phase >= plan.phases().size()) continue;  // appended by a finish() that has not run yet
      for (const auto& [index, value] : list)
        if (index >= plan.phases()[phase].value_count())
          return refused(file, "it holds values of steps that are not there");
    }
  return {};
}

}  // namespace tftf
