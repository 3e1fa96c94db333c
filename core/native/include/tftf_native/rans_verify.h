// Verifies a folder of int4-rans256-g0 shards (spec colibri 4.4).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tftf/base/result.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf {

struct RansVerifyProgress {
  uint64_t done = 0;  // bytes
  uint64_t total = 0;
};
struct RansVerifyOptions {
  uint32_t threads = 0;  // 0: as many as there are processors
  uint64_t max_header = kDefaultMaxHeader;
  std::function<void(const RansVerifyProgress&)> progress{};  // by the calling thread, ten times a second
  const std::atomic<bool>* stop = nullptr;                    // set: kInterrupted
};

struct RansVerdict {
  std::vector<colibri::RansRefusal>
      refusals;  // none: trusted. By shard; the shard's own first, then by tensor
  std::vector<std::string> shards;
  uint64_t records = 0;       // stamped int4-rans256-g0 and sound by their headers
  bool has_manifest = false;  // without one digests are not checked
};

// Reads every shard (with a manifest twice: its own digest and those of its records). Holds one header at a time, and
// 1 MiB per thread. Errors: kUsagePath when `folder` is no folder, kRefusedMissing when it holds no shard, kIoRead when it
// or its manifest cannot be read, kInterrupted. A shard that cannot be read is E_SHARD_MALFORMED.
Result<RansVerdict> verify_rans(const std::string& folder, const RansVerifyOptions& options);

}  // namespace tftf
