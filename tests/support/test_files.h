// Files below tests/ and headers made in memory.
#pragma once

#include <string>
#include <string_view>

#include "tftf/container/header.h"

namespace tftf::test {

// The whole file at `path` below the tests' folder; a failed assertion when it cannot be read.
std::string read_test_file(const std::string& path);

// A safetensors file: length, header text, data of `data_bytes` zeros. No padding is added.
std::string safetensors_file(std::string_view header, uint64_t data_bytes = 0);

// Reads a header from memory as a host would.
HeaderScan scan_file(const std::string& name, std::string_view bytes, HeaderOptions options = {});

}  // namespace tftf::test
