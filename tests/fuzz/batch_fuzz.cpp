// The batch files of `colibri resolve` and `colibri classify`: any text ends in a document with an answer for each row, or
// in a sentence. Format: the text.
#include "input.h"
#include "tftf/command/colibri_request.h"

using namespace tftf;
using tftf::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) return 0;
  const auto rows = colibri::read_batch({reinterpret_cast<const char*>(data), size}, "pairs.json");
  if (!rows.ok()) {
    require(!rows.error().message.empty());
    return 0;
  }
  for (const auto answer : {colibri::resolve_batch, colibri::classify_batch}) {
    const auto document = answer(*rows, "pairs.json");
    if (!document.ok()) {
      require(!document.error().message.empty());
      continue;
    }
    require(rows->is_array());
    require(OrderedJson::parse(json_text(*document)) == *document);
  }
  return 0;
}
