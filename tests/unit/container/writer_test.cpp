// Writing headers: both forms, byte for byte; what is written reads back sound; what cannot be written is refused.
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "test_files.h"

using namespace tftf;

namespace {

// Without its length and padding.
std::string text_of(const std::string& header) { return header.substr(8, header.find_last_not_of(' ') - 7); }

std::string write(const std::vector<OutputEntry>& tensors, const Metadata& metadata, HeaderForm form) {
  std::vector<uint64_t> begins;
  const auto header = write_header(tensors, metadata, form, &begins);
  REQUIRE(header.ok());
  REQUIRE(begins.size() == tensors.size() + 1);
  CHECK(header->size() % 8 == 0);
  CHECK(header->size() - 8 - text_of(*header).size() < 8);
  CHECK(load_le<uint64_t>(as_bytes(*header).data()) == header->size() - 8);
  return *header;
}

ErrorCode refused(const std::vector<OutputEntry>& tensors) {
  const auto header = write_header(tensors, {}, HeaderForm::kTftf);
  REQUIRE_FALSE(header.ok());
  CHECK(header.error().message.back() == '.');
  return header.error().code;
}

}  // namespace

TEST_CASE("the two forms of a header") {
  const std::vector<OutputEntry> tensors = {{"b", DType::F32, {2, 3}},
                                            {"\xC3\xA4\xF0\x9F\x98\x80\n\"\x7F", DType::F4, {2}},
                                            {"s", DType::BF16, {}}};
  const Metadata metadata = {{"format", "pt"}, {"\xC3\xA4", "\\/\x01"}};
  CHECK(text_of(write(tensors, metadata, HeaderForm::kTftf)) ==
        "{\"__metadata__\":{\"format\":\"pt\",\"\\u00e4\":\"\\\\/\\u0001\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"\\u00e4\\ud83d\\ude00\\n\\\"\\u007f\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[24,25]},"
        "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[25,27]}}");
  CHECK(text_of(write(tensors, metadata, HeaderForm::kReference)) ==
        "{\"__metadata__\":{\"format\":\"pt\",\"\xC3\xA4\":\"\\\\/\\u0001\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"\xC3\xA4\xF0\x9F\x98\x80\\n\\\"\x7F\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[24,25]},"
        "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[25,27]}}");
  CHECK(text_of(write({}, {}, HeaderForm::kTftf)) == "{}");
  CHECK(text_of(write({}, {{"", ""}}, HeaderForm::kTftf)) == "{\"__metadata__\":{\"\":\"\"}}");
}

TEST_CASE("begins are the offsets that the header names") {
  std::vector<uint64_t> begins;
  REQUIRE(write_header({{"a", DType::F32, {3}}, {"e", DType::I64, {0, 7}}, {"b", DType::U8, {5}}}, {},
                       HeaderForm::kReference, &begins)
              .ok());
  CHECK(begins == std::vector<uint64_t>{0, 12, 12, 17});
}

TEST_CASE("what is written reads back as it was, sound") {
  std::mt19937 random(7);
  const std::string letters[] = {"a",  "Z", ".", "\xC3\xA4", "\xF0\x9F\x98\x80", "\"", "\\", "/",
                                 "\n", "0", " ", "'"};
  for (int round = 0; round < 200; ++round) {
    std::vector<OutputEntry> tensors;
    std::set<std::string> names;
    const size_t count = random() % 20;
    while (names.size() < count) {
      std::string name;
      for (size_t i = 0; i <= random() % 12; ++i) name += letters[random() % std::size(letters)];
      if (!names.insert(name).second) continue;
      const DTypeInfo& dtype = all_dtypes()[random() % all_dtypes().size()];
      Shape shape;
      for (size_t i = 0; i < random() % 4; ++i) shape.push_back(random() % 5);
      if (dtype.bits < 8) shape.insert(shape.begin(), 8);
      tensors.push_back({name, dtype.dtype, shape});
    }
    Metadata metadata;
    for (size_t i = 0; i < random() % 4; ++i)
      metadata.emplace_back("k" + std::to_string(i), letters[random() % std::size(letters)]);
    const bool reference = round % 2 == 0;
    if (reference) sort_in_reference_order(tensors);
    std::vector<uint64_t> begins;
    const auto header =
        write_header(tensors, metadata, reference ? HeaderForm::kReference : HeaderForm::kTftf, &begins);
    REQUIRE(header.ok());
    const HeaderScan scan = test::scan_file("m", *header + std::string(begins.back(), '\0'));
    INFO(*header);
    REQUIRE(scan.sound);
    CHECK(scan.header.metadata == metadata);
    CHECK(scan.header.data_offset() == header->size());
    REQUIRE(scan.header.tensors.size() == tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      CHECK(scan.header.tensors[i].name == tensors[i].name);
      CHECK(scan.header.tensors[i].dtype == tensors[i].dtype);
      CHECK(scan.header.tensors[i].shape == tensors[i].shape);
      CHECK(scan.header.tensors[i].begin == begins[i]);
      CHECK(scan.header.tensors[i].end == begins[i + 1]);
    }
    for (const Diagnostic& finding : scan.findings) {
      CHECK(finding.rule != Rule::ST051);
      CHECK(finding.rule != Rule::ST054);
      if (reference) CHECK((finding.rule != Rule::ST052 && finding.rule != Rule::ST053));
    }
  }
}

TEST_CASE("what cannot be written is refused") {
  CHECK(refused({{"", DType::U8, {}}}) == ErrorCode::kRefusedCollision);
  CHECK(refused({{"__metadata__", DType::U8, {}}}) == ErrorCode::kRefusedCollision);
  CHECK(refused({{"a", DType::U8, {}}, {"b", DType::U8, {}}, {"a", DType::U8, {}}}) ==
        ErrorCode::kRefusedCollision);
  CHECK(refused({{"\xFF", DType::U8, {}}}) == ErrorCode::kRefusedCollision);
  CHECK(refused({{"a", DType::F4, {3}}}) == ErrorCode::kRefusedShape);
  CHECK(refused({{"a", DType::U8, {uint64_t{1} << 61}}}) == ErrorCode::kRefusedShape);
  CHECK(refused({{"a", DType::U8, {uint64_t{1} << 32, uint64_t{1} << 32, 0}}}) == ErrorCode::kRefusedShape);
  std::vector<OutputEntry> many;
  for (int i = 0; i < 9; ++i) many.push_back({std::to_string(i), DType::U8, {(uint64_t{1} << 61) - 1}});
  CHECK(refused(many) == ErrorCode::kRefusedShape);
  CHECK(refused({{std::string(kDefaultMaxHeader, 'n'), DType::U8, {}}}) == ErrorCode::kRefusedUnsupported);
  CHECK_FALSE(write_header({}, {{"a", "\xFF"}}, HeaderForm::kReference).ok());
  CHECK_FALSE(write_header({}, {{"\xC0\x80", ""}}, HeaderForm::kTftf).ok());
}

TEST_CASE("reference order is by dtype rank, then by name's bytes") {
  std::vector<OutputEntry> tensors = {
      {"b", DType::U8, {}},        {"a", DType::BOOL, {}}, {"B", DType::U8, {}}, {"x", DType::U64, {}},
      {"\xC3\xA4", DType::U8, {}}, {"w", DType::C64, {}},  {"v", DType::F64, {}}};
  sort_in_reference_order(tensors);
  std::string order;
  for (const OutputEntry& tensor : tensors) order += tensor.name + " ";
  CHECK(order == "x v w B b \xC3\xA4 a ");
}
