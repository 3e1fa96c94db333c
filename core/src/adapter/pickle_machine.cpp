#include "pickle_machine.h"

#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint32_t kMark = UINT32_MAX;  // on the stack

}  // namespace

PickleMachine::PickleMachine(std::span<const PickleGlobal> allowed, PickleLimits limits)
    : allowed_(allowed), limits_(limits) {
  pickle_.nodes_.emplace_back();  // node 0 is None
  pickle_.lists_.emplace_back();  // list 0 is empty
}

bool PickleMachine::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
  return false;
}

bool PickleMachine::push(PickleNode made) {
  if (pickle_.nodes_.size() >= limits_.nodes)
    return fail("more than " + std::to_string(limits_.nodes) + " values");
  pickle_.nodes_.push_back(made);
  stack_.push_back(static_cast<PickleId>(pickle_.nodes_.size() - 1));
  return true;
}

bool PickleMachine::push_none() {
  stack_.push_back(0);
  return true;
}

bool PickleMachine::push_bool(bool value) {
  PickleNode made;
  made.kind = Kind::kBool;
  made.integer = value;
  return push(made);
}

bool PickleMachine::push_int(int64_t value) {
  PickleNode made;
  made.kind = Kind::kInt;
  made.integer = value;
  return push(made);
}

bool PickleMachine::push_text(std::string_view text, Kind kind) {
  if (kind == Kind::kText && find_invalid_utf8(text)) return fail("a text is not valid UTF-8");
  PickleNode made;
  made.kind = kind;
  made.text = text;
  return push(made);
}

bool PickleMachine::push_container(Kind kind) {
  PickleNode made;
  made.kind = kind;
  made.items = static_cast<uint32_t>(pickle_.lists_.size());
  pickle_.lists_.emplace_back();
  return push(made);
}

bool PickleMachine::pop(PickleId& out) {
  if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
  out = stack_.back();
  stack_.pop_back();
  return true;
}

bool PickleMachine::pop_mark(std::vector<PickleId>& out) {
  auto mark = stack_.end();
  while (mark != stack_.begin() && *(mark - 1) != kMark) --mark;
  if (mark == stack_.begin()) return fail("there is no mark");
  out.assign(mark, stack_.end());
  stack_.erase(mark - 1, stack_.end());
  return true;
}

bool PickleMachine::add(PickleId container, PickleId child) {
  if (++links_ > limits_.nodes) return fail("more than " + std::to_string(limits_.nodes) + " values");
  const uint32_t depth = node(child).depth + 1u;
  if (depth > limits_.depth) return fail("nesting is deeper than " + std::to_string(limits_.depth));
  node(container).depth = std::max(node(container).depth, static_cast<uint16_t>(depth));
  list(container).push_back(child);
  return true;
}

bool PickleMachine::make_tuple(const std::vector<PickleId>& elements) {
  if (!push_container(Kind::kTuple)) return false;
  const PickleId tuple = stack_.back();
  for (PickleId element : elements)
    if (!add(tuple, element)) return false;
  return true;
}

bool PickleMachine::tuple_of(size_t count) {
  std::vector<PickleId> elements(count);
  for (size_t i = count; i-- > 0;)
    if (!pop(elements[i])) return false;
  return make_tuple(elements);
}

bool PickleMachine::fill(Kind kind) {
  std::vector<PickleId> elements;
  if (!pop_mark(elements)) return false;
  if (kind == Kind::kTuple) return make_tuple(elements);
  if (!push_container(kind)) return false;
  return extend(elements);
}

bool PickleMachine::extend(const std::vector<PickleId>& elements) {
  if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
  const PickleId container = stack_.back();
  const Kind kind = node(container).kind;
  if (kind != Kind::kList && kind != Kind::kDict && kind != Kind::kSet)
    return fail("values are added to no container");
  if (kind == Kind::kDict && elements.size() % 2 != 0) return fail("a key has no value");
  for (PickleId element : elements)
    if (!add(container, element)) return false;
  return true;
}

bool PickleMachine::extend_from_mark() {
  std::vector<PickleId> elements;
  return pop_mark(elements) && extend(elements);
}

bool PickleMachine::extend_from_stack(size_t count) {
  std::vector<PickleId> elements(count);
  for (size_t i = count; i-- > 0;)
    if (!pop(elements[i])) return false;
  return extend(elements);
}

bool PickleMachine::remember(uint64_t key) {
  if (stack_.empty() || stack_.back() == kMark) return fail("nothing to remember");
  if (key > limits_.nodes) return fail("a memo number is too large");
  if (key >= memo_.size()) memo_.resize(to_size(key + 1), kMark);
  memo_[to_size(key)] = stack_.back();
  return true;
}

