// What `repack` carries from one container into another: the codes, scales and zero points of a module, apart from how they
// are stored. A layout takes part with one constant, a CodeLayout (QuantFormat::codes): `codes` says how a module of it
// stores its values, `pack` which tensors would store the values of a module of any layout of the same kind, or which
// property they have no place for. There is no function per pair: every tensor of a module is a plane, a matrix of small
// values in a form (PlaneForm), and one tile operation turns any form into any other.
//
// To add a layout: a CodeLayout of its kind, made of PlaneForms with the packings of quant/planes.h, or with a PlanePacking
// of its own where values lie in no words of fields (swizzled scales).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/weight.h"

namespace tftf {

struct PlaneForm;

// How values, a byte each and row by row, become stored bytes and back. `rows` of a form's rows: whole row_units, but for
// the last rows. Fields that hold no value are 0.
struct PlanePacking {
  void (*unpack)(const PlaneForm& form, RowRange rows, const std::byte* in, uint8_t* values) noexcept;
  void (*pack)(const PlaneForm& form, RowRange rows, const uint8_t* values, std::byte* out) noexcept;
};

struct PlaneForm {
  const PlanePacking* packing = nullptr;  // null: the elements of the tensor are the values
  DType dtype{};                          // of the tensor
  Shape shape{};
  uint64_t rows = 0;  // of values
  uint64_t columns = 0;
  bool outputs_first = false;  // a row is of one output, not of one input or group of inputs
  uint32_t bits = 8;
  uint32_t shift = 0;       // a stored field is the value and so much more, modulo 2^bits
  uint32_t least = 0;       // smaller values have no field that every reader takes for them
  uint64_t row_unit = 1;    // rows whose bytes lie together …
  uint64_t unit_bytes = 0;  // … and how many those are
  // The same bytes for the same values.
  bool stores_like(const PlaneForm& other) const {
    return packing == other.packing && bits == other.bits && shift == other.shift && rows == other.rows &&
           columns == other.columns && outputs_first == other.outputs_first && row_unit == other.row_unit &&
           unit_bytes == other.unit_bytes;
  }
};

// Codes of one kind mean the same values under the same scales in every layout of that kind.
enum class CodeKind : uint8_t {
  kInteger,    // (code - zero) * scale, codes and zeros from 0, scales by groups of inputs
  kFp8,        // E4M3 * scale, scales by blocks of rows and columns
  kScaledFp8,  // E4M3 or E5M2 * scale, scales that say by their shape what they multiply
  kFp4,        // E2M1 * scale * global scale, scales by groups of inputs
  kLattice,    // points of a lattice
};

enum class PlaneRole : uint8_t {
  kCodes,
  kScales,
  kZeros,
  kIndex,        // I32, the group of each input
  kGlobal,       // one scale for all
  kActivations,  // a scale of what is multiplied with the weight
  kPreScale,     // a factor for each input
  kShape,        // of the weight, which only some containers write down
  kText,         // what the layout says of the module
};

struct CodePlane {
  PlaneRole role{};
  PlaneForm form{};
  TensorRef tensor{};  // of a source
  std::string name{};  // of a result
  // Of a result whose source has no such plane: word i of it is first + i / repeat * step.
  struct Words {
    uint32_t first = 0;
    uint64_t repeat = 1;
    uint32_t step = 0;
  };
  std::optional<Words> words{};
  std::optional<std::string> text{};  // of a result: its bytes
  bool reciprocal = false;            // of a result: 1 / the source's F32 values, none of which may be zero
};

struct CodeForm {
  CodeKind kind{};
  uint32_t bits = 0;            // of a code
  uint64_t outputs = 0;         // N
  uint64_t inputs = 0;          // K
  uint64_t group = 0;           // inputs of a scale, where scales go by groups; the last may be short
  uint64_t block[2] = {};       // outputs and inputs of a scale, where they go by blocks
  bool full_precision = false;  // ComfyUI is told to multiply with the weight in full precision
  std::vector<CodePlane> planes{};
  const CodePlane* find(PlaneRole role) const {
    for (const CodePlane& plane : planes)
      if (plane.role == role) return &plane;
    return nullptr;
  }
};

struct PackRequest {
  std::string name{};                 // of the weight
  const JsonValue* config = nullptr;  // config.json
  uint64_t code_bytes = 0;            // that the source stores
  bool ordered = false;               // its index may be another than k / group
};

struct PackedCodes {
  std::vector<CodePlane> planes{};  // the codes first
  std::string warning{};
  std::optional<std::string> stamp{};  // for a reader of colibri containers
  // Not nothing: it has no zero points, and a source's all have to be this one, or `needs_zero`.
  std::optional<uint32_t> only_zero{};
  // Whole sentences for what the values alone can show and what then has no place, while nothing is written yet: an index
  // that is not k / group, and a zero point below PlaneForm::least.
  std::string needs_order{};
  std::string needs_zero{};
};

// A repacked module, and all of them, for config.json.
struct PackedModule {
  std::string name;  // of the weight
  uint32_t bits = 0;
  uint64_t group = 0;  // 0: a group is a row
  CodeKind kind{};
  uint64_t block[2] = {};
  bool zeros = false;    // zero points of its own are stored
  bool ordered = false;  // an index is stored
  bool inputs = false;   // a scale of the activations is stored
};
struct PackedModel {
  const std::vector<PackedModule>& modules;  // at least one
  const std::vector<std::string>& plain_modules;
  bool symmetric = false;  // all zero points are known to be half the range
  bool ordered = false;    // some module may have an index that is not k / group
};

struct CodeLayout {
  CodeKind kind{};
  // Null: it is no source. Errors: as QuantFormat::open.
  Result<CodeForm> (*codes)(OpenContext& context, const QuantMatch& match) = nullptr;
  // Null: nothing is repacked to it. An error's message continues "Module NAME (FROM) cannot become TO: ", without a full
  // stop; an Error with a tensor is whole.
  Result<PackedCodes> (*pack)(const CodeForm& from, const PackRequest& request) = nullptr;
  // The quantisation section of config.json, where `said` (or null) stands; empty: that may stay. A refusal says what of the
  // modules cannot be said. Null: the layout has none.
  Result<std::string> (*config)(const PackedModel& model, const JsonValue* said) = nullptr;
  // What belongs to the source's layout and to no module (scales of a key-value cache) is refused: nothing here would say
  // what it means.
  bool refuses_extras = false;
  // Its modules describe themselves: what config.json and its like say of another layout goes.
  bool describes_itself = false;
  // What belongs to the layout and to no module (a marker, scales of plain weights) has no place in another.
  bool extras_go = false;
};

// Why values have no place: what pack() returns.
inline Error no_place(std::string why) {
  return {.code = ErrorCode::kRefusedUnsupported, .message = std::move(why)};
}

}  // namespace tftf
