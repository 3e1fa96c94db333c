#include "simd/tables.h"

namespace tftf {
namespace {

constexpr const KernelTable* kTables[] = {
    &simd::kScalar,
};

}  // namespace

const KernelTable& scalar_kernels() noexcept { return simd::kScalar; }

std::span<const KernelTable* const> available_kernels() noexcept { return kTables; }

const KernelTable& best_kernels() noexcept { return *available_kernels().back(); }

const KernelTable* find_kernels(std::string_view name) noexcept {
  for (const KernelTable* table : available_kernels())
    if (name == table->name) return table;
  return nullptr;
}

}  // namespace tftf