bool PickleMachine::recall(uint64_t key) {
  if (key >= memo_.size() || memo_[to_size(key)] == kMark) return fail("an unknown memo number");
  stack_.push_back(memo_[to_size(key)]);
  return true;
}

bool PickleMachine::push_global(std::string_view module, std::string_view name) {
  for (const PickleGlobal& global : allowed_) {
    if (global.module != module || global.name != name) continue;
    PickleNode made;
    made.kind = Kind::kGlobal;
    made.module = module;
    made.text = name;
    made.integer = static_cast<int64_t>(global.call);
    return push(made);
  }
  return fail("the global " + quote_name(std::string(module) + "." + std::string(name)) +
              " is not allowed here (nothing was executed)");
}

bool PickleMachine::push_object(PickleId callee, PickleId arguments) {
  if (node(callee).kind != Kind::kGlobal) return fail("something that is no class is called");
  if (node(arguments).kind != Kind::kTuple) return fail("arguments are no tuple");
  const uint32_t depth = std::max(node(callee).depth, node(arguments).depth) + 1u;
  if (depth > limits_.depth) return fail("nesting is deeper than " + std::to_string(limits_.depth));
  PickleNode made;
  made.kind = Kind::kObject;
  made.callee = callee;
  made.arguments = arguments;
  made.depth = static_cast<uint16_t>(depth);
  return push(made);
}

bool PickleMachine::reduce() {
  PickleId arguments = 0;
  PickleId callee = 0;
  if (!pop(arguments) || !pop(callee)) return false;
  if (node(callee).kind != Kind::kGlobal) return fail("something that is no listed function is called");
  const auto given = pickle_.items(arguments);
  switch (static_cast<PickleCall>(node(callee).integer)) {
    case PickleCall::kFirstArgument:
      if (given.size() != 1) return fail("a call has not one argument");
      stack_.push_back(given[0]);
      return true;
    case PickleCall::kEmptyDict:
      if (!given.empty()) return fail("an ordered dict is made with arguments");
      return push_container(Kind::kDict);
    case PickleCall::kReconstruct:
      if (given.empty()) return fail("a call has no argument");
      return tuple_of(0) && object_of(given[0]);
    case PickleCall::kOpaque:
      break;
  }
  return push_object(callee, arguments);
}

bool PickleMachine::object_of(PickleId callee) {
  PickleId arguments = 0;
  return pop(arguments) && push_object(callee, arguments);
}

bool PickleMachine::new_object(bool with_keywords) {
  PickleId keywords = 0;
  PickleId arguments = 0;
  PickleId callee = 0;
  if (with_keywords && !pop(keywords)) return false;
  return pop(arguments) && pop(callee) && push_object(callee, arguments);
}

bool PickleMachine::build() {
  PickleId state = 0;
  if (!pop(state)) return false;
  if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
  PickleNode& object = node(stack_.back());
  if (object.kind == Kind::kDict) return true;  // attributes of an OrderedDict: nothing we read
  if (object.kind != Kind::kObject) return fail("state is set on something that is no object");
  const uint32_t depth = node(state).depth + 1u;
  if (depth > limits_.depth) return fail("nesting is deeper than " + std::to_string(limits_.depth));
  object.depth = std::max(object.depth, static_cast<uint16_t>(depth));
  object.state = state;
  return true;
}

bool PickleMachine::persistent() {
  PickleId id = 0;
  if (!pop(id)) return false;
  PickleNode made;
  made.kind = Kind::kPersistent;
  made.arguments = id;
  made.depth = static_cast<uint16_t>(node(id).depth + 1u);
  return push(made);
}

bool PickleMachine::push_float(double value) {
  PickleNode made;
  made.kind = Kind::kFloat;
  made.real = value;
  return push(made);
}

bool PickleMachine::push_made_text(std::string text) {
  pickle_.made_.push_back(std::move(text));
  return push_text(pickle_.made_.back(), Kind::kText);
}

bool PickleMachine::push_mark() {
  stack_.push_back(kMark);
  return true;
}

bool PickleMachine::drop() {
  if (stack_.empty()) return fail("the stack is empty");
  stack_.pop_back();
  return true;
}

bool PickleMachine::duplicate() {
  if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
  stack_.push_back(stack_.back());
  return true;
}

bool PickleMachine::memoize() { return remember(memo_.size()); }

bool PickleMachine::push_stack_global() {
  PickleId name = 0;
  PickleId module = 0;
  if (!pop(name) || !pop(module)) return false;
  if (node(name).kind != Kind::kText || node(module).kind != Kind::kText)
    return fail("a global is named by no text");
  return push_global(node(module).text, node(name).text);
}

bool PickleMachine::end() { return pop(pickle_.root_); }

}  // namespace tftf
