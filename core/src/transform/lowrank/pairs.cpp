// Reads the pairs of an adapter.
#include "transform/lowrank/pairs.h"

#include <algorithm>
#include <set>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/simd/cast.h"

namespace tftf::lowrank {
namespace {

using P = AdapterPart;

Error pair_error(const AdapterInput& input, ErrorCode code, const std::string& module, std::string what,
                 std::string expected = "", std::string found = "") {
  return {.code = code,
          .message = "Module " + quote_name(module) + " of " + quote_name(input.checkpoint().listing.given) +
                     " " + std::move(what),
          .file = input.checkpoint().listing.given,
          .tensor = module,
          .expected = std::move(expected),
          .found = std::move(found)};
}

uint64_t product_from(const Shape& shape, size_t first) {
  uint64_t product = 1;
  for (size_t i = first; i < shape.size(); ++i) product *= shape[i];  // bounded by the tensor's own size
  return product;
}

class PairReader {
 public:
  explicit PairReader(const AdapterInput& input) : input_(input), checkpoint_(input.checkpoint()) {}

  Result<AdapterPairs> read() {
    const auto& modules = input_.survey().modules;
    for (size_t m = 0; m < modules.size(); ++m) {
      const AdapterModule& module = modules[m];
      for (const auto& [part, tensor] : module.parts) seen_.insert(key(tensor));
      const bool embedding = module.has(P::kEmbeddingDown) || module.has(P::kEmbeddingUp);
      if (!embedding && !module.has(P::kDown) && !module.has(P::kUp)) {
        out_.other_modules.push_back(m);
        continue;
      }
      Result<PairModule> pair = read_pair(m, embedding);
      if (!pair) return std::move(pair).error();
      out_.modules.push_back(*std::move(pair));
    }
    for (const TensorRef tensor : checkpoint_.order)
      if (seen_.count(key(tensor)) == 0) out_.rest.push_back(tensor);
    return std::move(out_);
  }

 private:
  static uint64_t key(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }

  Result<PairModule> read_pair(size_t m, bool embedding) {
    const AdapterModule& module = input_.survey().modules[m];
    const P up_part = embedding ? P::kEmbeddingUp : P::kUp,
            down_part = embedding ? P::kEmbeddingDown : P::kDown;
    PairModule pair{.index = m, .stored = std::string(module.name), .family = module.family};
    pair.embedding = embedding;
    uint64_t ups = 0, downs = 0, mids = 0;
    for (const auto& [part, tensor] : module.parts) {
      if (part == up_part) {
        pair.up = tensor;
        ++ups;
      } else if (part == down_part) {
        pair.down = tensor;
        ++downs;
      } else if (part == P::kMid) {
        pair.mid = tensor;
        ++mids;
      } else if (part == P::kAlpha) {
        pair.alpha = tensor;
      } else {
        pair.others.push_back(tensor);
        pair.dora = pair.dora || part == P::kMagnitude;
      }
    }
    if (ups != 1 || downs != 1 || mids > 1) {
      return pair_error(input_, ErrorCode::kRefusedMissing, pair.stored,
                        ups + downs < 2 ? "lacks the twin of a factor." : "has a factor twice.");
    }
    TFTF_TRY(read_shapes(pair));
    const auto& scales = input_.scales();
    if (m < scales.ranks.size() && scales.ranks[m] > 0 &&
        static_cast<uint64_t>(scales.ranks[m]) != pair.rank) {
      return pair_error(input_, ErrorCode::kRefusedUnsupported, pair.stored,
                        "has factors of rank " + std::to_string(pair.rank) +
                            " where adapter_config.json says " + std::to_string(scales.ranks[m]) +
                            ": factors of stacked experts, or another adapter's configuration.",
                        std::to_string(scales.ranks[m]), std::to_string(pair.rank));
    }
    if (m >= scales.factors.size() || !scales.factors[m]) {
      return pair_error(
          input_, ErrorCode::kRefusedMissing, pair.stored,
          "has no known scale: no adapter_config.json says it, no alpha and no metadata; `adapter "
          "convert --scale S` writes it.");
    }
    pair.scale = *scales.factors[m];
    return pair;
  }

