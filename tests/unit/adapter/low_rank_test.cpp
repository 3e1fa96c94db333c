// Low-rank approximation of products: against a full singular value decomposition of the product itself.
#include "tftf/adapter/low_rank.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

using namespace tftf;

namespace {

using Dense = std::vector<double>;  // row-major

struct LowRankCase {
  uint64_t rows = 0, cols = 0, rank = 0;
  std::vector<float> up{}, down{};  // rows x rank, rank x cols
};

LowRankCase random_case(uint64_t rows, uint64_t cols, uint64_t rank, double decay, unsigned seed) {
  std::mt19937 random(seed);
  const auto value = [&] { return static_cast<float>(random() % 20001) / 10000.0f - 1; };
  LowRankCase made{.rows = rows, .cols = cols, .rank = rank};
  made.up.resize(rows * rank);
  made.down.resize(rank * cols);
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t k = 0; k < rank; ++k)
      made.up[i * rank + k] = value() * static_cast<float>(std::pow(decay, static_cast<double>(k)));
  for (float& x : made.down) x = value();
  return made;
}

Dense product_of(const LowRankCase& one) {
  Dense m(one.rows * one.cols, 0.0);
  for (uint64_t i = 0; i < one.rows; ++i)
    for (uint64_t k = 0; k < one.rank; ++k)
      for (uint64_t j = 0; j < one.cols; ++j)
        m[i * one.cols + j] +=
            static_cast<double>(one.up[i * one.rank + k]) * static_cast<double>(one.down[k * one.cols + j]);
  return m;
}

