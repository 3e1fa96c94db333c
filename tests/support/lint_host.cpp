#include "lint_host.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "test_files.h"
#include "tftf/base/sha256.h"
#include "tftf/simd/floats.h"

namespace tftf::test {

LintInput lint_input(const MemoryFiles& files, std::string main) {
  LintInput input;
  input.given = "model";
  input.main = std::move(main);
  for (const auto& [path, content] : files) {
    // A path that ends in '/' is an empty folder.
    const bool folder = path.back() == '/';
    input.entries.push_back({folder ? path.substr(0, path.size() - 1) : path, folder, content.size(), ""});
  }
  // Hosts list in any order.
  std::reverse(input.entries.begin(), input.entries.end());
  return input;
}

LintResult run_lint(const MemoryFiles& files, std::string main, const MemoryFiles* base) {
  LintOptions options;
  if (base) options.base = lint_input(*base);
  Linter linter(lint_input(files, std::move(main)), std::move(options));
  std::vector<LintRequest> open = linter.want();
  while (!open.empty()) {
    const LintRequest request = std::move(open.back());
    open.pop_back();
    const MemoryFiles& from = request.source == LintSource::kBase ? *base : files;
    const std::string& content = from.at(request.file);
    REQUIRE(request.range.length > 0);
    REQUIRE(request.range.offset + request.range.length <= content.size());
    // A copy of its own, so that nothing can keep a view of it.
    const std::string piece = content.substr(request.range.offset, request.range.length);
    linter.supply(request, as_bytes(piece));
    for (LintRequest& more : linter.want()) open.push_back(std::move(more));
  }
  return linter.take();
}

namespace {

double smallest_normal(DType dtype) {
  if (dtype == DType::F16) return std::ldexp(1.0, -14);
  if (dtype == DType::F64) return std::ldexp(1.0, -1022);
  return std::ldexp(1.0, -126);
}

TensorStatistics statistics_of(const TensorInfo& tensor, std::string_view data) {
  TensorStatistics out;
  const std::byte* bytes = as_bytes(data).data();
  const uint64_t elements = *element_count(tensor.shape);
  const uint32_t bits = dtype_bits(tensor.dtype);
  const bool has_value = tensor.dtype != DType::C64;
  out.all_zero = out.zero_bytes = out.constant = true;
  for (char c : data) out.zero_bytes = out.zero_bytes && c == 0;
  for (uint64_t i = 0; i < elements && has_value; ++i) {
    const double value = element_as_f64(tensor.dtype, bytes, i);
    if (i == 0) out.first = value;
    if (value != 0) out.all_zero = false;
    if (std::isnan(value) && out.nan_count++ == 0) out.first_nan = i;
    if (std::isinf(value) && out.infinity_count++ == 0) out.first_infinity = i;
    if (value != 0 && std::fabs(value) < smallest_normal(tensor.dtype)) ++out.subnormal_count;
    if (std::isfinite(value) && std::fabs(value) >= std::ldexp(1.0, 64)) ++out.extreme_count;
    if (std::isfinite(value)) out.largest = std::max(out.largest, std::fabs(value));
    const auto byte = static_cast<unsigned char>(data[i * bits / 8]);
    if (tensor.dtype == DType::BOOL && byte > 1 && out.bool_count++ == 0) out.first_bool = i;
    if (bits >= 8 && data.substr(i * bits / 8, bits / 8) != data.substr(0, bits / 8)) out.constant = false;
  }
  Sha256 hash;
  hash.update(data);
  const auto digest = hash.digest();
  std::memcpy(out.hash, digest.data(), sizeof(out.hash));
  return out;
}

}  // namespace

std::vector<FileStatistics> data_statistics(const LintResult& result, const MemoryFiles& files) {
  std::vector<FileStatistics> all;
  for (const LintedFile& file : result.files) {
    FileStatistics& statistics = all.emplace_back();
    if (!file.scan.sound) continue;
    const std::string& content = files.at(file.path);
    for (const TensorInfo& tensor : file.scan.header.tensors)
      statistics.tensors.push_back(statistics_of(
          tensor,
          std::string_view(content).substr(file.scan.header.data_offset() + tensor.begin, tensor.bytes())));
  }
  return all;
}

std::vector<std::string> finding_lines(const Diagnostics& findings,
                                       const std::vector<std::string>& prefixes) {
  std::vector<std::string> lines;
  for (const Diagnostic& finding : findings) {
    const std::string id(rule_info(finding.rule).id);
    const bool wanted =
        prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
          return id.substr(0, prefix.size()) == prefix;
        });
    if (wanted) lines.push_back(id + " " + finding.file + " " + finding.subject.value_or("-"));
  }
  return lines;
}

std::string weights(const std::vector<LintTensor>& tensors, const std::string& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = nlohmann::ordered_json::parse(metadata);
  std::string data;
  for (const LintTensor& tensor : tensors) {
    const uint64_t bytes = *byte_count(*element_count(tensor.shape), *find_dtype(tensor.dtype));
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + bytes}}};
    data += tensor.data.empty() ? std::string(bytes, '\0') : tensor.data;
  }
  std::string text = tensors.empty() && metadata.empty() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return safetensors_file(text) + data;
}

}  // namespace tftf::test
