#include "tftf/transform/account.h"

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

constexpr size_t kShownNames = 5;
constexpr size_t kShownLines = 20;

std::string counted(uint64_t count, std::string_view singular) {
  return grouped_digits(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

// "99.13 %", rounded down: what is not whole does not look so.
std::string percent_text(double share) {
  const auto hundredths = static_cast<uint64_t>(share * 10000);
  const uint64_t rest = hundredths % 100;
  return std::to_string(hundredths / 100) + "." + (rest < 10 ? "0" : "") + std::to_string(rest) + " %";
}

// One line, however the value is nested.
std::string value_text(const OrderedJson& value) {
  std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return escape_text(text.size() > 100 ? text.substr(0, 97) + "..." : text);
}

OrderedJson groups_json(const std::vector<Account::Dropped>& groups) {
  OrderedJson list = OrderedJson::array();
  for (const Account::Dropped& group : groups) {
    OrderedJson entry;
    entry["reason"] = group.reason;
    entry["count"] = json_integer(uint64_t{group.names.size()});
    entry["names"] = group.names;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string names_text(const std::vector<std::string>& names, bool all_names) {
  std::string text;
  const size_t shown = all_names ? names.size() : std::min(names.size(), kShownNames);
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : " ") + escape_text(names[i]);
  return text + (shown < names.size() ? ", ... (-v names all)\n" : "\n");
}

std::string group_text(const std::string& what, const Account::Dropped& group, bool all_names) {
  return what + ": " + grouped_digits(group.names.size()) + " (" + group.reason +
         "):" + names_text(group.names, all_names);
}

}  // namespace

OrderedJson Account::to_json() const {
  OrderedJson root;
  root["command"] = command;
  root["input"] = input;
  root["output"] = output;
  root["dry_run"] = dry_run;

  if (converted) {
    root["from"] = converted->from;
    root["to"] = converted->to;
    root["base_family"] =
        converted->base_family.empty() ? OrderedJson() : OrderedJson(converted->base_family);
    root["modules"] = json_integer(converted->modules);
    OrderedJson counts;
    counts["mapped"] = json_integer(converted->mapped);
    counts["unmapped"] = json_integer(converted->unmapped);
    counts["dropped"] = json_integer(converted->dropped);
    root["coverage"] = std::move(counts);
    root["notes"] = converted->notes;
  }

  if (coverage) {
    root["modules"] = json_integer(uint64_t{ranks.size()});
    root["coverage"] = {{"mapped", json_integer(coverage->mapped)},
                        {"unmapped", json_integer(coverage->unmapped)},
                        {"dropped", json_integer(coverage->dropped)}};
    root["ranks"] = OrderedJson::array();
    for (const Rank& rank : ranks) {
      OrderedJson entry;
      entry["module"] = rank.module;
      entry["before"] = json_integer(rank.before);
      entry["after"] = json_integer(rank.after);
      entry["retained"] = rank.retained ? json_float(*rank.retained) : OrderedJson();
      root["ranks"].push_back(std::move(entry));
    }
  }
  OrderedJson tensors;
  tensors["in"] = json_integer(tensors_in);
  tensors["out"] = json_integer(tensors_out);
  tensors["changed"] = json_integer(changed);
  tensors["copied"] = json_integer(copied);
  tensors["dropped"] = groups_json(dropped);
  tensors["left_quantised"] = json_integer(left_quantised);
  root["tensors"] = std::move(tensors);

  OrderedJson bytes;
  bytes["read"] = json_integer(bytes_read);
  bytes["written"] = json_integer(bytes_written);
  root["bytes"] = std::move(bytes);

  root["layouts"] = OrderedJson::array();
  for (const Layout& layout : layouts) {
    OrderedJson entry;
    entry["id"] = layout.id;
    entry["modules"] = json_integer(layout.modules);
    entry["evidence"] = layout.evidence;
    root["layouts"].push_back(std::move(entry));
  }
  if (!merges.empty()) {
    root["merges"] = OrderedJson::array();
    for (const Merge& merge : merges) {
      OrderedJson entry;
      entry["adapter"] = merge.adapter;
      entry["modules"] = json_integer(merge.modules);
      entry["merged"] = json_integer(merge.merged);
      entry["left_out"] = json_integer(merge.left_out);
      entry["tensors"] = json_integer(merge.tensors);
      entry["added"] = json_integer(merge.added);
      root["merges"].push_back(std::move(entry));
    }
  }
  if (!grafts.empty()) {
    root["grafts"] = OrderedJson::array();
    for (const Graft& graft : grafts) {
      OrderedJson entry;
      entry["source"] = graft.source;
      entry["taken"] = json_integer(graft.taken);
      entry["bytes"] = json_integer(graft.bytes);
      entry["converted"] = json_integer(graft.converted);
      entry["replaced"] = json_integer(graft.replaced);
      entry["moved"] = json_integer(graft.moved);
      entry["into_wrapper"] = graft.into_wrapper;
      entry["names"] = graft.names;
      entry["skipped"] = groups_json(graft.skipped);
      root["grafts"].push_back(std::move(entry));
    }
  }
  if (layout_change) {
    root["model_type"] = layout_change->model_type;
    root["names"]["moved"] = json_integer(layout_change->moved);
    root["names"]["kept"] = json_integer(layout_change->kept);
    root["names"]["unmapped"] = json_integer(layout_change->unmapped);
    root["experts"]["fused"] = json_integer(layout_change->fused);
    root["experts"]["split"] = json_integer(layout_change->split);
    root["experts"]["transposed"] = json_integer(layout_change->transposed);
    root["joined"] = json_integer(layout_change->joined);
  }
  root["files"] = OrderedJson::array();
  for (const File& file : files) {
    OrderedJson entry;
    entry["name"] = file.name;
    entry["tensors"] = json_integer(file.tensors);
    entry["bytes"] = json_integer(file.bytes);
    root["files"].push_back(std::move(entry));
  }
  root["config"] = OrderedJson::array();
  for (const ConfigChange& change : config) {
    OrderedJson entry;
    entry["file"] = change.file;
    entry["pointer"] = change.pointer;
    entry["before"] = change.before;
    entry["after"] = change.after;
    root["config"].push_back(std::move(entry));
  }
  root["non_finite"] = OrderedJson::array();
  for (const NonFinite& tensor : non_finite) {
    OrderedJson entry;
    entry["name"] = tensor.name;
    entry["became_infinite"] = json_integer(tensor.became_infinite);
    root["non_finite"].push_back(std::move(entry));
  }
  root["warnings"] = warnings;
  root["resumed"] = resumed;
  return root;
}

std::string Account::to_text(bool all_names) const {
  std::string text = escape_text(command) + ": " + escape_text(input) + " -> " + escape_text(output);
  text += dry_run ? " (dry run: nothing is written)\n" : "\n";
  text += "tensors: " + grouped_digits(tensors_in) + " in, " + grouped_digits(tensors_out) + " out, " +
          grouped_digits(changed) + " changed, " + grouped_digits(copied) + " copied\n";
  for (const Dropped& group : dropped) text += group_text("dropped", group, all_names);
  text += "left quantised: " + counted(left_quantised, "module") + "\n";
  text += "bytes: " + grouped_digits(bytes_read) + " read, " + grouped_digits(bytes_written) + " written\n";
  for (const Layout& layout : layouts) {
    text += "layout: " + layout.id + ", " + counted(layout.modules, "module") + ": " +
            escape_text(layout.evidence) + "\n";
  }
  for (const Merge& merge : merges) {
    text += "merged: " + escape_text(merge.adapter) + ": " + grouped_digits(merge.merged) + " of " +
            counted(merge.modules, "module") + " (" + grouped_digits(merge.left_out) +
            " left out by its configuration), " + counted(merge.tensors, "tensor") + " changed, " +
            grouped_digits(merge.added) + " added\n";
  }
  if (coverage) {
    text += "coverage: " + counted(ranks.size(), "module") + "; of the input's tensors " +
            grouped_digits(coverage->mapped) + " mapped, " + grouped_digits(coverage->unmapped) +
            " unmapped, " + grouped_digits(coverage->dropped) + " dropped\n";
  }
  const size_t ranks_shown = all_names ? ranks.size() : std::min(ranks.size(), kShownLines);
  for (size_t i = 0; i < ranks_shown; ++i) {
    text += "rank: " + escape_text(ranks[i].module) + ": " + grouped_digits(ranks[i].before) + " -> " +
            grouped_digits(ranks[i].after) +
            (ranks[i].retained ? ", " + percent_text(*ranks[i].retained) + " of the norm kept\n" : "\n");
  }
  if (ranks_shown < ranks.size())
    text += "rank: " + grouped_digits(ranks.size() - ranks_shown) + " more modules (-v names all)\n";
  for (const Graft& graft : grafts) {
    text += "taken from " + escape_text(graft.source) + ": " + counted(graft.taken, "tensor") + ", " +
            counted(graft.bytes, "byte") + ", " + grouped_digits(graft.converted) + " cast or dequantised, " +
            grouped_digits(graft.moved) + " renamed, " + counted(graft.replaced, "tensor") +
            " of the model replaced" +
            (graft.into_wrapper ? ", the model is its text model and config.json is its own" : "") +
            (graft.names.empty() ? "\n" : ":" + names_text(graft.names, all_names));
    for (const Dropped& group : graft.skipped)
      text += group_text("not taken from " + escape_text(graft.source), group, all_names);
  }
  if (converted) {
    text += "converted: " + converted->from + " to " + converted->to + ", " +
            counted(converted->modules, "module") + "\n";
    text += "coverage: of the input's tensors " + grouped_digits(converted->mapped) + " mapped, " +
            grouped_digits(converted->unmapped) + " unmapped, " + grouped_digits(converted->dropped) +
            " dropped\n";
    for (const std::string& note : converted->notes) text += "note: " + escape_text(note) + "\n";
  }
  if (layout_change) {
    const LayoutChange& c = *layout_change;
    text += "model type: " + escape_text(c.model_type) + "\nnames: " + grouped_digits(c.moved) + " moved, " +
            grouped_digits(c.kept) + " kept, " + grouped_digits(c.unmapped) +
            " unmapped\nexperts: " + counted(c.fused, "container") + " fused, " + grouped_digits(c.split) +
            " split, " + grouped_digits(c.transposed) + " transposed\njoined: " + grouped_digits(c.joined) +
            "\n";
  }
  for (const File& file : files) {
    text += "file: " + escape_text(file.name) + ", " + counted(file.tensors, "tensor") + ", " +
            counted(file.bytes, "byte") + "\n";
  }
  for (const ConfigChange& change : config) {
    text += escape_text(change.file) + (config_written ? "" : " (not written; it would have to say)") + ": " +
            (change.pointer.empty() ? "" : escape_text(change.pointer) + ": ") + value_text(change.before) +
            " -> " + (change.after.is_null() ? "removed" : value_text(change.after)) + "\n";
  }
  const auto shown = [all_names](size_t count) { return all_names ? count : std::min(count, kShownLines); };
  for (size_t i = 0; i < shown(non_finite.size()); ++i) {
    text += "non-finite: " + escape_text(non_finite[i].name) + ": " +
            counted(non_finite[i].became_infinite, "finite value") + " became infinite\n";
  }
  for (size_t i = 0; i < shown(warnings.size()); ++i) text += "warning: " + warnings[i] + "\n";
  const size_t hidden =
      non_finite.size() - shown(non_finite.size()) + warnings.size() - shown(warnings.size());
  if (hidden > 0) text += "(" + grouped_digits(hidden) + " more lines like these with -v)\n";
  if (resumed) text += "resumed: an interrupted run was continued\n";
  return text;
}

}  // namespace tftf
