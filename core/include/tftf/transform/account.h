// What a writing command did, or would do: the account it ends with (spec cli 1 and 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/json_text.h"
#include "tftf/transform/config_edit.h"

namespace tftf {

struct Account {
  struct Dropped {
    std::string reason;  // "companion", "filter", "not in the index"
    std::vector<std::string> names;
  };
  struct Layout {
    std::string id;
    uint64_t modules = 0;
    std::string evidence;
  };
  struct File {
    std::string name;
    uint64_t tensors = 0;
    uint64_t bytes = 0;  // of the file
  };
  // An adapter that was merged.
  struct Merge {
    std::string adapter;    // as given
    uint64_t modules = 0;   // that it has
    uint64_t merged = 0;    // of them, that met a weight
    uint64_t left_out = 0;  // by its configuration
    uint64_t tensors = 0;   // of the base, that it changed
    uint64_t added = 0;     // tensors that the base did not have
  };
  // What another model gave.
  struct Graft {
    std::string source;                // as given
    uint64_t taken = 0;                // tensors
    uint64_t bytes = 0;                // of them, as they are written
    uint64_t converted = 0;            // of them, cast or dequantised
    uint64_t replaced = 0;             // tensors of the model that gave way
    uint64_t moved = 0;                // names of the source that were brought to the model's layout
    bool into_wrapper = false;         // the model is the source's text model: config.json is the source's
    std::vector<std::string> names{};  // of what was taken, in the result
    std::vector<Dropped> skipped{};    // of the source, by reason
  };
  // An adapter that was converted into another family's form.
  struct Converted {
    std::string from;
    std::string to;
    std::string base_family;  // empty: nothing decides
    uint64_t modules = 0;     // of the result
    uint64_t mapped = 0;      // tensors of the input; the three are all of them
    uint64_t unmapped = 0;
    uint64_t dropped = 0;
    std::vector<std::string> notes;  // sentences
  };
  // What `convert` did.
  struct LayoutChange {
    std::string model_type;
    uint64_t moved = 0;  // names
    uint64_t kept = 0;
    uint64_t unmapped = 0;
    uint64_t fused = 0;  // containers of experts
    uint64_t split = 0;
    uint64_t transposed = 0;
    uint64_t joined = 0;  // matrices made of several, or parted
  };
  // A tensor in which finite values became infinite.
  struct NonFinite {
    std::string name;
    uint64_t became_infinite = 0;
  };

  // A module of an adapter whose rank was chosen.
  struct Rank {
    std::string module;
    uint64_t before = 0;
    uint64_t after = 0;
    std::optional<double> retained{};  // share of the product's norm; nothing where that is not known
  };
  // Of an adapter: what became of the input's tensors, and of a difference of its matrices.
  struct Coverage {
    uint64_t mapped = 0, unmapped = 0, dropped = 0;
  };

  std::string command;
  std::string input;   // as given
  std::string output;  // as given
  bool dry_run = false;
  uint64_t tensors_in = 0;
  uint64_t tensors_out = 0;
  uint64_t changed = 0;  // their bytes are not those of the input
  uint64_t copied = 0;
  std::vector<Dropped> dropped;  // in the order in which the reasons first came up
  uint64_t left_quantised = 0;   // modules
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  std::vector<Layout> layouts;  // found in the input
  std::vector<Merge> merges{};  // in their order
  std::vector<Rank> ranks{};    // in the order of the modules
  std::optional<Coverage> coverage{};
  std::vector<Graft> grafts{};  // likewise
  std::optional<Converted> converted{};
  std::optional<LayoutChange> layout_change{};
  std::vector<File> files;  // of tensors
  std::vector<ConfigChange> config;
  bool config_written = true;  // false: a single file takes no config.json along; what it would have to say
  std::vector<NonFinite> non_finite;
  std::vector<std::string> warnings;  // sentences
  bool resumed = false;

  // As spec cli 5 orders it.
  OrderedJson to_json() const;
  // The same items, one a line. `all_names`: lists of names are not cut.
  std::string to_text(bool all_names = false) const;
};

}  // namespace tftf
