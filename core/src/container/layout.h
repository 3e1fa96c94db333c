// Steps 7 and 8 and the order rules of step 9: where the tensors lie.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "container/entry_table.h"
#include "container/finding_list.h"

namespace tftf {

// What the layout rules need to know of the file.
struct DataSection {
  uint64_t offset = 0;  // in the file
  uint64_t size = 0;
};

// Step 7 on sorted spans: ST039 to ST043. Call only when every entry has a span. Gives the number of ST041
// among the findings, when there is one: its `sniff` is still empty.
std::optional<size_t> check_layout(const EntryTable& entries, DataSection data, FindingList& findings);

// Step 8 on sorted spans: ST051, ST052.
void check_alignment(const EntryTable& entries, DataSection data, FindingList& findings);

// ST053 for a sound table: `spans` sorted, tiling the data section, all with dtypes.
void check_reference_order(const EntryTable& entries, DataSection data, FindingList& findings);

// ST054: `tensors` in header order.
void check_header_order(const std::vector<TensorInfo>& tensors, DataSection data, FindingList& findings);

}  // namespace tftf
