// Where the bytes of an input come from: a file here, HTTP ranges elsewhere. All calls from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tftf/base/bytes.h"
#include "tftf/base/result.h"

namespace tftf {

// Tells whether a file is still the same one, unchanged.
struct Fingerprint {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const Fingerprint&) const = default;
};

// A file as it was when it was read.
struct SeenFile {
  std::string path;
  Fingerprint seen;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // As of now, not of when the source was opened.
  virtual Result<Fingerprint> fingerprint() const = 0;
  // Exactly into.size() bytes; kIoChanged when the file ends before, kIoRead for anything else.
  virtual Result<void> read(uint64_t offset, MutableBytes into) = 0;
  // These bytes will be read soon.
  virtual void advise(uint64_t offset, uint64_t bytes) = 0;
  // For copies inside the kernel; -1: none.
  virtual int descriptor() const { return -1; }
};

// A regular file, read only. Anything else (FIFO, device, folder) is kIoRead and never waited for.
Result<std::shared_ptr<ByteSource>> open_file_source(const std::string& path);

// Fingerprint of what `path` names now (links followed); kIoRead when it cannot be looked at.
Result<Fingerprint> file_fingerprint(const std::string& path);

}  // namespace tftf
