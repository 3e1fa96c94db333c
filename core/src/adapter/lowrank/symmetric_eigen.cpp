// Householder's reduction to three diagonals, and the QL algorithm with implicit shifts on them.
#include "adapter/lowrank/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tftf::lowrank {
namespace {

constexpr int kMostTurns = 60;  // per value; three are usual

// a := H a H for one reflection H after the other, from the first column on. Row k of `a` keeps the vector of step k behind its
// diagonal, factors[k] belongs to it.
void to_three_diagonals(double* a, uint64_t n, double* diagonal, double* beside, double* factors) {
  for (uint64_t k = 0; k + 1 < n; ++k) {
    double* v = a + k * n;  // by symmetry the column
    const uint64_t first = k + 1, count = n - first;
    diagonal[k] = v[k];
    factors[k] = 0;
    double squares = 0;
    for (uint64_t i = first + 1; i < n; ++i) squares += v[i] * v[i];
    beside[k] = v[first];
    if (squares == 0) continue;
    const double length = std::sqrt(squares + v[first] * v[first]);
    const double end = v[first] > 0 ? -length : length;
    beside[k] = end;
    v[first] -= end;
    const double factor = 1 / (length * std::fabs(v[first]));
    factors[k] = factor;
    // p = factor * a v, then a -= v w^T + w v^T with w = p - (factor / 2) (p v) v. The space is that of later factors.
    double* p = factors + first;
    std::fill(p, p + count, 0.0);
    for (uint64_t i = first; i < n; ++i) {
      const double* row = a + i * n + first;
      const double value = v[i];
      for (uint64_t j = 0; j < count; ++j) p[j] += value * row[j];
    }
    double dot = 0;
    for (uint64_t j = 0; j < count; ++j) {
      p[j] *= factor;
      dot += p[j] * v[first + j];
    }
    const double half = factor / 2 * dot;
    for (uint64_t j = 0; j < count; ++j) p[j] -= half * v[first + j];
    for (uint64_t i = first; i < n; ++i) {
      double* row = a + i * n + first;
      const double x = v[i], y = p[i - first];
      for (uint64_t j = 0; j < count; ++j) {
        const double change = x * p[j] + y * v[first + j];
        row[j] -= change;
      }
    }
  }
  diagonal[n - 1] = a[n * n - 1];
  beside[n - 1] = 0;
  factors[n - 1] = 0;
}

// One turn of rows i and i + 1 of the vectors.
void turn_rows(double* x, double* y, uint64_t n, double c, double s) {
  for (uint64_t k = 0; k < n; ++k) {
    const double a = x[k], b = y[k];
    y[k] = s * a + c * b;
    x[k] = c * a - s * b;
  }
}

bool diagonalise(double* d, double* e, uint64_t n, double* vectors) {
  constexpr double kSmall = std::numeric_limits<double>::epsilon();
  for (uint64_t l = 0; l < n; ++l) {
    for (int turns = 0;; ++turns) {
      uint64_t m = l;
      for (; m + 1 < n; ++m) {
        const double around = std::fabs(d[m]) + std::fabs(d[m + 1]);
        if (std::fabs(e[m]) <= kSmall * around) break;
      }
      if (m == l) break;
      if (turns == kMostTurns) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]);
      double r = std::sqrt(g * g + 1);
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      double s = 1, c = 1, p = 0;
      uint64_t i = m;
      bool cut = false;
      while (i-- > l) {
        const double f = s * e[i], b = c * e[i];
        r = std::sqrt(f * f + g * g);
        e[i + 1] = r;
        if (r == 0) {
          d[i + 1] -= p;
          e[m] = 0;
          cut = true;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        turn_rows(vectors + i * n, vectors + (i + 1) * n, n, c, s);
      }
      if (cut) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return true;
}

void sort_falling(double* values, double* vectors, uint64_t n) {
  for (uint64_t i = 0; i + 1 < n; ++i) {
    uint64_t best = i;
    for (uint64_t j = i + 1; j < n; ++j)
      if (values[j] > values[best]) best = j;
    if (best == i) continue;
    std::swap(values[i], values[best]);
    std::swap_ranges(vectors + i * n, vectors + (i + 1) * n, vectors + best * n);
  }
}

}  // namespace

bool symmetric_eigen(double* a, uint64_t n, uint64_t wanted, double* values, double* vectors, double* work) {
  if (n == 0) return true;
  double *beside = work, *factors = work + n;
  to_three_diagonals(a, n, values, beside, factors);
  std::fill(vectors, vectors + n * n, 0.0);
  for (uint64_t i = 0; i < n; ++i) vectors[i * n + i] = 1;
  if (!diagonalise(values, beside, n, vectors)) return false;
  sort_falling(values, vectors, n);
  // The vectors of the three diagonals, reflected back, the last step first.
  for (uint64_t i = 0; i < n && i < wanted; ++i) {
    double* x = vectors + i * n;
    for (uint64_t k = n - 1; k-- > 0;) {
      if (factors[k] == 0) continue;
      const double* v = a + k * n;
      double dot = 0;
      for (uint64_t j = k + 1; j < n; ++j) dot += v[j] * x[j];
      dot *= factors[k];
      for (uint64_t j = k + 1; j < n; ++j) x[j] -= dot * v[j];
    }
  }
  return true;
}

}  // namespace tftf::lowrank
