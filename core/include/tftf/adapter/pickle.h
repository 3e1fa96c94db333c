// A restricted reader of Python pickles (protocols 0 to 5): builds a graph of inert nodes and never calls
// anything. Globals outside the caller's list are an error that names them (spec tftf 3.1).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/result.h"

namespace tftf {

// What calling a listed global through REDUCE means.
enum class PickleCall : uint8_t {
  kOpaque,         // a node that keeps the callee and the arguments
  kFirstArgument,  // the first argument itself (torch.Size of a tuple, an enum of its number)
  kEmptyDict,      // an empty dict that SETITEMS fills (OrderedDict)
  kReconstruct,    // an object of the class that is the first argument (copyreg._reconstructor)
};

struct PickleGlobal {
  std::string_view module;
  std::string_view name;
  PickleCall call = PickleCall::kOpaque;
};

using PickleId = uint32_t;

struct PickleNode {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kBytes,
    kTuple,
    kList,
    kDict,
    kSet,
    kGlobal,
    kObject,
    kPersistent
  };
  Kind kind = Kind::kNone;
  uint16_t depth = 0;   // longest way down, for the nesting limit
  uint32_t items = 0;   // kTuple, kList, kSet: index of the element list; kDict: of keys and values in turn
  PickleId callee = 0;  // kObject: class or function (a kGlobal)
  PickleId arguments = 0;   // kObject: tuple; kPersistent: the id's node
  PickleId state = 0;       // kObject: what BUILD set, else 0 (None)
  int64_t integer = 0;      // kBool, kInt
  double real = 0;          // kFloat
  std::string_view text;    // kText (UTF-8), kBytes; kGlobal: the name
  std::string_view module;  // kGlobal
};

// The graph. Views point into the pickle's bytes, which must outlive it.
class Pickle {
 public:
  PickleId root() const { return root_; }
  const PickleNode& operator[](PickleId id) const { return nodes_[id]; }
  // Elements of a tuple, list or set; keys and values in turn of a dict; empty for others.
  std::span<const PickleId> items(PickleId id) const;
  // Value of a text key in a dict (the last of equal keys), or nothing.
  std::optional<PickleId> find(PickleId dict, std::string_view key) const;
  // Attribute of an object: its BUILD state's entry.
  std::optional<PickleId> attribute(PickleId object, std::string_view name) const;
  bool is_global(PickleId id, std::string_view module, std::string_view name) const;
  // Non-negative integer, or nothing.
  std::optional<uint64_t> size(PickleId id) const;
  // Tuple or list of non-negative integers, or nothing.
  std::optional<std::vector<uint64_t>> sizes(PickleId id) const;
  std::optional<std::string_view> text(PickleId id) const;

 private:
  friend class PickleMachine;
  std::vector<PickleNode> nodes_;
  std::vector<std::vector<PickleId>> lists_;
  std::deque<std::string> made_;  // decoded texts that are no slice of the input
  PickleId root_ = 0;
};

struct PickleLimits {
  uint64_t nodes = 10'000'000;
  uint16_t depth = 1000;
};

// Reads one pickle up to STOP (bytes after it are ignored). Errors are kRefusedInput; messages say "pickle:
// …" with the offset.
Result<Pickle> read_pickle(Bytes bytes, std::span<const PickleGlobal> allowed, PickleLimits limits = {});

}  // namespace tftf
