// Why a checkpoint that a command would convert is refused, in one sentence each.
#pragma once

#include <optional>

#include "checkpoint/tensor_order.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// A shard that is a pointer, broken or unreadable: its first error by place in the file.
Error refuse_shard(const Shard& shard);
// Listed shards that are not there.
std::optional<Error> refuse_missing(const Checkpoint& checkpoint);
// A mapped tensor that its shard lacks; a tensor that two shards of a family without index hold.
std::optional<Error> refuse_tensors(const Checkpoint& checkpoint, const std::optional<Unfound>& unfound);

}  // namespace tftf
