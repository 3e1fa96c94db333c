// The cf-* cases of the golden set, by calling the rules directly.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "tftf/base/bytes.h"
#include "tftf/lint/config_rules.h"

using namespace tftf;

namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::string kRoot = TFTF_TEST_DATA "/golden/safetensors/";

struct Folder {
  std::map<std::string, std::string> texts;
  std::vector<std::pair<std::string, Shape>> shapes;
  std::vector<ConfigTensor> tensors;
  std::vector<ConfigWeightFile> files;
  std::vector<std::string> formats;
  ConfigInput input;
};

// The header of a sound file, read by nlohmann: the golden files of these cases are all sound.
void read_weights(Folder& folder, const std::string& path, const std::string& bytes) {
  uint64_t length = load_le<uint64_t>(as_bytes(bytes).data());
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  ConfigWeightFile file;
  file.path = path;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.has_metadata = true;
      if (entry.contains("format")) {
        folder.formats.push_back(entry["format"].get<std::string>());
        file.format = folder.formats.back();
      }
      continue;
    }
    folder.shapes.emplace_back(name, entry["shape"].get<Shape>());
    ConfigTensor tensor;
    tensor.dtype = *find_dtype(entry["dtype"].get<std::string>());
    tensor.bytes = entry["data_offsets"][1].get<uint64_t>() - entry["data_offsets"][0].get<uint64_t>();
    folder.tensors.push_back(tensor);
  }
  folder.files.push_back(file);
}

}  // namespace

TEST_CASE("the configuration rules find what the golden cases list") {
  const auto manifest = nlohmann::json::parse(*read_file(kRoot + "manifest.json"));
  size_t cases = 0;
  for (const auto& one : manifest["cases"]) {
    const std::string id = one["id"];
    if (id.substr(0, 3) != "cf-") continue;
    INFO(id);
    ++cases;
    const auto expected = nlohmann::json::parse(*read_file(kRoot + "expect/" + id + ".json"));
    Folder folder;
    folder.formats.reserve(8);
    for (const auto& file : expected["files"]) {
      const std::string path = file["path"];
      folder.texts[path] = *read_file(kRoot + "cases/" + id + "/" + path);
      if (path.size() > 12 && path.substr(path.size() - 12) == ".safetensors")
        read_weights(folder, path, folder.texts[path]);
    }
    for (size_t i = 0; i < folder.tensors.size(); ++i) {
      folder.tensors[i].name = folder.shapes[i].first;
      folder.tensors[i].shape = &folder.shapes[i].second;
    }
    ConfigInput& input = folder.input;
    input.tensors = folder.tensors;
    input.files = folder.files;
    input.has_model_file = input.has_checked_file = true;
    if (folder.texts.count("config.json")) input.config_text = folder.texts["config.json"];
    if (folder.texts.count("tokenizer.json")) input.tokenizer_text = folder.texts["tokenizer.json"];
    std::optional<TiedTensors> tied;
    Diagnostics found = check_config(input, &tied);
    if (tied && expected["options"]["data"].get<bool>())
      found.push_back(tied_head_differs("config.json", folder.tensors[tied->head].name,
                                        folder.tensors[tied->embedding].name));

    using ExpectedIssue = std::tuple<std::string, std::string, std::string>;
    std::set<ExpectedIssue> want, got;
    for (const auto& issue : expected["expect"]["issues"]) {
      const std::string rule = issue["rule"];
      if (rule.substr(0, 2) != "CF") continue;
      want.emplace(rule, issue["file"],
                   issue["subject"].is_null() ? "" : issue["subject"].get<std::string>());
      for (const Diagnostic& d : found) {
        if (rule_info(d.rule).id != rule ||
            d.subject.value_or("") != (issue["subject"].is_null() ? "" : issue["subject"]))
          continue;
        // Every value of the case shows in the message; lists are joined differently there.
        const std::string text = message(d);
        for (const auto& [key, value] : issue["values"].items()) {
          if (key == "detail" || value.is_null()) continue;
          if (std::string(rule_info(d.rule).message).find("{" + key + "}") == std::string::npos) continue;
          std::istringstream parts(value.is_string() ? value.get<std::string>() : value.dump());
          for (std::string part; std::getline(parts, part, ',');) {
            INFO(text);
            CHECK(text.find(part) != std::string::npos);
          }
        }
      }
    }
    for (const Diagnostic& d : found) got.emplace(rule_info(d.rule).id, d.file, d.subject.value_or(""));
    CHECK(got == want);
    CHECK(got.size() == found.size());
  }
  CHECK(cases == 36);
}
