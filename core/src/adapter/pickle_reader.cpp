#include <charconv>

#include "pickle_machine.h"
#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

// Bytes to the machine's operations, opcode by opcode.
class PickleReader : private PickleMachine {
 public:
  PickleReader(Bytes bytes, std::span<const PickleGlobal> allowed, PickleLimits limits)
      : PickleMachine(allowed, limits), text_(as_text(bytes)) {}

  Result<Pickle> read() {
    while (!stopped_) {
      opcode_at_ = at_;
      unsigned char opcode = 0;
      if (!take(opcode)) break;
      if (!step(opcode)) break;
    }
    if (!problem().empty()) {
      Error error;
      error.code = ErrorCode::kRefusedInput;
      error.message = "pickle: " + problem() + " at byte " + std::to_string(opcode_at_) + ".";
      return error;
    }
    return take_pickle();
  }

 private:
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

  bool line_number(uint64_t& out) {
    std::string_view line;
    if (!take_line(line)) return false;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), out);
    return error == std::errc() && stop == line.data() + line.size() ? true : fail("a malformed number");
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
    return push_float(bit_cast<double>(bits));
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
    return push_made_text(std::move(decoded));
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
        return end();
      }
      case '(':
        return push_mark();
      case '0':  // POP
        return drop();
      case '1': {  // POP_MARK
        std::vector<PickleId> dropped;
        return pop_mark(dropped);
      }
      case '2':  // DUP
        return duplicate();
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
        return memoize();  // MEMOIZE
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
      case 0x93:
        return push_stack_global();
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
  uint64_t at_ = 0;
  uint64_t opcode_at_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<Pickle> read_pickle(Bytes bytes, std::span<const PickleGlobal> allowed, PickleLimits limits) {
  return PickleReader(bytes, allowed, limits).read();
}

}  // namespace tftf
