// Leading singular vectors of matrices that are seen in pieces.
#include "adapter/lowrank/subspace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>
#include <vector>

using namespace tftf;
using namespace tftf::lowrank;

namespace {

// Row i, column j of a matrix with known singular values: a sum of products of orthonormal cosines.
double cosine(uint64_t k, uint64_t i, uint64_t n) {
  const double pi = 3.14159265358979323846;
  const double value =
      std::cos(pi * static_cast<double>(k) * (static_cast<double>(i) + 0.5) / static_cast<double>(n));
  return value * std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
}

std::vector<double> known_matrix(uint64_t rows, uint64_t cols, const std::vector<double>& values) {
  std::vector<double> matrix(rows * cols, 0.0);
  for (uint64_t k = 0; k < values.size(); ++k)
    for (uint64_t i = 0; i < rows; ++i)
      for (uint64_t j = 0; j < cols; ++j)
        matrix[i * cols + j] += values[k] * cosine(k, i, rows) * cosine(k, j, cols);
  return matrix;
}

// Runs all passes; the state at their end.
std::vector<double> subspace_of(const std::vector<double>& matrix, const SubspaceShape& shape,
                                const KernelTable& kernels) {
  std::vector<double> state(subspace_state(shape), 0.0), scratch(subspace_scratch(shape));
  for (uint64_t number = 0; number < shape.passes * shape.pieces(); ++number) {
    const uint64_t first = number % shape.pieces() * shape.piece;
    add_piece(kernels, shape, number, matrix.data() + first * shape.cols,
              std::min(shape.piece, shape.rows - first), state.data(), scratch.data());
  }
  return state;
}

}  // namespace

TEST_CASE("a subspace has the leading singular values, in every kernel table alike") {
  std::vector<double> values;
  for (int k = 0; k < 70; ++k) values.push_back(std::pow(0.9, k));
  for (const auto& [rows, cols, kept] : std::initializer_list<std::tuple<uint64_t, uint64_t, uint64_t>>{
           {90, 120, 6}, {120, 90, 6}, {80, 75, 70}, {75, 400, 3}}) {
    INFO(rows << " x " << cols << " keeps " << kept);
    const SubspaceShape shape = subspace_shape(rows, cols, kept);
    const std::vector<double> matrix = known_matrix(rows, cols, values);
    const std::vector<double> state = subspace_of(matrix, shape, scalar_kernels());
    for (uint64_t k = 0; k < kept; ++k) CHECK(state[k] == Approx(values[k]).epsilon(1e-4).margin(1e-7));
    // The vectors are orthonormal.
    const double* v = state.data() + vectors_at(shape);
    for (uint64_t a = 0; a < kept; ++a)
      for (uint64_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (uint64_t j = 0; j < cols; ++j) dot += v[a * cols + j] * v[b * cols + j];
        CHECK(dot == Approx(a == b ? 1 : 0).margin(1e-10));
      }
    for (const KernelTable* table : available_kernels()) CHECK(subspace_of(matrix, shape, *table) == state);
  }
}

TEST_CASE("a subspace of nothing is nothing") {
  const SubspaceShape shape = subspace_shape(30, 200, 2);
  const std::vector<double> state = subspace_of(std::vector<double>(6000, 0.0), shape, best_kernels());
  for (uint64_t k = 0; k < 2; ++k) CHECK(state[k] == 0);
}
