// Widening, products and Gram matrices of factors.
#include "adapter/lowrank/factor_chunks.h"

#include <algorithm>
#include <cstring>

#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/product.h"

namespace tftf::lowrank {
namespace {

constexpr uint64_t kRunElements = 256;  // of a row that has the rank as its last dimension

void load_part(const KernelTable& kernels, const FactorPart& part, uint64_t length, uint64_t first,
               uint64_t count, double* rows) {
  const uint64_t size = dtype_bits(part.dtype) / 8;
  if (!part.rank_last) {
    for (uint64_t k = 0; k < part.rank; ++k)
      cast(kernels, part.dtype, DType::F64, part.data + (k * length + first) * size,
           reinterpret_cast<std::byte*>(rows + k * kRowStride), count);
  } else {
    double run[kRunElements];
    for (uint64_t j = 0; j < count; ++j) {
      for (uint64_t done = 0; done < part.rank; done += kRunElements) {
        const uint64_t some = std::min(kRunElements, part.rank - done);
        cast(kernels, part.dtype, DType::F64, part.data + ((first + j) * part.rank + done) * size,
             reinterpret_cast<std::byte*>(run), some);
        for (uint64_t k = 0; k < some; ++k) rows[(done + k) * kRowStride + j] = run[k];
      }
    }
  }
  if (part.scale == 1) return;
  for (uint64_t k = 0; k < part.rank; ++k)
    for (uint64_t j = 0; j < count; ++j) rows[k * kRowStride + j] *= part.scale;
}

void pack_product(const SmallProduct& task) {
  const uint64_t whole = ceil_div(task.n, kPanelColumns);
  for (uint64_t p = 0; p < whole; ++p) {
    double* panel = task.panels + p * task.k * kPanelColumns;
    const uint64_t first = p * kPanelColumns, some = std::min(kPanelColumns, task.n - first);
    if (some < kPanelColumns) std::fill(panel, panel + task.k * kPanelColumns, 0.0);
    if (!task.transposed) {
      for (uint64_t k = 0; k < task.k; ++k)
        std::memcpy(panel + k * kPanelColumns, task.b + k * task.b_stride + first,
                    to_size(some * sizeof(double)));
    } else {
      for (uint64_t j = 0; j < some; ++j) {
        const double* row = task.b + (first + j) * task.b_stride;
        for (uint64_t k = 0; k < task.k; ++k) panel[k * kPanelColumns + j] = row[k];
      }
    }
  }
}

}  // namespace

uint64_t chunk_elements(uint64_t rank) { return rank * kRowStride; }
uint64_t chunk_panel_elements(uint64_t rank) {
  return std::max(panel_elements(kChunk, rank), panel_elements(rank, kChunk));
}

void load_chunk(const KernelTable& kernels, const FactorStack& from, uint64_t first, uint64_t count,
                double* rows) {
  for (const FactorPart& part : from.parts) {
    load_part(kernels, part, from.length, first, count, rows);
    rows += part.rank * kRowStride;
  }
}

void multiply(const KernelTable& kernels, const SmallProduct& task) {
  pack_product(task);
  PanelProduct<double> product;
  product.rank = task.k;
  product.panels = task.panels;
  product.b_stride = task.a_stride;
  product.out_stride = task.out_stride;
  if (!task.lower) {
    product.b = task.a;
    product.rows = task.m;
    product.col_end = task.n;
    product.out = task.out;
    return kernels.product_f64(product);
  }
  for (uint64_t first = 0; first < task.n && first < task.m; first += kPanelColumns) {
    product.b = task.a + first * task.a_stride;
    product.rows = task.m - first;
    product.col_begin = first;
    product.col_end = std::min(first + kPanelColumns, task.n);
    product.out = task.out + first * task.out_stride + first;
    kernels.product_f64(product);
  }
}

void gram_matrix(const KernelTable& kernels, const FactorStack& from, double* rows, double* panels,
                 double* part, double* gram) {
  const uint64_t rank = from.rank();
  std::fill(gram, gram + rank * rank, 0.0);
  for (uint64_t first = 0; first < from.length; first += kChunk) {
    const uint64_t count = std::min(kChunk, from.length - first);
    load_chunk(kernels, from, first, count, rows);
    multiply(kernels, {.m = rank,
                       .k = count,
                       .n = rank,
                       .a = rows,
                       .a_stride = kRowStride,
                       .b = rows,
                       .b_stride = kRowStride,
                       .transposed = true,
                       .lower = true,
                       .panels = panels,
                       .out = part,
                       .out_stride = rank});
    for (uint64_t i = 0; i < rank; ++i)
      for (uint64_t j = 0; j <= i; ++j) gram[i * rank + j] += part[i * rank + j];
  }
  for (uint64_t i = 0; i < rank; ++i)
    for (uint64_t j = i + 1; j < rank; ++j) gram[i * rank + j] = gram[j * rank + i];
}

}  // namespace tftf::lowrank
