// One pipe of a command: maps the stream of declared tensors (spec tftf 2.1, the first pass).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream.h"
#include "tftf/base/result.h"
#include "tftf/transform/operation.h"

namespace tftf::transform {

class Pipe {
 public:
  virtual ~Pipe() = default;
  // Operation and options as the plan's first line tells them: `cast dtype=float16`. Whatever decides about the
  // output is in it.
  virtual std::string text() const = 0;
  // Maps the whole stream, or refuses. What it needs of small tensors' values it asks stream.values; while
  // they are pending it may leave the stream in any state and is called again from the start.
  virtual Result<void> apply(Stream& stream) const = 0;
};

// Made from checked operations (check_operation).
Result<std::unique_ptr<Pipe>> make_filter(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_rename(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_cast(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_dequant_fp8(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_dequant(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_quantize(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_repack(const Operation& operation);
Result<std::unique_ptr<Pipe>> make_convert(const Operation& operation);
// Of an operation with its adapter.
Result<std::unique_ptr<Pipe>> make_merge(const Operation& operation);
// Of an operation with its other model.
Result<std::unique_ptr<Pipe>> make_graft(const Operation& operation);

std::string dequant_fp8_obstacle(const Checkpoint& checkpoint);
std::string dequant_obstacle(const Checkpoint& checkpoint);
std::string quantize_obstacle(const Checkpoint& checkpoint);
std::string repack_obstacle(const Checkpoint& checkpoint);
std::string convert_obstacle(const Checkpoint& checkpoint);
std::string merge_obstacle(const Checkpoint& checkpoint);

}  // namespace tftf::transform
