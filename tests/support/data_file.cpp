#include "data_file.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace tftf_test {

std::string read_data(const std::string& path) {
  std::ifstream file(TFTF_TEST_DATA + path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace tftf_test
