// The stack machine that a pickle is a program of: values, the stack, the memo. Nothing is executed; what is called is kept as
// a value or, for the few functions of the list, taken for what it makes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/pickle.h"

namespace tftf {

// Every operation is false once something is wrong; problem() says what was first.
class PickleMachine {
 public:
  using Kind = PickleNode::Kind;

  PickleMachine(std::span<const PickleGlobal> allowed, PickleLimits limits);

  const std::string& problem() const { return problem_; }
  bool fail(std::string problem);
  Pickle take_pickle() { return std::move(pickle_); }

  bool push_none();
  bool push_bool(bool value);
  bool push_int(int64_t value);
  bool push_text(std::string_view text, Kind kind);
  bool push_container(Kind kind);
  // What lies above the last mark; the mark goes too.
  bool pop_mark(std::vector<PickleId>& out);
  bool tuple_of(size_t count);
  bool fill(Kind kind);
  bool extend_from_mark();
  bool extend_from_stack(size_t count);
  bool remember(uint64_t key);
  bool recall(uint64_t key);
  bool push_global(std::string_view module, std::string_view name);
  bool reduce();
  bool new_object(bool with_keywords);
  bool build();
  bool persistent();
  bool push_float(double value);
  bool push_made_text(std::string text);  // one that does not stand in the stream
  bool push_mark();
  bool drop();       // a value or a mark
  bool duplicate();  // the top
  bool memoize();    // the top, under the next number
  bool push_stack_global();
  bool end();  // the top is the pickle's value

 private:
  PickleNode& node(PickleId id) { return pickle_.nodes_[id]; }
  std::vector<PickleId>& list(PickleId id) { return pickle_.lists_[node(id).items]; }
  bool push(PickleNode made);
  bool pop(PickleId& out);
  bool add(PickleId container, PickleId child);
  bool make_tuple(const std::vector<PickleId>& elements);
  // Appends to the container on top of the stack.
  bool extend(const std::vector<PickleId>& elements);
  bool push_object(PickleId callee, PickleId arguments);
  // The empty tuple on the stack becomes the arguments of an object of that class.
  bool object_of(PickleId callee);

  std::span<const PickleGlobal> allowed_;
  PickleLimits limits_;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<uint32_t> memo_;
  uint64_t links_ = 0;
  std::string problem_;
};

}  // namespace tftf
