// Reading headers: 100,000 tensors (12 MB) with all container rules beside one bare SAX pass of nlohmann-json over
// the same text; a checkpoint of 163 shards and 90,000 tensors; hostile headers of 100 MB. Time is processor time,
// memory what was allocated at most. Prints a table; --json FILE writes the same.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace {

uint64_t allocated = 0;
uint64_t peak = 0;

void* allocate(std::size_t size) {
  void* block = std::malloc(size);
  if (!block) throw std::bad_alloc();
  allocated += malloc_usable_size(block);
  peak = std::max(peak, allocated);
  return block;
}

void release(void* block) {
  if (!block) return;
  allocated -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }

using namespace tftf;

namespace {

class Discard final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }
};

// A file of which only the header exists; its data reads as zeros.
struct SparseFile {
  std::string head;  // length and header text
  uint64_t size = 0;

  std::string read(ByteRange range) const {
    std::string bytes(range.length, '\0');
    if (range.offset < head.size()) head.copy(bytes.data(), range.length, range.offset);
    return bytes;
  }
};

std::string tensor_name(uint64_t i) {
  static constexpr const char* kParts[] = {"gate_proj.weight", "gate_proj.weight_scale_inv", "up_proj.weight",
                                           "up_proj.weight_scale_inv"};
  return "model.layers." + std::to_string(i / 1024) + ".mlp.experts." + std::to_string(i / 4 % 256) + "." +
         kParts[i % 4];
}

// In the order of the reference writer, or in the order of names' making.
SparseFile make_file(uint64_t first, uint64_t count, bool reference_order) {
  std::vector<OutputEntry> entries;
  for (uint64_t i = first; i < first + count; ++i)
    entries.push_back(i % 2 == 0 ? OutputEntry{tensor_name(i), DType::F8_E4M3, {2048, 7168}}
                                 : OutputEntry{tensor_name(i), DType::F32, {16, 56}});
  if (reference_order) sort_in_reference_order(entries);
  std::vector<uint64_t> begins;
  const auto header = write_header(entries, {{"format", "pt"}}, HeaderForm::kReference, &begins);
  return {*header, header->size() + begins.back()};
}

SparseFile wrap(std::string text) {
  SparseFile file;
  const uint64_t length = text.size();
  file.head.assign(8, '\0');
  store_le(reinterpret_cast<std::byte*>(file.head.data()), length);
  file.head += text;
  file.size = file.head.size();
  return file;
}

HeaderScan scan(const SparseFile& file) {
  HeaderReader reader("model.safetensors", file.size);
  while (auto range = reader.want()) {
    const Bytes head = as_bytes(std::string_view(file.head));
    if (range->offset + range->length <= head.size())
      reader.supply(head.subspan(range->offset, range->length));
    else
      reader.supply(as_bytes(std::string_view(file.read(*range))));
  }
  return reader.take();
}

struct Row {
  std::string what;
  double seconds = 0;
  uint64_t bytes = 0;
};

struct Side {
  const char* what;
  std::function<void()> work;
};

// Medians of `runs` alternating runs, and the most memory beyond what stood before.
std::vector<Row> measure(const std::vector<Side>& sides, int runs) {
  std::vector<std::vector<double>> times(sides.size());
  std::vector<Row> rows(sides.size());
  for (int run = 0; run < runs; ++run)
    for (size_t i = 0; i < sides.size(); ++i) {
      const uint64_t before = peak = allocated;
      const std::clock_t begin = std::clock();
      sides[i].work();
      times[i].push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
      rows[i].bytes = std::max(rows[i].bytes, peak - before);
    }
  for (size_t i = 0; i < sides.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    rows[i].what = sides[i].what;
    rows[i].seconds = times[i][times[i].size() / 2];
  }
  return rows;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "unexpected: %s\n", what);
  std::exit(1);
}

std::string repeat(std::string_view part, uint64_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() + part.size() <= bytes) text += part;
  return text;
}

