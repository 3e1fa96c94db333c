// Gathers against plain loops: every order and axes of experts, sizes that fill no tile, tiles of any size, with stages
// before and behind.
#include <catch2/catch.hpp>
#include <map>

#include "transform/gather.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct ExpertSizes {
  uint64_t experts, inner, hidden;
};

// model_type with the order and axes, and the names of its layer.
struct StoredForm {
  const char* type;
  const char* path;
  bool turned, interleaved;
};
constexpr StoredForm kForms[] = {{"gpt_oss", "mlp.experts", true, true},
                                 {"llama4_text", "feed_forward.experts", true, false},
                                 {"mistral4", "mlp.experts", false, false}};

std::string place_in(const StoredForm& form) { return "model.layers.0." + std::string(form.path) + "."; }

using Tensors = std::map<std::string, TestTensor>;

Tensors gathered_tensors(const TransformResult& result) {
  Tensors tensors;
  for (const auto& [name, file] : result.files) {
    if (!name.ends_with(".safetensors")) continue;
    for (TestTensor& tensor : tensors_of(file)) tensors[tensor.name] = std::move(tensor);
  }
  return tensors;
}

// Numbers that are finite in every float type, so that casts have something to round.
std::string float_bytes(DType dtype, uint64_t count, uint32_t seed) {
  std::string bytes = random_bytes(static_cast<size_t>(count * dtype_bits(dtype) / 8), seed);
  if (dtype == DType::BF16)
    for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] = static_cast<char>((bytes[i] & 0x83) | 0x3C);
  return bytes;
}

// One tensor per expert and matrix.
std::vector<TestTensor> split_model(const StoredForm& form, const ExpertSizes& sizes, DType dtype) {
  std::vector<TestTensor> tensors;
  uint32_t seed = 0;
  for (uint64_t e = 0; e < sizes.experts; ++e)
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = part[0] == 'd';
      const Shape shape{down ? sizes.hidden : sizes.inner, down ? sizes.inner : sizes.hidden};
      tensors.push_back({place_in(form) + std::to_string(e) + "." + part + ".weight", dtype, shape,
                         float_bytes(dtype, shape[0] * shape[1], ++seed)});
    }
  return tensors;
}

// The fused tensors, one element after the other.
Tensors fused_by_loops(const StoredForm& form, const ExpertSizes& sizes,
                       const std::vector<TestTensor>& split) {
  const size_t bytes = dtype_bits(split[0].dtype) / 8;
  Tensors fused;
  for (const bool down : {false, true}) {
    const uint64_t rows = down ? sizes.hidden : 2 * sizes.inner, cols = down ? sizes.inner : sizes.hidden;
    TestTensor made{place_in(form) + (down ? "down_proj" : "gate_up_proj"), split[0].dtype, {}, ""};
    made.shape = form.turned ? Shape{sizes.experts, cols, rows} : Shape{sizes.experts, rows, cols};
    made.bytes.resize(static_cast<size_t>(sizes.experts * rows * cols) * bytes);
    for (uint64_t e = 0; e < sizes.experts; ++e)
      for (uint64_t r = 0; r < rows; ++r)
        for (uint64_t c = 0; c < cols; ++c) {
          uint64_t part = 2, row = r;
          if (!down) {
            part = form.interleaved ? r % 2 : r / sizes.inner;
            row = form.interleaved ? r / 2 : r % sizes.inner;
          }
          const TestTensor& from = split[static_cast<size_t>(3 * e + part)];
          const uint64_t at = e * rows * cols + (form.turned ? c * rows + r : r * cols + c);
          made.bytes.replace(static_cast<size_t>(at) * bytes, bytes, from.bytes,
                             static_cast<size_t>(row * cols + c) * bytes, bytes);
        }
    fused[made.name] = std::move(made);
  }
  return fused;
}

Operation experts(const char* form) { return {.id = "convert", .options = {{"experts", {form}}}}; }
Operation cast_to(const char* dtype) { return {.id = "cast", .options = {{"dtype", {dtype}}}}; }

Tensors run_chain_of(const std::vector<TestTensor>& tensors, const char* type,
                     std::vector<Operation> operations, uint64_t tile_bytes, uint32_t seed = 0) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = R"({"model_type": ")" + std::string(type) + R"("})";
  TransformRequest request{.command = "run", .operations = std::move(operations)};
  request.tile_bytes = tile_bytes;
  const auto result = transform_in_memory(model, model.folder(), std::move(request), {.seed = seed});
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result.ok());
  return gathered_tensors(*result);
}

void check_tensors(const Tensors& made, const Tensors& wanted) {
  REQUIRE(made.size() == wanted.size());
  for (const auto& [name, tensor] : wanted) {
    INFO(name);
    REQUIRE(made.count(name) == 1);
    CHECK(made.at(name).shape == tensor.shape);
    CHECK(made.at(name).dtype == tensor.dtype);
    CHECK(made.at(name).bytes == tensor.bytes);
  }
}

std::vector<TestTensor> as_list(const Tensors& tensors) {
  std::vector<TestTensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  return list;
}

