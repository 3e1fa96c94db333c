#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>

#include "adapter/rank_names.h"
#include "tftf/adapter/adapter.h"
#include "tftf/adapter/names.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

Error rank_error(ErrorCode code, const std::string& file, const std::string& tensor,
                 const std::string& what) {
  return {.code = code,
          .message = "Tensor " + quote_name(tensor) + " of " + quote_name(file) + " " + what + ".",
          .file = file,
          .tensor = tensor};
}

bool is_flattened(std::string_view name) {
  return name.starts_with("_flat_param") || name.starts_with("__flat_param");
}

// Pieces of one tensor, in the order of the ranks.
using Pieces = std::vector<const TensorData*>;

bool all_equal(const Pieces& pieces) {
  return std::all_of(pieces.begin() + 1, pieces.end(), [&](const TensorData* piece) {
    return piece->shape == pieces[0]->shape && piece->bytes == pieces[0]->bytes;
  });
}

TensorData whole_of(const Pieces& pieces, uint32_t dim) {
  TensorData whole{pieces[0]->dtype, pieces[0]->shape, {}};
  whole.shape[dim] = 0;
  uint64_t outer = 1, inner = dtype_bits(whole.dtype) / 8;
  for (size_t d = 0; d < whole.shape.size(); ++d) {
    if (d < dim) outer *= whole.shape[d];
    if (d > dim) inner *= whole.shape[d];
  }
  size_t bytes = 0;
  for (const TensorData* piece : pieces) {
    whole.shape[dim] += piece->shape[dim];
    bytes += piece->bytes.size();
  }
  whole.bytes.resize(bytes);
  std::byte* to = whole.bytes.data();
  for (uint64_t row = 0; row < outer; ++row) {
    for (const TensorData* piece : pieces) {
      const auto run = static_cast<size_t>(piece->shape[dim] * inner);
      if (run != 0) std::memcpy(to, piece->bytes.data() + row * run, run);
      to += run;
    }
  }
  return whole;
}

}  // namespace

Result<std::shared_ptr<const Adapter>> make_sharded_adapter(std::string given, std::vector<std::string> files,
                                                            std::vector<std::vector<NamedTensor>> ranks,
                                                            uint32_t dim,
                                                            const std::optional<AdapterConfigText>& config,
                                                            std::vector<std::string> notices) {
  for (size_t r = 0; r < files.size(); ++r) {
    const auto first = std::find(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(r), files[r]);
    if (first - files.begin() < static_cast<std::ptrdiff_t>(r))
      return Error{.code = ErrorCode::kUsage,
                   .message = "The file " + quote_name(files[r]) + " is given as two ranks, " +
                              std::to_string(first - files.begin()) + " and " + std::to_string(r) + ".",
                   .file = files[r]};
  }
  TFTF_TRY(check_rank_names(files));
  std::map<std::string, Pieces> by_name;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const NamedTensor& tensor : ranks[r]) {
      if (is_flattened(tensor.name)) {
        return rank_error(ErrorCode::kRefusedUnsupported, files[r], tensor.name,
                          "is a flattened parameter of FSDP, whose tensors cannot be told apart");
      }
      Pieces& pieces = by_name[unwrapped_name(tensor.name)];
      if (pieces.size() > r) {
        return rank_error(ErrorCode::kRefusedCollision, files[r], tensor.name,
                          "is there twice once wrappers are taken out of the names");
      }
      if (pieces.size() < r) {
        return rank_error(ErrorCode::kRefusedMissing, files[pieces.size()], tensor.name,
                          "is missing, and " + quote_name(files[r]) + " has it: every rank must have all");
      }
      pieces.push_back(&tensor.data);
    }
  }
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::shared_ptr<const TensorData>> replicated;
  for (const auto& [name, pieces] : by_name) {
    if (pieces.size() < ranks.size()) {
      return rank_error(ErrorCode::kRefusedMissing, files[pieces.size()], name,
                        "is missing, and other ranks have it: every rank must have all");
    }
    const bool same = pieces.size() > 1 && all_equal(pieces);
    if (pieces.size() == 1 || (same && dim >= pieces[0]->shape.size())) {
      tensors.push_back({name, *pieces[0]});
      continue;
    }
    for (size_t r = 0; r < pieces.size(); ++r) {
      Shape a = pieces[0]->shape, b = pieces[r]->shape;
      const bool has_dim = a.size() == b.size() && dim < a.size();
      if (has_dim) a[dim] = b[dim] = 0;
      if (!has_dim || a != b || pieces[r]->dtype != pieces[0]->dtype || dtype_bits(pieces[r]->dtype) < 8) {
        return rank_error(ErrorCode::kRefusedShape, files[r], name,
                          "is " + std::string(dtype_name(pieces[r]->dtype)) + shape_text(pieces[r]->shape) +
                              ", which cannot be joined along dimension " + std::to_string(dim) + " with " +
                              std::string(dtype_name(pieces[0]->dtype)) + shape_text(pieces[0]->shape) +
                              " of " + quote_name(files[0]));
      }
    }
    tensors.push_back({name, whole_of(pieces, dim)});
    if (same) replicated[name] = std::make_shared<const TensorData>(*pieces[0]);
  }
  auto made = make_adapter(std::move(given), files.empty() ? "" : files[0], std::move(tensors), config,
                           std::move(notices));
  if (!made || replicated.empty()) return made;
  auto adapter = std::make_shared<Adapter>(**made);
  for (const NamedTensor& tensor : adapter->tensors) {
    const auto at = replicated.find(tensor.name);
    adapter->replicated.push_back(at == replicated.end() ? nullptr : at->second);
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

}  // namespace tftf