// All singular values by one-sided Jacobi rotations of the rows: nothing in common with what is tested.
std::vector<double> singular_values(Dense m, uint64_t rows, uint64_t cols) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool turned = false;
    for (uint64_t p = 0; p < rows; ++p)
      for (uint64_t q = p + 1; q < rows; ++q) {
        double a = 0, b = 0, c = 0;
        for (uint64_t j = 0; j < cols; ++j) {
          const double x = m[p * cols + j], y = m[q * cols + j];
          a += x * x;
          b += y * y;
          c += x * y;
        }
        if (std::fabs(c) <= 1e-15 * std::sqrt(a * b) || c == 0) continue;
        turned = true;
        const double z = (b - a) / (2 * c);
        const double t = (z >= 0 ? 1 : -1) / (std::fabs(z) + std::sqrt(1 + z * z));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
        for (uint64_t j = 0; j < cols; ++j) {
          const double x = m[p * cols + j], y = m[q * cols + j];
          m[p * cols + j] = cosine * x - sine * y;
          m[q * cols + j] = sine * x + cosine * y;
        }
      }
    if (!turned) break;
  }
  std::vector<double> values;
  for (uint64_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (uint64_t j = 0; j < cols; ++j) squares += m[i * cols + j] * m[i * cols + j];
    values.push_back(std::sqrt(squares));
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

struct Approximation {
  std::vector<double> values;
  Dense product;  // of the two new factors
  std::vector<float> up, down;
};

FactorPart part_of(const std::vector<float>& values, uint64_t rank, bool rank_last, double scale = 1) {
  return {.data = reinterpret_cast<const std::byte*>(values.data()),
          .dtype = DType::F32,
          .rank = rank,
          .rank_last = rank_last,
          .scale = scale};
}

Approximation approximate(const std::vector<FactorPart>& ups, const std::vector<FactorPart>& downs,
                          uint64_t rows, uint64_t cols, uint64_t most,
                          const KernelTable& kernels = best_kernels()) {
  const FactorStack up{.parts = ups, .length = rows}, down{.parts = downs, .length = cols};
  const uint64_t rank = up.rank();
  Approximation made;
  made.values.resize(rank);
  std::vector<double> left(most * rank), right(most * rank);
  // Aligned, as slots are.
  std::vector<std::byte> memory(low_rank_scratch(rank).value() + 64);
  std::byte* at = memory.data();
  while (reinterpret_cast<uintptr_t>(at) % 64 != 0) ++at;
  const std::span<std::byte> scratch(at, memory.size() - 64);
  REQUIRE(decompose(kernels, up, down, scratch, {.values = made.values, .left = left, .right = right}));
  std::vector<double> ones(most, 1.0);
  const std::vector<double> kept(made.values.begin(), made.values.begin() + static_cast<long>(most));
  made.up.resize(rows * most);
  made.down.resize(most * cols);
  CHECK(write_factor(kernels, up, left, ones, DType::F32, true, scratch,
                     reinterpret_cast<std::byte*>(made.up.data())) == 0);
  CHECK(write_factor(kernels, down, right, ones, DType::F32, false, scratch,
                     reinterpret_cast<std::byte*>(made.down.data())) == 0);
  made.product = product_of({.rows = rows, .cols = cols, .rank = most, .up = made.up, .down = made.down});
  return made;
}

Approximation approximate(const LowRankCase& one, uint64_t most,
                          const KernelTable& kernels = best_kernels()) {
  return approximate({part_of(one.up, one.rank, true)}, {part_of(one.down, one.rank, false)}, one.rows,
                     one.cols, most, kernels);
}

double distance(const Dense& a, const Dense& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

double norm_of(const Dense& a) { return distance(a, Dense(a.size(), 0.0)); }

double tail_of(const std::vector<double>& values, uint64_t from) {
  double squares = 0;
  for (size_t i = from; i < values.size(); ++i) squares += values[i] * values[i];
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("the error of a resized product is the optimum's") {
  struct Shape {
    uint64_t rows, cols, rank, kept;
    double decay;
  };
  for (const Shape& shape :
       {Shape{40, 60, 12, 4, 0.8}, Shape{60, 33, 20, 7, 0.95}, Shape{9, 200, 16, 5, 1},
        Shape{150, 140, 17, 16, 0.4}, Shape{64, 64, 64, 32, 0.9}, Shape{5, 7, 1, 1, 1}}) {
    INFO(shape.rows << " x " << shape.cols << " rank " << shape.rank << " to " << shape.kept);
    const LowRankCase one = random_case(shape.rows, shape.cols, shape.rank, shape.decay, 7);
    const Dense whole = product_of(one);
    const std::vector<double> values = singular_values(whole, one.rows, one.cols);
    const Approximation made = approximate(one, shape.kept);
    const double norm = norm_of(whole), optimum = tail_of(values, shape.kept);
    CHECK(std::fabs(distance(whole, made.product) - optimum) <= 1e-6 * norm);
    for (uint64_t i = 0; i < shape.rank && i < values.size(); ++i)
      CHECK(std::fabs(made.values[i] - values[i]) <= 1e-7 * values[0]);
  }
}

TEST_CASE("what cancels within two stacked factors is found exactly") {
  // Two adapters that are nearly the same, with opposite weights: what is left is a hundred thousandth of either.
  LowRankCase one = random_case(80, 70, 6, 0.9, 3);
  std::vector<float> other = one.up;
  std::mt19937 random(5);
  for (float& x : other) x *= 1 + static_cast<float>(static_cast<int>(random() % 200) - 100) * 1e-7f;
  LowRankCase difference = one;
  for (size_t i = 0; i < other.size(); ++i) difference.up[i] = one.up[i] - other[i];
  const Dense whole = product_of(difference);
  const std::vector<double> values = singular_values(whole, 80, 70);
  const Approximation made =
      approximate({part_of(one.up, 6, true), part_of(other, 6, true, -1)},
                  {part_of(one.down, 6, false), part_of(one.down, 6, false)}, 80, 70, 3);
  CHECK(std::fabs(distance(whole, made.product) - tail_of(values, 3)) <= 1e-5 * norm_of(whole));
  for (size_t i = 0; i < 6; ++i) CHECK(std::fabs(made.values[i] - values[i]) <= 1e-6 * values[0]);

  // And where everything cancels, nothing is made of the rounding.
  const Approximation nothing =
      approximate({part_of(one.up, 6, true), part_of(one.up, 6, true, -1)},
                  {part_of(one.down, 6, false), part_of(one.down, 6, false)}, 80, 70, 3);
  CHECK(nothing.values[0] <= 1e-12);
  CHECK(norm_of(nothing.product) <= 1e-12);
}

TEST_CASE("an untrained pair and dependent rows have a low-rank form, too") {
  LowRankCase one = random_case(30, 20, 4, 1, 11);
  one.up.assign(one.up.size(), 0.0f);
  const Approximation zero = approximate(one, 2);
  CHECK(zero.values == std::vector<double>(4, 0.0));
  CHECK(norm_of(zero.product) == 0);

  // Rank 4, of which two rows repeat the others.
  LowRankCase twice = random_case(30, 20, 4, 1, 12);
  for (uint64_t j = 0; j < 20; ++j) {
    twice.down[2 * 20 + j] = twice.down[j];
    twice.down[3 * 20 + j] = twice.down[20 + j];
  }
  const Dense whole = product_of(twice);
  const Approximation made = approximate(twice, 4);
  CHECK(distance(whole, made.product) <= 1e-6 * norm_of(whole));
  CHECK(made.values[2] <= 1e-7 * made.values[0]);
}

TEST_CASE("every kernel table decomposes to the same bytes") {
  const LowRankCase one = random_case(300, 141, 37, 0.97, 21);
  const Approximation want = approximate(one, 9, scalar_kernels());
  for (const KernelTable* table : available_kernels()) {
    const Approximation got = approximate(one, 9, *table);
    INFO(table->name);
    CHECK(got.up == want.up);
    CHECK(got.down == want.down);
    CHECK(got.values == want.values);
  }
}

TEST_CASE("values that are not finite are noticed") {
  LowRankCase one = random_case(8, 8, 2, 1, 1);
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    one.down[3] = bad;
    const std::vector<FactorPart> ups{part_of(one.up, 2, true)}, downs{part_of(one.down, 2, false)};
    std::vector<double> values(2), left(2), right(2);
    std::vector<double> scratch(low_rank_scratch(2).value() / 8 + 8);
    const auto bytes = std::as_writable_bytes(std::span<double>(scratch));
    CHECK_FALSE(decompose(scalar_kernels(), {ups, 8}, {downs, 8}, bytes,
                          {.values = values, .left = left, .right = right}));
  }
}

TEST_CASE("the number of kept values follows the rules of sd-scripts") {
  using Method = RankChoice::Method;
  const std::vector<double> s{8, 4, 2, 1};
  const auto choose = [&](Method method, double param, uint64_t most, uint64_t side) {
    return choose_rank({.method = method, .most = most, .param = param}, s, side);
  };
  CHECK(choose(Method::kFrobenius, 0.9, 4, 10) == 3);
  CHECK(choose(Method::kCumulative, 0.75, 4, 10) == 3);
  CHECK(choose(Method::kRatio, 4, 4, 10) == 3);
  CHECK(choose(Method::kRatio, 1, 4, 10) == 2);    // nothing is larger than the largest, and one more is kept
  CHECK(choose(Method::kRatio, 100, 4, 10) == 4);  // never more than there were
  CHECK(choose(Method::kRatio, 100, 2, 10) == 2);
  CHECK(choose(Method::kFixed, 0, 3, 10) == 3);
  CHECK(choose(Method::kFixed, 0, 30, 10) == 4);
  CHECK(choose(Method::kFixed, 0, 30, 2) == 2);
  CHECK(choose(Method::kRatio, 4, 4, 1) == 1);
  CHECK(choose_rank({.most = 4}, std::vector<double>{1e-7, 0}, 10) == 1);
  CHECK(choose_rank({.method = Method::kFrobenius, .most = 4, .param = 1}, std::vector<double>{3, 0, 0},
                    10) == 2);
  CHECK(retained_norm(std::vector<double>{3, 2, 1}, 2) == Approx(0.963624).epsilon(1e-6));
  CHECK(retained_norm(std::vector<double>{0, 0}, 1) == 1);
}

TEST_CASE("parameters of the dynamic methods are checked") {
  using Method = RankChoice::Method;
  CHECK(find_rank_method("sv_fro") == Method::kFrobenius);
  CHECK_FALSE(find_rank_method("fro").has_value());
  for (const auto& [method, param, good] :
       std::initializer_list<std::tuple<Method, double, bool>>{{Method::kRatio, 1, true},
                                                               {Method::kRatio, 0.5, false},
                                                               {Method::kCumulative, 1, true},
                                                               {Method::kCumulative, 1.5, false},
                                                               {Method::kFrobenius, 0, false},
                                                               {Method::kFrobenius, 0.9, true}}) {
    CHECK(check_rank_choice({.method = method, .param = param}).ok() == good);
  }
}
