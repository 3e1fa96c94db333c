// Which tensor of a base an adapter changes, and how: decided from names, dtypes, shapes and the configuration alone,
// before anything is written (spec tftf 2.6 and 4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/adapter.h"
#include "tftf/base/regex.h"
#include "tftf/quant/fp8.h"

namespace tftf {

// A matrix inside an adapter tensor: element (i, j) of matrix e lies at first + e * matrix_step + i * row_step +
// j * col_step.
// With a `core` (Tucker form, shape [rows, k, x]) it is sum over k of core[i][k][x] * tensor[k][c] at (i, c * X + x),
// where `tensor` is [k, c] by row_step and col_step.
struct Factor {
  const TensorData* tensor = nullptr;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t row_step = 0;
  uint64_t col_step = 0;
  uint64_t matrix_step = 0;
  uint64_t first = 0;
  const TensorData* row_scale = nullptr;  // row i times element i of it
  const TensorData* col_scale = nullptr;  // column j times element j of it
  const TensorData* core = nullptr;
  bool empty() const { return tensor == nullptr; }
};

// What becomes of a weight, seen as `matrices` row-major matrices of rows x cols. In this order: the delta is added
// (w + s * delta), then rows or columns are scaled, columns rotated or turned, rows or columns brought to a magnitude,
// rows replaced; one rounding at the end.
struct MergeProgram {
  std::shared_ptr<const Adapter> adapter;                 // keeps the tensors alive
  std::vector<std::shared_ptr<const TensorData>> made{};  // tensors that were put together from the adapter's
  std::string word;                                       // "lora r=16", for the plan's text
  uint64_t matrices = 1;
  uint64_t rows = 0;
  uint64_t cols = 0;

  enum class Delta : uint8_t {
    kNone,
    kProduct,    // left * right
    kHadamard,   // (left * right) o (left2 * right2)
    kKronecker,  // kron(left [* right], left2 [* right2])
    kTiled,      // left, repeated over rows and columns and cut at the edges
  };
  Delta delta = Delta::kNone;
  Factor left, right, left2, right2;
  double scale = 1;  // s; rounded to F32 for weights that are not F64
  // kKronecker: left2 is a stack of so many matrices of (rows / stack) x cols, and the stack of their products with
  // left [* right] is the delta, element for element, whatever its rows are; 0: left2 is one matrix.
  uint64_t kronecker_stack = 0;

  const TensorData* multiplier = nullptr;  // one value per row or column
  bool multiplies_rows = false;
  uint64_t multiplier_run = 1;  // columns that have a value in common

  // Columns in blocks of block_size: w := w * D^T (kOutputs) or w * D (kEmbedding), D made of the skew matrices whose
  // upper triangles are the rows of `rotation`.
  const TensorData* rotation = nullptr;
  uint64_t block_size = 0;
  bool rotation_transposed = true;
  bool rotation_shared = false;  // one block for all
  uint32_t neumann_terms = 0;    // 0: exact Cayley transform
  double rotation_limit = 0;     // largest Frobenius norm of a skew block; 0: none

  // What else becomes of whole rows.
  enum class Turn : uint8_t {
    kNone,
    kReflections,  // HRA: x := x - 2 (x * u) u for each column u of `turn` (cols x r), brought to length 1
    kOrthogonalReflections,  // the same, each u made orthogonal to those before it
    kButterfly,              // BOFT: `turn` (n, blocks, b, b); the multiplier scales rows afterwards
    kBlocks,  // MiSS "bat": `turn` (rows / b, b, b); each block w of b x b becomes w + (w * t + t)
  };
  Turn turn_kind = Turn::kNone;
  const TensorData* turn = nullptr;

  const TensorData* magnitude = nullptr;  // DoRA
  bool magnitude_of_rows = true;          // else of columns

  const TensorData* set_rows = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> set_row_numbers{};  // row of the weight, row of set_rows; sorted

  // DoRA whose norms are those of columns: they are needed before any row is finished.
  bool by_columns() const { return magnitude != nullptr && !magnitude_of_rows; }
  // Elements that a piece of work must be a multiple of: 1 or a row.
  uint64_t unit() const;
};

// How a stored matrix lies: (out, in) as in PyTorch's Linear, or (in, out) as in GPT-2's Conv1D.
enum class Axes : uint8_t { kOutIn, kInOut };

struct MergeOptions {
  double scale = 1;
  std::string adapter_name = "default";
  bool base_is_residual = false;      // an adapter whose base was modified at its start is accepted
  bool strict = false;                // a missing configuration is an error
  std::optional<Axes> expert_axes{};  // of stacked parameters, where nothing else decides
  std::optional<Axes> linear_axes{};  // of square weights, where nothing else decides
  bool parameters_in_order = false;   // pairs that fit several parameters: the innermost is the first one's
  bool fit = false;                   // names and experts of the adapter are brought to the base's
  std::vector<std::pair<Regex, RegexTemplate>> renames{};  // of the adapter's modules, one after the other
  bool untie_head = false;  // a head that is tied to the embeddings is written apart
};

// What config.json of the base says, where it matters.
struct MergeModel {
  std::optional<bool> tied{};        // tie_word_embeddings
  std::vector<std::string> types{};  // model_type, of the whole and of its text model
};

struct MergeResolution {
  struct Change {
    uint32_t base = 0;                            // index into the base's tensors
    const TensorData* replacement = nullptr;      // stands for the stored data, cast to the base's dtype
    std::shared_ptr<const MergeProgram> program;  // null: replaced only
  };
  // A tensor that the base lacks: saved with the adapter, or what becomes of a copy of a tensor of the base.
  struct Added {
    std::string name;
    const TensorData* data = nullptr;
    std::optional<uint32_t> copy_of{};
    std::shared_ptr<const MergeProgram> program{};
  };
  std::vector<Change> changes;  // by base tensor, ascending
  std::vector<Added> added;     // sorted by name
  std::vector<std::string> notices;
  std::shared_ptr<const Adapter>
      adapted{};         // what was made of an adapter of another family: replacements lie in it
  uint64_t modules = 0;  // of the adapter
  uint64_t merged = 0;
  uint64_t skipped = 0;  // named by no target, or excluded
  bool unties = false;   // embeddings and head differ from here on: tie_word_embeddings must be false
  std::optional<uint64_t> vocab_size{};  // rows that the embeddings have now, where that is another number
};

// `base`: names, dtypes and shapes as earlier pipes announce them.
// Refused: adapter tensors that meet nothing or are not understood (kRefusedUnmatched, with what was matched), pairs
// that are incomplete (kRefusedMissing), shapes and ranks (kRefusedShape), bases that are not floats
// (kRefusedUnsupported), two pairs for one tensor (kRefusedAmbiguous). kUsage: a scale other than 1 for a method
// without one.
Result<MergeResolution> resolve_merge(const std::shared_ptr<const Adapter>& adapter,
                                      std::span<const TensorView> base, const MergeOptions& options,
                                      const MergeModel& model);

}  // namespace tftf
