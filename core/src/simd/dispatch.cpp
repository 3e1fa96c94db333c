#include "simd/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tftf {
namespace {

#if defined(__x86_64__)
// AVX2 and F16C, both offered by the processor and, for the wide registers, enabled by the system.
bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
// What avx512.cpp is compiled for; the builtin asks for the system's consent, too.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

struct Tables {
  const KernelTable* list[4] = {&simd::kScalar};
  size_t count = 1;

  Tables() {
#if defined(__x86_64__)
    if (has_avx2()) list[count++] = &simd::kAvx2;
    if (has_avx512()) list[count++] = &simd::kAvx512;
#elif defined(__aarch64__)
    list[count++] = &simd::kNeon;  // part of the architecture
#elif defined(__wasm_simd128__)
    list[count++] = &simd::kWasm128;  // the whole module needs it
#endif
  }
};

}  // namespace

const KernelTable& scalar_kernels() noexcept { return simd::kScalar; }

std::span<const KernelTable* const> available_kernels() noexcept {
  static const Tables tables;
  return {tables.list, tables.count};
}

const KernelTable& best_kernels() noexcept { return *available_kernels().back(); }

const KernelTable* find_kernels(std::string_view name) noexcept {
  for (const KernelTable* table : available_kernels())
    if (name == table->name) return table;
  return nullptr;
}

}  // namespace tftf
