// Where outputs go: a folder and its files, positional writes only. The interface is what a file system
// promises (nothing is durable before sync), so that tests can put one in its place that is full, or loses
// power.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/result.h"
#include "tftf_native/byte_source.h"

namespace tftf {

// No single write is longer: the page cache then takes folios of this size, and those of 1 MiB cost two to five times the
// time in a virtual machine that gives freed memory back to its host (docs/architecture.md, "Writing").
inline constexpr uint64_t kMaxWrite = 256 << 10;

// Errors are kIoWrite, or kIoSpace when the destination is full. Calls from any thread.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // The file gets at least this size; its space is taken now where the file system can.
  virtual Result<void> allocate(uint64_t size) = 0;
  virtual Result<void> truncate(uint64_t size) = 0;
  // Held until the file is closed or the process ends; false: another process has it. True where locks are
  // not known.
  virtual bool try_lock() { return true; }
  virtual Result<void> write(uint64_t offset, Bytes bytes) = 0;
  // Bytes of another file, inside the kernel where it can; `buffer` for where it cannot.
  virtual Result<void> copy(uint64_t offset, ByteSource& from, uint64_t from_offset, uint64_t bytes,
                            std::vector<std::byte>& buffer);
  // The disk may start with these bytes; says nothing about when they are safe.
  virtual void start_writeback(uint64_t /*offset*/, uint64_t /*bytes*/) {}
  // Contents and size are durable afterwards.
  virtual Result<void> sync() = 0;
  virtual Result<void> set_attributes(uint32_t mode, int64_t mtime_ns) = 0;
};

struct EntryInfo {
  Fingerprint fingerprint;
  bool regular = true;
  uint64_t allocated = 0;  // bytes of space it has
};

class OutputFolder {
 public:
  virtual ~OutputFolder() = default;
  // For messages.
  virtual std::string path_of(const std::string& name) const = 0;
  virtual Result<std::vector<std::string>> list() = 0;
  // What the name is, links not followed; nothing when it is not there.
  virtual Result<std::optional<EntryInfo>> look(const std::string& name) = 0;
  // A regular file, links never followed. kNew: must not be there yet; kOld: must be there and is kept as it
  // is.
  enum class OpenMode { kNew, kOld };
  virtual Result<std::shared_ptr<OutputFile>> open(const std::string& name, OpenMode mode) = 0;
  // The whole content of a small file.
  virtual Result<std::string> read(const std::string& name, uint64_t limit) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  // No error when it is not there.
  virtual Result<void> remove(const std::string& name) = 0;
  // Names (created, renamed, removed) are durable afterwards.
  virtual Result<void> sync() = 0;
  virtual std::optional<uint64_t> free_bytes() const = 0;
};

// An existing folder.
Result<std::shared_ptr<OutputFolder>> open_output_folder(const std::string& path);

}  // namespace tftf