std::vector<Row> bench_header() {
  const SparseFile sorted = make_file(0, 100'000, true);
  const SparseFile unsorted = make_file(0, 100'000, false);
  std::printf("header of %zu bytes\n", sorted.head.size() - 8);
  return measure({{"bare SAX pass",
                   [&] {
                     Discard discard;
                     require(nlohmann::json::sax_parse(sorted.head.begin() + 8, sorted.head.end(), &discard),
                             "SAX");
                   }},
                  {"read with all rules, reference order",
                   [&] {
                     const HeaderScan result = scan(sorted);
                     require(result.sound && result.header.tensors.size() == 100'000, "sound");
                   }},
                  {"read with all rules, other order", [&] { require(scan(unsorted).sound, "sound"); }}},
                 5);
}

std::vector<Row> bench_checkpoint() {
  constexpr uint64_t kShards = 163;
  constexpr uint64_t kTensors = 90'188;
  std::vector<SparseFile> files;
  std::string index = "{\"metadata\":{\"total_size\":1},\"weight_map\":{";
  ModelListing listing;
  for (uint64_t s = 0; s < kShards; ++s) {
    const uint64_t first = kTensors * s / kShards;
    const uint64_t end = kTensors * (s + 1) / kShards;
    files.push_back(make_file(first, end - first, true));
    char name[64];
    std::snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", static_cast<unsigned>(s + 1),
                  static_cast<unsigned>(kShards));
    for (uint64_t i = first; i < end; ++i)
      index += (index.back() == '{' ? "\"" : ",\"") + tensor_name(i) + "\":\"" + name + "\"";
    listing.files.push_back({name, files.back().size, true, {}});
  }
  index += "}}";
  listing.files.push_back({"model.safetensors.index.json", index.size(), true, {}});
  return measure({{"checkpoint of 163 shards, 90,188 tensors",
                   [&] {
                     CheckpointReader reader(listing, {});
                     while (!reader.done())
                       for (const ReadRequest& request : reader.want()) {
                         if (request.file == "model.safetensors.index.json") {
                           reader.supply(request, as_bytes(std::string_view(index)));
                           continue;
                         }
                         const auto number = static_cast<size_t>(std::atoi(request.file.c_str() + 6));
                         reader.supply(request,
                                       as_bytes(std::string_view(files[number - 1].read(request.range))));
                       }
                     const auto checkpoint = reader.take();
                     require(checkpoint.ok() && checkpoint->order.size() == kTensors, "checkpoint");
                   }}},
                 5);
}

std::vector<Row> bench_hostile() {
  constexpr uint64_t kBytes = kDefaultMaxHeader - 100;
  const SparseFile nested = wrap(repeat("[", kBytes));
  const SparseFile shape = wrap("{\"a\":{\"shape\":[" + repeat("[],", kBytes) + "0]}}");
  const SparseFile empty_entries = wrap("{" + repeat("\"\":{},", kBytes) + "\"a\":0}");
  const SparseFile metadata = wrap("{\"__metadata__\":{" + repeat("\"\":0,", kBytes) + "\"a\":0}}");
  const SparseFile dims = wrap("{\"a\":{\"shape\":[" + repeat("0,", kBytes) + "0]}}");
  const SparseFile escapes = wrap("{" + repeat("\"\\n\":0,", kBytes) + "\"a\":0}");
  std::string distinct = "{";
  for (uint64_t i = 0; distinct.size() < kBytes - 100; ++i) distinct += "\"" + std::to_string(i) + "\":0,";
  const SparseFile names = wrap(distinct + "\"a\":0}");
  std::string cases = "{";
  for (uint64_t i = 0; cases.size() < kBytes - 100; ++i) {
    std::string name = "\"abcdefghijklmnopqrstuvwxyz\":0,";
    for (int bit = 0; bit < 26; ++bit)
      if (i >> bit & 1)
        name[static_cast<size_t>(bit) + 1] = static_cast<char>(name[static_cast<size_t>(bit) + 1] - 32);
    cases += name;
  }
  const SparseFile folded = wrap(cases + "\"a\":0}");
  auto side = [](const char* what, const SparseFile& file) {
    return Side{what, [&file] { require(!scan(file).sound, "hostile"); }};
  };
  return measure({side("100 MB of [", nested), side("33 million arrays in a shape", shape),
                  side("16 million empty entries", empty_entries), side("20 million metadata keys", metadata),
                  side("50 million dimensions", dims), side("14 million escaped names", escapes),
                  side("8 million names", names), side("3 million names that differ in case", folded)},
                 1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* json = argc == 3 && std::string_view(argv[1]) == "--json" ? argv[2] : nullptr;
  if (argc != 1 && !json) {
    std::fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
    return 2;
  }
  std::vector<Row> rows = bench_header();
  const double bare = rows[0].seconds;
  for (auto* more : {&bench_checkpoint, &bench_hostile})
    for (Row& row : (*more)()) rows.push_back(std::move(row));
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  std::printf("%-44s %10s %10s %8s\n", "", "ms", "MB", "ratio");
  for (size_t i = 0; i < rows.size(); ++i) {
    const double milliseconds = rows[i].seconds * 1e3;
    const double megabytes = static_cast<double>(rows[i].bytes) / 1e6;
    std::printf("%-44s %10.1f %10.1f", rows[i].what.c_str(), milliseconds, megabytes);
    if (i < 3) std::printf(" %8.2f", rows[i].seconds / bare);
    std::printf("\n");
    report.push_back({{"what", rows[i].what}, {"ms", milliseconds}, {"MB", megabytes}});
    if (i < 3) report.back()["ratio"] = rows[i].seconds / bare;
  }
  if (json) std::ofstream(json) << report.dump(2) << "\n";
  return 0;
}