  Result<void> read_shapes(PairModule& pair) {
    const TensorInfo &up = checkpoint_.info(pair.up), &down = checkpoint_.info(pair.down);
    const auto refuse = [&](std::string what) {
      return pair_error(input_, ErrorCode::kRefusedShape, pair.stored,
                        "has factors that do not fit: " + std::move(what) + ": up " + shape_text(up.shape) +
                            ", down " + shape_text(down.shape) + ".",
                        shape_text(down.shape), shape_text(up.shape));
    };
    for (const TensorInfo* one : {&up, &down}) {
      if (!can_cast(one->dtype, DType::F64) || dtype_bits(one->dtype) % 8 != 0) {
        return pair_error(input_, ErrorCode::kRefusedUnsupported, pair.stored,
                          "has a factor of dtype " + std::string(dtype_name(one->dtype)) + ".");
      }
    }
    const bool mlx = pair.family == AdapterFamily::kMlx;
    if (up.shape.size() < 2 || down.shape.size() < 2) return refuse("a factor is a matrix");
    if (mlx && (up.shape.size() != 2 || down.shape.size() != 2))
      return pair_error(input_, ErrorCode::kRefusedUnsupported, pair.stored,
                        "has stacked factors of experts, which keep one rank for all of them.");
    if (mlx) {
      pair.up_rank_last = false;
      pair.down_rank_last = true;
      pair.rank = pair.down_rank = down.shape[1];
      pair.cols = down.shape[0];
      pair.rows = up.shape[1];
      if (up.shape[0] != pair.rank) return refuse("their ranks differ");
      return check_size(pair);
    }
    pair.down_rank = down.shape[0];
    pair.rank = up.shape[1];
    pair.rows = up.shape[0];
    pair.cols = product_from(down.shape, 1);
    if (down.shape.size() > 2) pair.kernel.assign(down.shape.begin() + 2, down.shape.end());
    pair.up_tail.assign(up.shape.begin() + 2, up.shape.end());
    if (product_from(up.shape, 2) != 1) return refuse("the upper one has a kernel");
    if (!pair.mid) {
      if (pair.down_rank != pair.rank) return refuse("their ranks differ");
      return check_size(pair);
    }
    const TensorInfo& mid = checkpoint_.info(*pair.mid);
    if (mid.shape.size() < 3 || mid.shape[0] != pair.rank || mid.shape[1] != pair.down_rank ||
        product_from(down.shape, 2) != 1 || !can_cast(mid.dtype, DType::F64) ||
        dtype_bits(mid.dtype) % 8 != 0)
      return refuse("the middle factor is " + shape_text(mid.shape));
    pair.kernel.assign(mid.shape.begin() + 2, mid.shape.end());
    const auto cols = checked_mul(down.shape[1], product_from(mid.shape, 2));
    const auto whole = cols ? checked_mul(*cols, pair.rank) : std::nullopt;
    if (!whole || !checked_mul(*whole, 8)) return refuse("their product is too large");
    pair.cols = *cols;
    return check_size(pair);
  }

  Result<void> check_size(const PairModule& pair) {
    if (pair.rank > 0 && pair.rank <= kMaxDecomposedRank && pair.rows > 0 && pair.cols > 0) return {};
    return pair_error(input_, ErrorCode::kRefusedShape, pair.stored,
                      "has rank " + std::to_string(pair.rank) + " for a weight of " +
                          std::to_string(pair.rows) + " x " + std::to_string(pair.cols) +
                          "; ranks from 1 to " + std::to_string(kMaxDecomposedRank) + " can be worked with.",
                      "<= " + std::to_string(kMaxDecomposedRank), std::to_string(pair.rank));
  }

  const AdapterInput& input_;
  const Checkpoint& checkpoint_;
  AdapterPairs out_;
  std::set<uint64_t> seen_;
};

bool holds_factors(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

}  // namespace

bool PairModule::wide_kernel() const {
  return std::any_of(kernel.begin(), kernel.end(), [](uint64_t side) { return side > 1; });
}

Result<AdapterPairs> read_pairs(const AdapterInput& input) {
  TFTF_TRY(input.check());
  return PairReader(input).read();
}

DType factor_dtype(DType a, DType b) {
  const DType x = holds_factors(a) ? a : DType::BF16, y = holds_factors(b) ? b : DType::BF16;
  if (x == y) return x;
  return x == DType::F64 || y == DType::F64 ? DType::F64 : DType::F32;
}

}  // namespace tftf::lowrank
