// The data pass on colibri containers: what settles CO012, CO016, CO017, and the streams of CO025.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "lint_host.h"
#include "tftf/base/json_text.h"
#include "tftf/lint/data_pass.h"
#include "tftf/lint/policy.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/quant/colibri/rans_encoder.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;
using colibri::Format;

namespace {

constexpr const char* kTable = "model.embed_tokens.weight";

// The linter and its data pass, pieces in an order of their own.
LintResult lint_data(const MemoryFiles& files) {
  LintResult result = run_lint(files);
  DataPass pass(result);
  std::mt19937 random(11);
  do {
    std::vector<uint64_t> order(pass.piece_count());
    for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const uint64_t index : order) {
      const DataPass::Piece piece = pass.piece(index);
      std::array<std::string, 2> copies;
      std::array<Bytes, 2> bytes;
      for (uint32_t i = 0; i < piece.count; ++i) {
        const DataPass::Part& part = piece.parts[i];
        const std::string& file = files.at(result.files[part.file].path);
        REQUIRE(part.range.length > 0);
        REQUIRE(part.range.offset + part.range.length <= file.size());
        copies[i] = file.substr(part.range.offset, part.range.length);
        bytes[i] = as_bytes(copies[i]);
      }
      pass.add(index, pass.run(index, bytes, best_kernels()));
    }
  } while (pass.next_stage());
  pass.amend(result);
  return result;
}

// "error CO016", … of the CO rules.
Lines settled(const MemoryFiles& files) {
  LintResult result = lint_data(files);
  PathFindings findings{std::move(result.findings), {}};
  const IssueList list = apply_policy({&findings, 1}, LintPolicy());
  Lines lines;
  for (const Issue& issue : list.issues) {
    const RuleInfo& info = rule_info(issue.finding.rule);
    if (info.id.substr(0, 2) == "CO")
      lines.push_back(std::string(severity_name(issue.severity)) + " " + std::string(info.id));
  }
  return lines;
}

std::string text_of(const void* data, size_t bytes) { return {static_cast<const char*>(data), bytes}; }

// A matrix of noise, as that format's writer stores it.
MemoryFiles written_matrix(Format format, uint64_t rows, uint64_t columns, uint64_t group, uint32_t bits,
                           const std::string& metadata = "{}", bool with_zeros = true) {
  std::mt19937 random(static_cast<uint32_t>(rows * 1000 + columns + group));
  std::normal_distribution<float> normal(0, 0.05f);
  const colibri::IntegerSpec spec{format, bits, group == 0 ? 64 : group};
  const auto row_bytes = static_cast<size_t>(colibri::row_bytes(spec, columns));
  const auto row_scales = static_cast<size_t>(colibri::row_scales(spec, columns));
  std::vector<std::byte> codes(row_bytes * rows);
  std::vector<float> scales(row_scales * rows);
  for (uint64_t r = 0; r < rows; ++r) {
    std::vector<float> row(columns);
    for (float& value : row) value = normal(random);
    if (with_zeros && r % 5 == 3) std::fill(row.begin(), row.end(), 0.0f);
    if (with_zeros && r % 5 == 4) std::fill(row.begin(), row.end(), 3e-9f);  // below any scale
    colibri::encode_row(best_kernels(), spec, row, {codes.data() + r * row_bytes, row_bytes},
                        {scales.data() + r * row_scales, row_scales});
  }
  MemoryFiles files;
  files["out-00000.safetensors"] = weights(
      {{kTable, "U8", {codes.size()}, text_of(codes.data(), codes.size())},
       {std::string(kTable) + ".qs", "F32", {scales.size()}, text_of(scales.data(), scales.size() * 4)}},
      metadata);
  files["config.json"] =
      "{\"vocab_size\":" + std::to_string(rows) + ",\"hidden_size\":" + std::to_string(columns) + "}";
  return files;
}

MemoryFiles raw_matrix(uint64_t rows, uint64_t columns, const std::string& codes, uint64_t scale_count) {
  const std::vector<float> scales(scale_count, 0.25f);
  MemoryFiles files;
  files["out-00000.safetensors"] =
      weights({{kTable, "U8", {codes.size()}, codes},
               {std::string(kTable) + ".qs", "F32", {scale_count}, text_of(scales.data(), scale_count * 4)}},
              "{}");
  files["config.json"] =
      "{\"vocab_size\":" + std::to_string(rows) + ",\"hidden_size\":" + std::to_string(columns) + "}";
  return files;
}

}  // namespace

TEST_CASE("CO016 with data: silent for the groups that readers take, an error for others") {
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 80, 48, 4)).empty());
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 80, 64, 4)) == Lines{"error CO016"});
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 80, 40, 4)) ==
        Lines{"error CO016"});  // listed by no reader
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 256, 64, 4)).empty());
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 256, 192, 4)) ==
        Lines{"error CO016"});                                                     // read as 128
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 200, 128, 2)).empty());  // 2-bit codes in 4 bits
  for (const char* text : {"40", "64"}) {
    const LintResult result = lint_data(written_matrix(Format::kInt4Grouped, 200, 80, std::stoul(text), 4));
    for (const Diagnostic& finding : result.findings)
      if (finding.rule == Rule::CO016)
        CHECK(message(finding).find("the data are int4-grouped with group size " + std::string(text)) !=
              std::string::npos);
  }
  // At 96 columns three bits have the sizes of two groups: what is not about the truth stays as it was.
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 96, 64, 4)) ==
        Lines{"error CO016", "warning CO017"});
  CHECK(settled(written_matrix(Format::kInt3G64, 200, 96, 0, 3)) == Lines{"warning CO016", "error CO017"});
  CHECK(settled(written_matrix(Format::kInt4Grouped, 200, 96, 48, 4)).empty());
  // Codes of no writer settle nothing.
  std::string noise(20 * 40, '\0');
  std::mt19937 random(3);
  for (char& c : noise) c = static_cast<char>(random());
  CHECK(settled(raw_matrix(20, 80, noise, 40)) == Lines{"warning CO016"});
}

