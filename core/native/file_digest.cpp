#include "tftf_native/file_digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "tftf/base/sha256.h"
#include "tftf_native/byte_source.h"
#include "workers.h"

namespace tftf {
namespace {

constexpr uint64_t kDigestBlock = 1 << 20;

Result<std::string> digest_of(ByteSource& source, uint64_t offset, uint64_t bytes) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (hash == nullptr || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1)
    return Error{.message = "SHA-256 could not be started."};
  std::vector<std::byte> block;
  while (bytes != 0) {
    block.resize(static_cast<size_t>(std::min(bytes, kDigestBlock)));
    TFTF_TRY(source.read(offset, block));
    if (EVP_DigestUpdate(hash.get(), block.data(), block.size()) != 1)
      return Error{.message = "SHA-256 could not go on."};
    offset += block.size();
    bytes -= block.size();
  }
  std::array<std::byte, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(digest.data()), &length) != 1)
    return Error{.message = "SHA-256 could not be finished."};
  return hex_text({digest.data(), length});
}

}  // namespace

Result<std::string> file_digest(const std::string& path, uint64_t offset, uint64_t bytes) {
  auto source = open_file_source(path);
  if (!source.ok()) return std::move(source).error();
  return digest_of(**source, offset, bytes);
}

Result<std::vector<std::string>> file_digests(const std::vector<std::string>& paths, uint32_t threads) {
  std::vector<std::string> digests(paths.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<Error> error;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      auto source = open_file_source(paths[i]);
      auto digest =
          source.ok() ? digest_of(**source, 0, (*source)->size()) : Result<std::string>(source.error());
      if (digest.ok()) {
        digests[i] = *std::move(digest);
        continue;
      }
      const std::lock_guard lock(mutex);
      if (!error) error = std::move(digest).error();
    }
  };
  run_workers(static_cast<uint32_t>(std::min<size_t>(std::max(1u, threads), paths.size())), work, [] {});
  if (error) return *std::move(error);
  return digests;
}

}  // namespace tftf
