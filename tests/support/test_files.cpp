#include "test_files.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

namespace tftf::test {

std::string read_test_file(const std::string& path) {
  std::ifstream in(std::string(TFTF_TEST_DATA) + "/" + path, std::ios::binary);
  INFO(path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string safetensors_file(std::string_view header, uint64_t data_bytes) {
  std::string file(8, '\0');
  store_le(reinterpret_cast<std::byte*>(file.data()), uint64_t{header.size()});
  file += header;
  file.append(data_bytes, '\0');
  return file;
}

HeaderScan scan_file(const std::string& name, std::string_view bytes, HeaderOptions options) {
  HeaderReader reader(name, bytes.size(), options);
  while (auto range = reader.want()) {
    REQUIRE(range->length > 0);
    REQUIRE(range->offset <= bytes.size());
    REQUIRE(range->length <= bytes.size() - range->offset);
    // A copy of the exact length, so that a read past its end shows under AddressSanitizer.
    const std::string piece(bytes.substr(range->offset, range->length));
    reader.supply(as_bytes(piece));
  }
  return reader.take();
}

}  // namespace tftf::test
