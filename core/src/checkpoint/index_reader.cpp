#include "checkpoint/index_reader.h"

#include <unordered_set>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

// The metadata object becomes a document, which takes several times its text.
constexpr uint64_t kMaxMetadata = 4'000'000;

// Takes weight_map entry by entry: a document of an index of 60 MB would need several times its size.
class IndexHandler final : public JsonHandler {
 public:
  explicit IndexHandler(ShardIndex& index) : index_(index) {}

  JsonKind root_kind = JsonKind::kNull;
  std::optional<JsonKind> map_kind;
  uint64_t metadata_begin = 0;
  uint64_t metadata_end = 0;  // 0: no metadata object

  void on_null(uint64_t) override { scalar(JsonKind::kNull); }
  void on_boolean(bool, uint64_t) override { scalar(JsonKind::kBoolean); }
  void on_number(std::string_view, uint64_t) override { scalar(JsonKind::kNumber); }
  void on_string(std::string_view text, uint64_t) override {
    if (in_map())
      index_.weight_map.back().second = text;
    else
      scalar(JsonKind::kString);
  }
  void on_key(std::string_view text, uint64_t) override {
    if (depth_ == 1) {
      section_ = text == "weight_map" ? Section::kMap
                 : text == "metadata" ? Section::kMetadata
                                      : Section::kOther;
      if (section_ != Section::kOther && !sections_.insert(std::string(text)).second)
        defect("the key \"" + std::string(text) + "\" occurs twice");
    } else if (in_map()) {
      index_.weight_map.emplace_back(text, std::string());
    }
  }
  void on_start_object(uint64_t at) override { open(JsonKind::kObject, at); }
  void on_start_array(uint64_t at) override { open(JsonKind::kArray, at); }
  void on_end_object(uint64_t at) override { close(at); }
  void on_end_array(uint64_t at) override { close(at); }

  void defect(std::string what) {
    if (!index_.defect) index_.defect = std::move(what);
  }

 private:
  enum class Section { kOther, kMap, kMetadata };

  bool in_map() const { return depth_ == 2 && section_ == Section::kMap && map_kind == JsonKind::kObject; }

  // The last of equal keys counts.
  void begin_section(JsonKind kind, uint64_t at) {
    if (section_ == Section::kMap) {
      map_kind = kind;
      index_.weight_map.clear();
    } else if (section_ == Section::kMetadata) {
      metadata_end = 0;
      metadata_begin = at;
      metadata_open_ = kind == JsonKind::kObject;
    }
  }
  void wrong_value(JsonKind kind) {
    defect("weight_map gives " + quote_name(index_.weight_map.back().first) + " a JSON " +
           std::string(json_kind_name(kind)) + " and no file name");
    index_.weight_map.pop_back();
  }
  void scalar(JsonKind kind) {
    if (depth_ == 0)
      root_kind = kind;
    else if (depth_ == 1)
      begin_section(kind, 0);
    else if (in_map())
      wrong_value(kind);
  }
  void open(JsonKind kind, uint64_t at) {
    if (depth_ == 0)
      root_kind = kind;
    else if (depth_ == 1 && root_kind == JsonKind::kObject)
      begin_section(kind, at);
    else if (in_map())
      wrong_value(kind);
    ++depth_;
  }
  void close(uint64_t at) {
    --depth_;
    if (depth_ == 1 && section_ == Section::kMetadata && metadata_open_) metadata_end = at + 1;
    metadata_open_ = metadata_open_ && depth_ != 1;
  }

  ShardIndex& index_;
  uint32_t depth_ = 0;
  Section section_ = Section::kOther;
  bool metadata_open_ = false;
  std::unordered_set<std::string> sections_;
};

std::string syntax_problem(uint64_t offset, const std::string& detail) {
  return "it is not valid JSON at byte " + std::to_string(offset) + ": " + detail;
}

std::optional<std::string> read_text(ShardIndex& index, IndexHandler& handler) {
  const std::string_view text = index.text;
  if (text.empty()) return "it is empty";
  if (text.substr(0, 41) == "version https://git-lfs.github.com/spec/v")
    return "it is a Git LFS pointer, not the index: fetch it with git-lfs or a direct download";
  if (text.substr(0, 3) == "\xEF\xBB\xBF") return "it begins with a byte order mark";
  if (auto at = find_invalid_utf8(text)) return syntax_problem(*at, "a byte is not valid UTF-8");
  uint64_t end = 0;
  if (auto error = read_json(text, JsonDialect::kPython, handler, end))
    return syntax_problem(error->offset, error->detail);
  const size_t rest = text.find_first_not_of(" \t\r\n", to_size(end));
  if (rest != std::string_view::npos) return syntax_problem(rest, "something follows the JSON value");
  if (handler.root_kind != JsonKind::kObject)
    return "it is a JSON " + std::string(json_kind_name(handler.root_kind)) + ", not an object";
  if (!handler.map_kind) return "it has no weight_map";
  if (handler.map_kind != JsonKind::kObject)
    return "its weight_map is a JSON " + std::string(json_kind_name(*handler.map_kind)) + ", not an object";
  return std::nullopt;
}

}  // namespace

ShardIndex read_index(std::string file, std::string text) {
  ShardIndex index;
  index.file = std::move(file);
  index.text = std::move(text);
  IndexHandler handler(index);
  index.problem = read_text(index, handler);
  if (index.problem) {
    index.weight_map.clear();
    index.defect.reset();
    return index;
  }
  if (handler.metadata_end > 0) {
    index.metadata_begin = handler.metadata_begin;
    const uint64_t length = handler.metadata_end - handler.metadata_begin;
    if (length > kMaxMetadata)
      handler.defect("its metadata takes " + std::to_string(length) + " bytes");
    else
      index.metadata =
          parse_json(std::string_view(index.text).substr(to_size(handler.metadata_begin), to_size(length)),
                     JsonDialect::kPython)
              .root;
  }
  return index;
}

}  // namespace tftf