TEST_CASE("every group size that is misread is found by the data, every other is silent") {
  for (const uint64_t columns : {65u, 80u, 96u, 130u, 200u, 256u, 300u, 520u})
    for (const uint64_t group : {16u, 32u, 40u, 48u, 64u, 96u, 128u, 192u, 256u}) {
      if (group >= columns) continue;
      colibri::Pair pair{200,
                         columns,
                         *colibri::weight_bytes(Format::kInt4Grouped, 200, columns),
                         4 * *colibri::scale_count(Format::kInt4Grouped, 200, columns, group),
                         std::nullopt,
                         false};
      const colibri::Resolution read = colibri::resolve(pair);
      if (read.format != Format::kInt4Grouped) continue;
      INFO(columns << " " << group);
      const Lines lines = settled(written_matrix(Format::kInt4Grouped, 200, columns, group, 4));
      CHECK((std::find(lines.begin(), lines.end(), "error CO016") != lines.end()) ==
            (read.group_size != group));
    }
}

TEST_CASE("CO017 with data: int3 and int8 of the same sizes are told apart") {
  CHECK(settled(written_matrix(Format::kInt8Row, 20, 24, 0, 8)).empty());
  CHECK(settled(written_matrix(Format::kInt8Row, 20, 24, 0, 5)).empty());
  CHECK(settled(written_matrix(Format::kInt3G64, 20, 24, 0, 3)) == Lines{"error CO017"});
  CHECK(settled(written_matrix(Format::kInt4Row, 20, 48, 0, 4)).empty());
  CHECK(settled(written_matrix(Format::kInt3G64, 20, 48, 0, 3)) == Lines{"error CO017"});
  CHECK(settled(written_matrix(Format::kInt2Row, 20, 2, 0, 2)) == Lines{"error CO017"});
  CHECK(settled(raw_matrix(20, 24, std::string(20 * 24, '\x05'), 20)) == Lines{"warning CO017"});
}

TEST_CASE("CO012, CO013 with data: int8 is silent, FP8 an error, neither a warning") {
  const std::string declared = R"({"colibri.container.formats":"[\"fp8-e4m3-b128\"]"})";
  CHECK(settled(written_matrix(Format::kInt8Row, 2, 200, 0, 8, declared)).empty());
  std::string fp8(400, '\0');
  std::mt19937 random(5);
  for (char& c : fp8) c = static_cast<char>(random() % 2 * 128 + 0x10 + random() % 0x60);
  CHECK(settled(raw_matrix(2, 200, fp8, 2)) == Lines{"error CO012"});
  fp8[7] = '\x80';
  fp8[9] = '\x7F';  // NaN as FP8, and -128 is no code of int8
  CHECK(settled(raw_matrix(2, 200, fp8, 2)) == Lines{"warning CO012"});
}

TEST_CASE("a severity that the user has chosen stays") {
  LintResult result = lint_data(written_matrix(Format::kInt4Grouped, 200, 80, 64, 4));
  PathFindings findings{std::move(result.findings), {}};
  LintPolicy policy;
  policy.overrides.push_back({Rule::CO016, Severity::kInfo});
  const IssueList list = apply_policy({&findings, 1}, policy);
  CHECK_FALSE(list.failed);
}

TEST_CASE("CO025 with data: streams are decoded") {
  std::vector<std::byte> packed(8 * 32);
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i * 37);
  std::array<uint64_t, 16> histogram{};
  colibri::count_nibbles(packed, histogram);
  const colibri::RansTable table = colibri::rans_table(histogram);
  std::vector<std::byte> record = colibri::encode_rans(packed, table);
  const auto lines = [&] {
    const std::string name = "model.layers.3.mlp.experts.0.up_proj.weight";
    return settled(
        {{"out-rans-00000.safetensors",
          weights({{name, "U8", {record.size()}, text_of(record.data(), record.size())},
                   {name + ".qs", "F32", {8}}},
                  "{\"colibri.fmt\":" + OrderedJson(colibri::stamp_text({{name, "int4-rans256-g0"}})).dump() +
                      ",\"colibri.int4-rans256-g0.table\":" +
                      OrderedJson(colibri::rans_table_text(table)).dump() + "}")},
         {"config.json", R"({"hidden_size":64,"moe_intermediate_size":8,"first_k_dense_replace":0})"}});
  };
  CHECK(lines().empty());
  record[colibri::kRansRecordHeader] = record[colibri::kRansRecordHeader + 1] = std::byte{0};
  CHECK(lines() == Lines{"error CO025"});
}
