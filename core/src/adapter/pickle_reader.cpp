#include "tftf/adapter/pickle.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

using Kind = PickleNode::Kind;
constexpr uint32_t kMark = UINT32_MAX;  // on the stack

}  // namespace

class PickleReader {
 public:
  PickleReader(Bytes bytes, std::span<const PickleGlobal> allowed, PickleLimits limits)
      : text_(as_text(bytes)), allowed_(allowed), limits_(limits) {
    pickle_.nodes_.emplace_back();  // node 0 is None
    pickle_.lists_.emplace_back();  // list 0 is empty
  }

  Result<Pickle> read() {
    while (!stopped_) {
      opcode_at_ = at_;
      unsigned char opcode = 0;
      if (!take(opcode)) break;
      if (!step(opcode)) break;
    }
    if (!problem_.empty()) {
      Error error;
      error.code = ErrorCode::kRefusedInput;
      error.message = "pickle: " + problem_ + " at byte " + std::to_string(opcode_at_) + ".";
      return error;
    }
    return std::move(pickle_);
  }

 private:
  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  // ---- input
  bool take_text(uint64_t length, std::string_view& out) {
    if (length > text_.size() - at_) return fail("the stream ends too early");
    out = text_.substr(to_size(at_), to_size(length));
    at_ += length;
    return true;
  }
  template <class T>
  bool take(T& out) {
    std::string_view raw;
    if (!take_text(sizeof(T), raw)) return false;
    out = load_le<T>(as_bytes(raw).data());
    return true;
  }
  template <class Length>
  bool take_counted(std::string_view& out) {
    Length length = 0;
    return take(length) && take_text(length, out);
  }
  bool take_line(std::string_view& out) {
    const size_t end = text_.find('\n', to_size(at_));
    if (end == std::string_view::npos) return fail("a line is not ended");
    out = text_.substr(to_size(at_), to_size(end - at_));
    at_ = end + 1;
    return true;
  }

  // ---- nodes and stack
  PickleNode& node(PickleId id) { return pickle_.nodes_[id]; }
  std::vector<PickleId>& list(PickleId id) { return pickle_.lists_[node(id).items]; }

