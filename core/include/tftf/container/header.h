// The safetensors container: header as data, the reading of one header, the canonical text of one (spec
// safetensors).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/diagnostic/diagnostic.h"

namespace tftf {

// Length of the header's text that readers accept (spec safetensors 1); hosts may allow more (--max-header).
inline constexpr uint64_t kDefaultMaxHeader = 100'000'000;
// No option allows more: positions in a header are kept in 31 bits.
inline constexpr uint64_t kLargestHeader = 0x7FFF'FFF0;

struct TensorInfo {
  std::string name;
  DType dtype{};
  Shape shape;
  uint64_t begin = 0;  // byte range in the data section
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};

using Metadata =
    std::vector<std::pair<std::string, std::string>>;  // file order, unique keys (last value of equal keys)

struct Header {
  uint64_t header_length = 0;       // N: bytes of the header text, padding included
  std::vector<TensorInfo> tensors;  // header order; names unique when the file is sound
  bool has_metadata = false;        // `__metadata__` is an object
  Metadata metadata;
  std::vector<std::string> other_metadata;  // keys of `__metadata__` whose value is no string (ST047)
  uint64_t data_offset() const { return 8 + header_length; }  // file offset of the data section
};

// Everything one read of a header found. `readable`: the text parsed to an object (step 4 of spec lint-rules
// 3). `sound`: no error among the findings. `header` holds the usable entries when readable (known dtype,
// shape and offsets that are whole numbers, begin <= end), duplicates included; it is complete when sound.
struct HeaderScan {
  bool readable = false;
  bool sound = false;
  uint64_t file_size = 0;
  Header header;
  Diagnostics findings;  // ST rules but ST090 and the data pass; unordered; `file` as given
  // How many findings of a rule were counted and not kept (HeaderOptions::max_findings); rules without any
  // are absent.
  std::vector<std::pair<Rule, uint64_t>> omitted;
};

// Which bytes of the file are wanted next.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct HeaderOptions {
  uint64_t max_header = kDefaultMaxHeader;  // longer headers, or those past kLargestHeader, are ST010
  // Findings kept per rule: those that come first by offset. A hostile header of 100 MB could make hundreds
  // of millions; beside this their text is bounded to some 64 MB in all.
  uint64_t max_findings = 10'000;
  // Look at the end of the file too (ST070 by ZIP, what trailing bytes begin with). Costs one more range.
  bool tail = true;
};

// Reads one header: a pump that asks for byte ranges (first a small head, then the header text unless the
// head holds it, then the end of the file) and never for the data. Never allocates from a length before
// comparing it with the file size and `max_header`; memory is bounded by a small multiple of the header's
// length.
class HeaderReader {
 public:
  // `file` is the name that findings carry; `file_size` as the host reports it.
  HeaderReader(std::string file, uint64_t file_size, HeaderOptions options = {});
  ~HeaderReader();
  HeaderReader(HeaderReader&&) noexcept;
  HeaderReader& operator=(HeaderReader&&) noexcept;
  // The next range, always inside the file; nothing when done.
  std::optional<ByteRange> want() const;
  // The bytes of want(), exactly that many (fewer are taken for a file that shrank: ST009). They are not
  // needed after the call.
  void supply(Bytes bytes);
  // The host cannot read the file: ST009 with `reason`, a phrase such as "permission denied", and done.
  void fail(std::string reason);
  // The result; call once, when want() gives nothing.
  HeaderScan take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Several floating dtypes in the tensors of `headers` (rule ST090: F4 to F64 and BF16, not C64): the sorted
// list "BF16:3,F32:1", or nothing when there are fewer than two.
std::string mixed_dtypes(const std::vector<const Header*>& headers);

// A tensor to be written.
struct OutputEntry {
  std::string name;
  DType dtype{};
  Shape shape;
};

// How a header is written.
// kTftf: tensors in the order given, ASCII-escaped JSON (spec tftf 1.5). kReference: tensors in the order
// given, UTF-8 kept raw (spec colibri 3.5); both compact, `__metadata__` first when not empty, padded with
// spaces to a multiple of 8.
enum class HeaderForm { kTftf, kReference };

// The 8-byte length and the header text for tensors laid back to back in the order given. Errors: size
// overflow, sub-byte misalignment, a duplicate, empty or reserved name (kRefusedCollision / kRefusedShape),
// header over the limit of readers. `begins`, when given, receives each tensor's begin offset in the data
// section, and one past the last: the data size.
Result<std::string> write_header(const std::vector<OutputEntry>& tensors, const Metadata& metadata,
                                 HeaderForm form, std::vector<uint64_t>* begins = nullptr);

// Order of the reference writer: dtype rank descending, then name by bytes ascending.
void sort_in_reference_order(std::vector<OutputEntry>& tensors);

}  // namespace tftf
