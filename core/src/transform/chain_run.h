// Chains that run inside of a stage: what a tensor is gathered from may have ways of its own.
#pragma once

#include <functional>

#include "stage.h"

namespace tftf::transform {

// Ranges of elements of an item whose context is a Chain and that has no outputs.
// Appends what a range reads: chain_inputs() extents.
void chain_io(const Item& item, ElementRange range, StepIo& io);
uint64_t chain_inputs(const Item& item, ElementRange range) noexcept;
// Ranges begin and end at multiples of so many elements, or at the item's end.
uint64_t chain_unit(const Chain& chain);
// Bytes of scratch for ranges of at most Item::units_per_tile elements.
uint64_t chain_scratch(const Item& item);

// What takes the pieces of a range: elements from `first` on, as Chain::out.
struct ChainSink {
  void* to = nullptr;
  void (*take)(void* to, ElementRange piece, const std::byte* elements) noexcept = nullptr;
};
// `slot`: inputs of the range and scratch of its own, the residents of the step. Item::arg[4] is the first of them that
// belongs to the item.
void run_chain(const Item& item, ElementRange range, const KernelTable& kernels, const Slot& slot,
               const ChainSink& sink, Value& value) noexcept;

}  // namespace tftf::transform