  bool push(PickleNode made) {
    if (pickle_.nodes_.size() >= limits_.nodes)
      return fail("more than " + std::to_string(limits_.nodes) + " values");
    pickle_.nodes_.push_back(made);
    stack_.push_back(static_cast<PickleId>(pickle_.nodes_.size() - 1));
    return true;
  }
  bool push_none() {
    stack_.push_back(0);
    return true;
  }
  bool push_bool(bool value) {
    PickleNode made;
    made.kind = Kind::kBool;
    made.integer = value;
    return push(made);
  }
  bool push_int(int64_t value) {
    PickleNode made;
    made.kind = Kind::kInt;
    made.integer = value;
    return push(made);
  }
  bool push_text(std::string_view text, Kind kind) {
    if (kind == Kind::kText && find_invalid_utf8(text)) return fail("a text is not valid UTF-8");
    PickleNode made;
    made.kind = kind;
    made.text = text;
    return push(made);
  }
  bool push_container(Kind kind) {
    PickleNode made;
    made.kind = kind;
    made.items = static_cast<uint32_t>(pickle_.lists_.size());
    pickle_.lists_.emplace_back();
    return push(made);
  }
  bool pop(PickleId& out) {
    if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
    out = stack_.back();
    stack_.pop_back();
    return true;
  }
  // What lies above the last mark; the mark goes too.
  bool pop_mark(std::vector<PickleId>& out) {
    auto mark = stack_.end();
    while (mark != stack_.begin() && *(mark - 1) != kMark) --mark;
    if (mark == stack_.begin()) return fail("there is no mark");
    out.assign(mark, stack_.end());
    stack_.erase(mark - 1, stack_.end());
    return true;
  }
  bool add(PickleId container, PickleId child) {
    if (++links_ > limits_.nodes) return fail("more than " + std::to_string(limits_.nodes) + " values");
    const uint32_t depth = node(child).depth + 1u;
    if (depth > limits_.depth) return fail("nesting is deeper than " + std::to_string(limits_.depth));
    node(container).depth = std::max(node(container).depth, static_cast<uint16_t>(depth));
    list(container).push_back(child);
    return true;
  }
  bool make_tuple(const std::vector<PickleId>& elements) {
    if (!push_container(Kind::kTuple)) return false;
    const PickleId tuple = stack_.back();
    for (PickleId element : elements)
      if (!add(tuple, element)) return false;
    return true;
  }
  bool tuple_of(size_t count) {
    std::vector<PickleId> elements(count);
    for (size_t i = count; i-- > 0;)
      if (!pop(elements[i])) return false;
    return make_tuple(elements);
  }
  bool fill(Kind kind) {
    std::vector<PickleId> elements;
    if (!pop_mark(elements)) return false;
    if (kind == Kind::kTuple) return make_tuple(elements);
    if (!push_container(kind)) return false;
    return extend(elements);
  }
  // Appends to the container on top of the stack.
  bool extend(const std::vector<PickleId>& elements) {
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
  bool extend_from_mark() {
    std::vector<PickleId> elements;
    return pop_mark(elements) && extend(elements);
  }
  bool extend_from_stack(size_t count) {
    std::vector<PickleId> elements(count);
    for (size_t i = count; i-- > 0;)
      if (!pop(elements[i])) return false;
    return extend(elements);
  }

  // ---- memo
  bool remember(uint64_t key) {
    if (stack_.empty() || stack_.back() == kMark) return fail("nothing to remember");
    if (key > limits_.nodes) return fail("a memo number is too large");
    if (key >= memo_.size()) memo_.resize(to_size(key + 1), kMark);
    memo_[to_size(key)] = stack_.back();
    return true;
  }
  bool recall(uint64_t key) {
    if (key >= memo_.size() || memo_[to_size(key)] == kMark) return fail("an unknown memo number");
    stack_.push_back(memo_[to_size(key)]);
    return true;
  }
  bool line_number(uint64_t& out) {
    std::string_view line;
    if (!take_line(line)) return false;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), out);
    return error == std::errc() && stop == line.data() + line.size() ? true : fail("a malformed number");
  }

  // ---- globals and objects
  bool push_global(std::string_view module, std::string_view name) {
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
  bool push_object(PickleId callee, PickleId arguments) {
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
  bool reduce() {
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
  // The empty tuple on the stack becomes the arguments of an object of that class.
  bool object_of(PickleId callee) {
    PickleId arguments = 0;
    return pop(arguments) && push_object(callee, arguments);
  }
  bool new_object(bool with_keywords) {
    PickleId keywords = 0;
    PickleId arguments = 0;
    PickleId callee = 0;
    if (with_keywords && !pop(keywords)) return false;
    return pop(arguments) && pop(callee) && push_object(callee, arguments);
  }
  bool build() {
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
  bool persistent() {
    PickleId id = 0;
    if (!pop(id)) return false;
    PickleNode made;
    made.kind = Kind::kPersistent;
    made.arguments = id;
    made.depth = static_cast<uint16_t>(node(id).depth + 1u);
    return push(made);
  }

  // ---- numbers and texts of several spellings
  bool long_of(std::string_view raw) {
    if (raw.size() > 8) return fail("an integer does not fit 64 bits");
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    if (!raw.empty() && raw.size() < 8 && (static_cast<unsigned char>(raw.back()) & 0x80) != 0)
      value |= ~uint64_t{0} << (8 * raw.size());
    return push_int(static_cast<int64_t>(value));
  }
  bool decimal_line(bool is_long) {
    std::string_view line;
    if (!take_line(line)) return false;
    if (!is_long && (line == "00" || line == "01")) return push_bool(line == "01");
    if (is_long && line.ends_with('L')) line.remove_suffix(1);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || stop != line.data() + line.size()) return fail("a malformed integer");
    return push_int(value);
  }
  bool big_endian_float() {
    std::string_view raw;
    if (!take_text(8, raw)) return false;
    uint64_t bits = 0;
    for (char c : raw) bits = bits << 8 | static_cast<unsigned char>(c);
    PickleNode made;
    made.kind = Kind::kFloat;
    made.real = bit_cast<double>(bits);
    return push(made);
  }
  // Protocol 0 text: raw-unicode-escape, of which only \uXXXX and plain ASCII are written by the savers we
  // read.
  bool unicode_line() {
    std::string_view line;
    if (!take_line(line)) return false;
    std::string decoded;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\' && i + 5 < line.size() && line[i + 1] == 'u') {
        uint32_t code = 0;
        const auto [stop, error] = std::from_chars(line.data() + i + 2, line.data() + i + 6, code, 16);
        if (error != std::errc() || stop != line.data() + i + 6) return fail("a malformed text");
        append_utf8(decoded, code);
        i += 5;
      } else {
        append_utf8(decoded, static_cast<unsigned char>(line[i]));
      }
    }
    pickle_.made_.push_back(std::move(decoded));
    return push_text(pickle_.made_.back(), Kind::kText);
  }

  bool step(unsigned char opcode) {
    std::string_view raw;
    switch (opcode) {
      case 0x80: {  // PROTO
        uint8_t protocol = 0;
        return take(protocol) &&
               (protocol <= 5 || fail("protocol " + std::to_string(protocol) + " is unknown"));
      }
      case 0x95: {  // FRAME
        uint64_t length = 0;
        return take(length) && (length <= text_.size() - at_ || fail("a frame runs past the end"));
      }
      case '.': {  // STOP
        stopped_ = true;
        return pop(pickle_.root_);
      }
      case '(':
        stack_.push_back(kMark);
        return true;
      case '0': {  // POP
        if (stack_.empty()) return fail("the stack is empty");
        stack_.pop_back();
        return true;
      }
      case '1': {  // POP_MARK
        std::vector<PickleId> dropped;
        return pop_mark(dropped);
      }
      case '2':  // DUP
        if (stack_.empty() || stack_.back() == kMark) return fail("the stack is empty");
        stack_.push_back(stack_.back());
        return true;
      case 'N':
        return push_none();
      case 0x88:
        return push_bool(true);
      case 0x89:
        return push_bool(false);
      case 'J': {  // BININT
        int32_t value = 0;
        return take(value) && push_int(value);
      }
      case 'K': {  // BININT1
        uint8_t value = 0;
        return take(value) && push_int(value);
      }
      case 'M': {  // BININT2
        uint16_t value = 0;
        return take(value) && push_int(value);
      }
      case 0x8a:
        return take_counted<uint8_t>(raw) && long_of(raw);  // LONG1
      case 0x8b:
        return take_counted<uint32_t>(raw) && long_of(raw);  // LONG4
      case 'I':
        return decimal_line(false);
      case 'L':
        return decimal_line(true);
      case 'G':
        return big_endian_float();
      case 'X':
        return take_counted<uint32_t>(raw) && push_text(raw, Kind::kText);  // BINUNICODE
      case 0x8c:
        return take_counted<uint8_t>(raw) && push_text(raw, Kind::kText);  // SHORT_BINUNICODE
      case 0x8d:
        return take_counted<uint64_t>(raw) && push_text(raw, Kind::kText);  // BINUNICODE8
      case 'V':
        return unicode_line();
      case 'B':
        return take_counted<uint32_t>(raw) && push_text(raw, Kind::kBytes);  // BINBYTES
      case 'C':
        return take_counted<uint8_t>(raw) && push_text(raw, Kind::kBytes);  // SHORT_BINBYTES
      case 0x8e:
        return take_counted<uint64_t>(raw) && push_text(raw, Kind::kBytes);  // BINBYTES8
      case 'T':
        return take_counted<uint32_t>(raw) && push_text(raw, Kind::kBytes);  // BINSTRING
      case 'U':
        return take_counted<uint8_t>(raw) && push_text(raw, Kind::kBytes);  // SHORT_BINSTRING
      case ')':
        return tuple_of(0);
      case 't':
        return fill(Kind::kTuple);
      case 0x85:
        return tuple_of(1);
      case 0x86:
        return tuple_of(2);
      case 0x87:
        return tuple_of(3);
      case ']':
        return push_container(Kind::kList);
      case 'l':
        return fill(Kind::kList);
      case 'a':
        return extend_from_stack(1);
      case 'e':
        return extend_from_mark();
      case '}':
        return push_container(Kind::kDict);
      case 'd':
        return fill(Kind::kDict);
      case 's':
        return extend_from_stack(2);
      case 'u':
        return extend_from_mark();
      case 0x8f:
        return push_container(Kind::kSet);
      case 0x90:
        return extend_from_mark();
      case 0x91:
        return fill(Kind::kSet);
      case 'p': {
        uint64_t key = 0;
        return line_number(key) && remember(key);
      }
      case 'q': {
        uint8_t key = 0;
        return take(key) && remember(key);
      }
      case 'r': {
        uint32_t key = 0;
        return take(key) && remember(key);
      }
      case 0x94:
        return remember(memo_.size());  // MEMOIZE
      case 'g': {
        uint64_t key = 0;
        return line_number(key) && recall(key);
      }
      case 'h': {
        uint8_t key = 0;
        return take(key) && recall(key);
      }
      case 'j': {
        uint32_t key = 0;
        return take(key) && recall(key);
      }
      case 'c': {  // GLOBAL
        std::string_view name;
        return take_line(raw) && take_line(name) && push_global(raw, name);
      }
      case 0x93: {  // STACK_GLOBAL
        PickleId name = 0;
        PickleId module = 0;
        if (!pop(name) || !pop(module)) return false;
        if (node(name).kind != Kind::kText || node(module).kind != Kind::kText)
          return fail("a global is named by no text");
        return push_global(node(module).text, node(name).text);
      }
      case 'R':
        return reduce();
      case 0x81:
        return new_object(false);
      case 0x92:
        return new_object(true);
      case 'b':
        return build();
      case 'Q':
        return persistent();
      default:
        break;
    }
    return fail("the operation 0x" + std::string(1, "0123456789abcdef"[opcode >> 4]) +
                "0123456789abcdef"[opcode & 15] + " is not allowed here");
  }

  std::string_view text_;
  std::span<const PickleGlobal> allowed_;
  PickleLimits limits_;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<uint32_t> memo_;
  uint64_t at_ = 0;
  uint64_t opcode_at_ = 0;
  uint64_t links_ = 0;
  bool stopped_ = false;
  std::string problem_;
};

Result<Pickle> read_pickle(Bytes bytes, std::span<const PickleGlobal> allowed, PickleLimits limits) {
  return PickleReader(bytes, allowed, limits).read();
}

}  // namespace tftf
