#include "tftf/base/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tftf {

ContentHash content_hash(Bytes bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace tftf