Tensors as_map(const std::vector<TestTensor>& tensors) {
  Tensors map;
  for (const TestTensor& tensor : tensors) map[tensor.name] = tensor;
  return map;
}

}  // namespace

TEST_CASE("experts are fused and split as loops do it, whatever the tiles") {
  for (const StoredForm& form : kForms)
    for (const ExpertSizes& sizes : {ExpertSizes{3, 5, 7}, {2, 33, 65}, {1, 1, 1}, {2, 1, 9}, {4, 70, 3}})
      for (const DType dtype : {DType::BF16, DType::F8_E4M3, DType::F32, DType::F64}) {
        const std::vector<TestTensor> split = split_model(form, sizes, dtype);
        const Tensors fused = fused_by_loops(form, sizes, split);
        for (const uint64_t tile : {uint64_t{64}, uint64_t{1000}, kDefaultTileBytes}) {
          INFO(form.type << " " << sizes.experts << " x " << sizes.inner << " x " << sizes.hidden
                         << ", tiles of " << tile);
          check_tensors(run_chain_of(split, form.type, {experts("fused")}, tile, 3), fused);
          check_tensors(run_chain_of(as_list(fused), form.type, {experts("split")}, tile, 5), as_map(split));
        }
      }
}

TEST_CASE("stages before and behind give what separate runs give") {
  const ExpertSizes sizes{3, 37, 50};
  for (const StoredForm& form : kForms) {
    const std::vector<TestTensor> split = split_model(form, sizes, DType::BF16);
    const std::vector<TestTensor> wide = as_list(run_chain_of(split, form.type, {cast_to("float32")}, 1000));
    const Tensors fused_wide = run_chain_of(wide, form.type, {experts("fused")}, 1000);
    const Tensors half = run_chain_of(as_list(fused_wide), form.type, {cast_to("float16")}, 1000);
    for (const uint64_t tile : {uint64_t{64}, uint64_t{1000}, kDefaultTileBytes}) {
      INFO(form.type << ", tiles of " << tile);
      check_tensors(run_chain_of(split, form.type, {cast_to("float32"), experts("fused")}, tile), fused_wide);
      check_tensors(
          run_chain_of(split, form.type, {cast_to("float32"), experts("fused"), cast_to("float16")}, tile),
          half);
      // A gather of gathers.
      check_tensors(run_chain_of(split, form.type, {experts("fused"), experts("split")}, tile),
                    as_map(split));
      check_tensors(
          run_chain_of(split, form.type, {cast_to("float32"), experts("fused"), experts("split")}, tile),
          as_map(wide));
    }
  }
}

TEST_CASE("codes that were moved are nobody's modules any more") {
  const ExpertSizes sizes{2, 4, 4};
  std::vector<TestTensor> tensors;
  for (TestTensor& weight : split_model(kForms[2], sizes, DType::F8_E4M3)) {
    for (char& code : weight.bytes) code &= 0x3F;
    tensors.push_back({weight.name + "_scale_inv", DType::F32, {1, 1}, f32_bytes({0.5f})});
    tensors.push_back(std::move(weight));
  }
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] =
      R"({"model_type": "mistral4", "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}})";
  const auto fused = transform_in_memory(model, {experts("fused")});
  REQUIRE(fused.ok());
  CHECK(fused->account.left_quantised == 6);
  CHECK(fused->account.warnings.size() == 1);
  for (const char* after : {"dequant", "dequant-fp8", "cast"}) {
    Operation operation{.id = after, .options = {}};
    if (operation.id == "cast") operation = cast_to("float16");
    const auto result = transform_in_memory(model, {experts("fused"), operation});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("dequantise before") != std::string::npos);
  }
  // The other way round both are one pass.
  CHECK(transform_in_memory(model, {{.id = "dequant", .options = {}}, experts("fused")}).ok());
}

TEST_CASE("a plan names what is gathered, and from where") {
  const std::vector<TestTensor> split = split_model(kForms[0], {2, 3, 4}, DType::BF16);
  MemoryModel model;
  model.files["model.safetensors"] = model_file(split);
  model.files["config.json"] = R"({"model_type": "gpt_oss"})";
  const auto fused = transform_in_memory(model, {experts("fused")});
  REQUIRE(fused.ok());
  CHECK(fused->text.find("gather 2x2 columns of interleaved [4,3]/1,4 turned") != std::string::npos);
}

TEST_CASE("blocks of a gather cover every element of a range once") {
  using namespace tftf::transform;
  for (const bool across : {false, true})
    for (const bool interleaved : {false, true}) {
      GatherForm form{.matrices = 3, .rows = 4, .cols = 5, .row_stride = 5};
      form.per_matrix = 2;
      form.across = across;
      form.interleaved = interleaved;
      for (uint64_t first = 0; first < form.elements(); ++first)
        for (uint64_t count = 1; count <= form.elements() - first; count += 7) {
          uint64_t covered = 0;
          each_block(form, {first, count}, [&](const LaneBlock& block) {
            CHECK(block.row + block.rows <= form.rows);
            CHECK(block.col + block.cols <= form.cols);
            covered += block.rows * block.cols;
          });
          CHECK(covered == count);
        }
    }
}
