#include "tftf/adapter/pickle.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>

using namespace tftf;
using namespace std::string_literals;

namespace {

constexpr PickleGlobal kAllowed[] = {{"torch", "Size", PickleCall::kFirstArgument},
                                     {"collections", "OrderedDict", PickleCall::kEmptyDict},
                                     {"m", "C", PickleCall::kOpaque},
                                     {"copyreg", "_reconstructor", PickleCall::kReconstruct}};

// A pickle's views point into its bytes, so the bytes are kept.
Result<Pickle> unpickled(const std::string& text) {
  static std::deque<std::string> kept;
  kept.push_back(text);
  return read_pickle(as_bytes(kept.back()), kAllowed);
}

std::string problem(const std::string& text) {
  auto pickle = unpickled(text);
  return pickle ? "" : pickle.error().message;
}

}  // namespace

TEST_CASE("plain values of every spelling") {
  auto number = [](const std::string& text) {
    auto pickle = unpickled(text);
    REQUIRE(pickle.ok());
    return (*pickle)[pickle->root()].integer;
  };
  CHECK(number("\x80\x04K\x07.") == 7);
  CHECK(number("J\xfe\xff\xff\xff."s) == -2);
  CHECK(number("M\x01\x02."s) == 0x0201);
  CHECK(number("\x8a\x02\x00\x80."s) == -32768);
  CHECK(number("\x8a\x00."s) == 0);
  CHECK(number("I42\n.") == 42);
  CHECK(number("L-5L\n.") == -5);
  CHECK(number("I01\n.") == 1);
  auto real = unpickled("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s);
  CHECK((*real)[real->root()].real == 1.5);
  auto text = unpickled("Va\\u00e9\n.");
  CHECK(text->text(text->root()) == "a\xC3\xA9");
}

TEST_CASE("containers, memo and objects") {
  const std::string pickled = "\x80\x02}q\x00(X\x01\x00\x00\x00"s + "aK\x01X\x01\x00\x00\x00"s + "ah\x00u."s;
  auto dict = unpickled(pickled);
  REQUIRE(dict.ok());
  CHECK(dict->find(dict->root(), "a") == dict->root());  // the last of equal keys, here the dict itself
  auto object = unpickled("cm\nC\n)\x81}X\x01\x00\x00\x00"s + "xK\x05sb."s);
  REQUIRE(object.ok());
  CHECK(object->size(*object->attribute(object->root(), "x")) == 5);
  auto size = unpickled("ctorch\nSize\nK\x02K\x03\x86\x85R."s);
  REQUIRE(size.ok());
  CHECK(size->sizes(size->root()) == std::vector<uint64_t>{2, 3});
  auto ordered = unpickled("ccollections\nOrderedDict\n)RX\x01\x00\x00\x00"s + "kK\x09s."s);
  REQUIRE(ordered.ok());
  CHECK(ordered->size(*ordered->find(ordered->root(), "k")) == 9);
}

TEST_CASE("nothing outside the list is touched") {
  CHECK(problem("cos\nsystem\n(X\x02\x00\x00\x00"s + "idtR."s).find("os.system") != std::string::npos);
  CHECK(problem("\x8c\x05posix\x8c\x06system\x93.").find("posix.system") != std::string::npos);
  CHECK(problem("(cm\nC\no.").find("not allowed") != std::string::npos);  // OBJ
  CHECK(problem("(im\nC\n.").find("not allowed") != std::string::npos);   // INST
  CHECK(problem("\x82\x01.").find("not allowed") != std::string::npos);   // EXT1
  CHECK(problem("Pabc\n.").find("not allowed") != std::string::npos);     // PERSID
  CHECK(problem("K\x01)R.").find("listed function") != std::string::npos);
}

TEST_CASE("damaged streams end in an error, not in a crash") {
  const std::string good = "\x80\x02}q\x00(X\x01\x00\x00\x00"s + "aK\x01X\x01\x00\x00\x00"s +
                           "b]q\x01(K\x01K\x02"s + "e(K\x03tu."s;
  for (size_t cut = 0; cut < good.size(); ++cut) CHECK_FALSE(unpickled(good.substr(0, cut)).ok());
  for (size_t at = 0; at < good.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[at] = static_cast<char>(byte);
      (void)unpickled(bad);
    }
  CHECK_FALSE(unpickled("X\xff\xff\xff\xff.").ok());
  CHECK_FALSE(unpickled("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.").ok());
  CHECK_FALSE(unpickled("j\xff\xff\xff\xff.").ok());
  CHECK_FALSE(unpickled("Nr\xff\xff\xff\xff.").ok());
}

TEST_CASE("nesting and size are bounded") {
  CHECK(problem(")" + std::string(2000, '\x85') + ".").find("nesting") != std::string::npos);
  CHECK(problem("]" + std::string(5000, '2') + std::string(5000, 'a') + ".").find("nesting") !=
        std::string::npos);
  auto few = read_pickle(as_bytes("(" + std::string(100, ']') + "l."), kAllowed, {50, 1000});
  CHECK_FALSE(few.ok());
}
