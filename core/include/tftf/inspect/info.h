// What a model is: kind, family, quantised layouts, sizes, tensors (spec cli 2 and 5, tftf 1.7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/adapter/survey.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/model_types.h"
#include "tftf/checkpoint/small_values.h"
#include "tftf/quant/registry.h"

namespace tftf {

enum class ModelKind : uint8_t {
  kCheckpoint,
  kAdapter,
  kEmbedding,
  kData,     // sound tensors, none of these
  kIndex,    // an index whose shards are not there
  kPointer,  // git-lfs
  kConfig,   // JSON only
  kBroken,   // no weight file is sound
};
// "checkpoint", "adapter", …
std::string_view model_kind_name(ModelKind kind);

struct DTypeTotal {
  DType dtype{};
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

struct LayoutTotal {
  std::string_view id;
  uint64_t modules = 0;
  std::optional<uint64_t> logical_parameters;  // nothing when a module hides its shape
  uint64_t bytes = 0;                          // companions and markers included
  std::string evidence;
};

// One stored tensor and its place in a layout.
struct TensorRow {
  TensorRef tensor;
  std::string_view layout;             // empty: plain
  std::optional<DType> logical_dtype;  // of a module's weight
  std::optional<Shape> logical_shape;
  std::optional<TensorRef> companion_of;
};

// Tensors whose names differ in layer or expert numbers only, of one dtype and shape.
struct FoldedRow {
  std::string pattern;  // numbers as '#'; the name itself when there is one
  uint64_t count = 0;
  DType dtype{};
  Shape shape;
  uint64_t bytes = 0;
};

// Of a model type in the table of layouts: which layout the names are of, and which form the experts have (spec
// experts 3.2 and 4.1).
struct NameFacts {
  NameLayout layout{};
  uint64_t to5 = 0, to4 = 0;      // names that would move to transformers 5, and to transformers 4
  uint64_t split = 0, fused = 0;  // containers of experts
  uint64_t mixed = 0;             // containers with tensors of both forms, counted in both
};
// Nothing for a type outside of the table.
std::optional<NameFacts> find_name_facts(const Checkpoint& checkpoint);

// Views and references live as long as the checkpoint.
struct ModelInfo {
  const Checkpoint* checkpoint = nullptr;
  ModelKind kind = ModelKind::kData;
  std::string family;  // empty when unknown
  uint64_t data_bytes = 0;
  uint64_t stored_elements = 0;
  std::optional<uint64_t> logical_parameters;
  std::vector<DTypeTotal> dtypes;  // by falling count, ties by first appearance
  std::vector<LayoutTotal> layouts;
  Metadata metadata;  // of all shards, the first that has a key
  bool has_config = false;
  std::string model_type, dtype, quant_method;  // empty when absent
  std::optional<AdapterSurvey> adapter;
  AdapterKind adapter_kind = AdapterKind::kUnknown;  // what `adapter info` calls it
  std::vector<std::string> adapter_evidence;         // for that
  std::optional<NameFacts> names;
  std::vector<std::string_view> missing_shards;
  std::vector<TensorRow> rows;  // in reading order
  std::vector<std::string> notes;
};

// A pump: ask want() for byte ranges of small tensors until it gives nothing, then take().
class Inspector {
 public:
  explicit Inspector(const Checkpoint& checkpoint);
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes) { values_.supply(request, bytes); }
  void fail(const ReadRequest& request) { values_.fail(request); }
  ModelInfo take();

 private:
  void look();

  const Checkpoint& checkpoint_;
  SmallValues values_;
  bool looked_ = false;
  LayoutReport layouts_;
  AdapterSurvey adapter_;
};

// kRefusedInput for a checkpoint without weights, index and configuration; nothing when there is something to
// look at.
std::optional<Error> nothing_to_inspect(const Checkpoint& checkpoint);
// kRefusedInput, with the first reason, for a model whose weight files are all broken; nothing for any other.
// What info tells of it is complete all the same.
std::optional<Error> broken_model(const ModelInfo& info);

// The rows to show: those whose name holds `filter`.
std::vector<const TensorRow*> filtered_rows(const ModelInfo& info, std::string_view filter);
std::vector<FoldedRow> fold_rows(const ModelInfo& info, const std::vector<const TensorRow*>& rows);

// The document of `info --json` (spec cli 5). `filter` thins out `tensors` and `folded`, not the totals.
std::string info_json_text(const ModelInfo& info, std::string_view filter = {});

struct InfoTextOptions {
  std::string filter;
  bool dtype_summary = false;  // instead of the tensors
  bool offsets = false;
  bool fold = false;
  uint32_t width = 0;  // columns of the terminal: longer names are cut in the middle; 0: nothing is cut
  bool ascii = false;  // nothing but ASCII: the terminal shows no other characters
};
std::string info_text(const ModelInfo& info, const InfoTextOptions& options);

}  // namespace tftf
