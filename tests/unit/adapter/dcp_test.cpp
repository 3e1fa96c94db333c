#include "tftf/adapter/dcp.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

using namespace tftf;

namespace {

using Folder = std::map<std::string, std::string>;

Folder read_folder(const std::string& name, std::initializer_list<std::string> files) {
  Folder folder;
  for (const std::string& file : files) {
    std::ifstream stream(std::string(TFTF_TEST_DATA) + "/golden/tftf/inputs/dcp/" + name + "/" + file,
                         std::ios::binary);
    REQUIRE(stream.good());
    std::stringstream text;
    text << stream.rdbuf();
    folder[file] = text.str();
  }
  return folder;
}

Result<std::vector<NamedTensor>> read_dcp(const Folder& folder) {
  std::vector<FileEntry> files;
  for (const auto& [name, text] : folder) files.push_back({name, text.size(), true, ""});
  DcpReader reader(files);
  for (auto wanted = reader.want(); !wanted.empty(); wanted = reader.want())
    for (const ReadRequest& request : wanted)
      reader.supply(request,
                    as_bytes(folder.at(request.file)).subspan(request.range.offset, request.range.length));
  return reader.take();
}

}  // namespace

TEST_CASE("one rank, several ranks, a newer .metadata and strided chunks give the same kind of adapter") {
  for (const char* name : {"ws2", "newmeta", "strided"}) {
    INFO(name);
    const auto tensors = read_dcp(read_folder(std::string(name) + "/pytorch_model_fsdp_0",
                                              {".metadata", "__0_0.distcp", "__1_0.distcp"}));
    REQUIRE(tensors.ok());
    REQUIRE_FALSE(tensors->empty());
    for (const NamedTensor& tensor : *tensors) {
      CHECK(tensor.name.find("lora_") != std::string::npos);
      CHECK(tensor.data.bytes.size() == *byte_count(*element_count(tensor.data.shape), tensor.data.dtype));
    }
  }
}

TEST_CASE("missing, cut and damaged files are refused by name") {
  const Folder good = read_folder("ws2/pytorch_model_fsdp_0", {".metadata", "__0_0.distcp", "__1_0.distcp"});
  auto message = [](const Folder& folder) {
    auto tensors = read_dcp(folder);
    return tensors ? std::string() : tensors.error().message;
  };
  CHECK(message(good).empty());
  Folder bad = good;
  bad.erase("__1_0.distcp");
  CHECK(message(bad).find("__1_0.distcp") != std::string::npos);
  bad = good;
  bad["__1_0.distcp"].resize(bad["__1_0.distcp"].size() / 2);
  CHECK(message(bad).find("__1_0.distcp") != std::string::npos);
  bad = good;
  bad.erase(".metadata");
  CHECK(message(bad).find("no .metadata") != std::string::npos);
  // Any single damaged byte: an error or another result, never a crash.
  for (const auto& [name, text] : good)
    for (size_t at = 0; at < text.size(); at += 7) {
      bad = good;
      bad[name][at] = static_cast<char>(bad[name][at] ^ 0x41);
      (void)read_dcp(bad);
    }
}

TEST_CASE("an optimizer's folder holds no adapter") {
  const auto tensors =
      read_dcp(read_folder("train/checkpoint-20/optimizer_0", {".metadata", "__0_0.distcp"}));
  REQUIRE_FALSE(tensors.ok());
  CHECK(tensors.error().code == ErrorCode::kRefusedMissing);
}
