// compressed-tensors: the storage kind comes from the tensors, never from the configuration alone; where the two disagree the
// tensors decide, and it is said (spec compressed-tensors 1.5, 2.1, 3).
#include <algorithm>
#include <optional>

#include "quant/ct/marlin.h"
#include "quant/ct/module.h"
#include "quant/ct/repacked.h"
#include "quant/ct/scheme.h"
#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

using ct::Module;
using ct::open_layout;

constexpr QuantFormat kPack = {.id = "ct-pack-quantized",
                               .title = "compressed-tensors, integers packed into I32",
                               .open = open_layout,
                               .codes = &ct::kPackCodes,
                               .by_scheme = true};
constexpr QuantFormat kInt = {.id = "ct-int-quantized",
                              .title = "compressed-tensors, I8 codes",
                              .open = open_layout,
                              .by_scheme = true};
constexpr QuantFormat kFloat = {.id = "ct-float-quantized",
                                .title = "compressed-tensors, FP8 codes",
                                .open = open_layout,
                                .codes = &ct::kBlockCodes,
                                .by_scheme = true};
constexpr QuantFormat kNaive = {.id = "ct-naive-quantized",
                                .title = "compressed-tensors, one code per element",
                                .open = open_layout,
                                .by_scheme = true};
constexpr QuantFormat kCompressedTensorsNvfp4 = {.id = "ct-nvfp4-pack-quantized",
                                                 .title = "compressed-tensors NVFP4",
                                                 .open = open_layout,
                                                 .codes = &ct::kNvfp4Codes,
                                                 .by_scheme = true};
constexpr QuantFormat kCompressedTensorsMxfp4 = {.id = "ct-mxfp4-pack-quantized",
                                                 .title = "compressed-tensors MXFP4",
                                                 .open = open_layout,
                                                 .by_scheme = true};
constexpr QuantFormat kCompressedTensorsMxfp8 = {
    .id = "ct-mxfp8-quantized", .title = "compressed-tensors MXFP8", .open = open_layout, .by_scheme = true};
constexpr QuantFormat kMarlin24 = {.id = "ct-marlin-24",
                                   .title = "compressed-tensors, Marlin 2:4",
                                   .open = ct::open_marlin,
                                   .by_scheme = true};
constexpr QuantFormat kBitmask = {.id = "ct-sparse-bitmask",
                                  .title = "compressed-tensors, sparse by bitmask",
                                  .open = open_layout,
                                  .by_scheme = true};
constexpr QuantFormat kBitmask24 = {.id = "ct-sparse-24-bitmask",
                                    .title = "compressed-tensors, 2:4 sparse by bitmask",
                                    .open = open_layout,
                                    .by_scheme = true};
constexpr QuantFormat kDense = {.id = "ct-dense",
                                .title = "compressed-tensors, plain weights with the scales of a calibration",
                                .open = open_layout,
                                .by_scheme = true};

constexpr std::string_view kActivations[] = {"input_scale", "output_scale", "input_zero_point",
                                             "output_zero_point", "input_global_scale"};
constexpr std::string_view kAttention[] = {"k_scale",      "v_scale",      "q_scale",
                                           "k_zero_point", "v_zero_point", "q_zero_point"};

// How many modules something holds for, and one of them.
struct Tally {
  size_t count = 0;
  std::string first{};
  void add(std::string_view module) {
    if (count++ == 0) first = std::string(module);
  }
};

class Detection {
 public:
  explicit Detection(LayoutScan& scan)
      : scan_(scan), from_{scan.checkpoint()}, ours_(scan.config().method == "compressed-tensors") {
    const JsonValue* section = scan.config().section;
    if (!ours_ || section == nullptr || section->find("config_groups") == nullptr) return;
    Result<ct::Config> config = ct::parse_config(*section);
    if (!config) {
      config_fault_ = scan.config().section_place + ": " + config.error().message;
      return;
    }
    schemes_.emplace(*std::move(config));
    from_.version = schemes_->config().version;
    for (const std::string& entry : schemes_->unread())
      scan.note(scan.config().section_place + ": the pattern " + quote_name(entry) +
                " is not understood, and counts as matching nothing");
  }

  void run() {
    find_all();
    if (config_fault_.empty()) return;
    // A configuration that its own parser refuses decides nothing, and nothing may be decided without it.
    if (config_fault_.back() == '.') config_fault_.pop_back();
    if (first_layout_.empty())
      scan_.note(config_fault_);
    else
      scan_.problem(first_layout_, first_module_, config_fault_, {}, Rule::QT002);
  }

 private:
  void find_all() {
    for (TensorRef compressed : scan_.ending(".compressed")) sparse(compressed);
    for (TensorRef packed : scan_.ending(".weight_packed")) packed_weight(packed);
    for (TensorRef scale : scan_.ending(".weight_scale"))
      if (scan_.is_free(scale)) plain(scale);
    if (ours_) {
      missing_scales();
      attention_scales();
    }
    say(ignored_, "is ignored by the configuration, and quantised all the same: its tensors decide",
        "are ignored by the configuration, and quantised all the same: their tensors decide");
    say(unconfigured_, "is quantised, and no group of the configuration means it: its tensors decide",
        "are quantised, and no group of the configuration means them: their tensors decide");
    say(contradicted_, "is not what the configuration says: its tensors decide",
        "are not what the configuration says: their tensors decide");
  }

  Module start(const QuantFormat& format, std::string_view name, TensorRef weight,
               std::string_view role) const {
    Module module{name, {}};
    module.match.layout = format.id;
    module.match.module = std::string(name) + ".weight";
    module.match.weight = weight;
    module.match.role = role;
    if (is_scale_float(info(weight).dtype)) module.match.logical_dtype = info(weight).dtype;
    if (!schemes_) return module;
    for (const ct::Group* group : schemes_->candidates(name, ct::guessed_class(name)))
      if (group->weights) module.candidates.push_back(&*group->weights);
    return module;
  }

  const TensorInfo& info(TensorRef tensor) const { return scan_.info(tensor); }

  void add_optional(Module& module) const {
    scan_.add_companion(module.match, "weight_zero_point", module.name, ".weight_zero_point");
    scan_.add_companion(module.match, "weight_g_idx", module.name, ".weight_g_idx");
    for (std::string_view role : kActivations)
      scan_.add_companion(module.match, role, module.name, "." + std::string(role));
  }

  // Takes the module, or says what is wrong with it.
  void finish(Module& module, ct::Fault fault) {
    if (!fault.empty()) {
      scan_.problem(module.match, std::move(fault.what), fault.rule);
      return;
    }
    const ct::Layout& layout = module.layout;
    if (layout.scaled) judge(module);
    module.match.bits = layout.bits;
    if (module.args != nullptr && module.agrees)
      scan_.count_scheme(module.match.layout, ct::args_text(*module.args));
    if (layout.scaled && layout.scale_rows == 1 && layout.grid_columns > 1)
      module.match.group_size = layout.scale_columns;
    const bool blocks = module.args != nullptr && module.args->strategy == ct::Strategy::kBlock;
    if (layout.scaled && layout.scale_rows > 1 && (layout.scale_rows < layout.rows || blocks)) {
      module.match.block[0] = layout.scale_rows;
      module.match.block[1] = layout.scale_columns;
    }
    module.match.detail = std::make_shared<const ct::Layout>(layout);
    claim(std::move(module.match));
  }
  void claim(QuantMatch match) {
    if (first_layout_.empty()) {
      first_layout_ = match.layout;
      first_module_ = match.module;
    }
    scan_.claim(std::move(match));
  }

  // What the configuration says of a module that is quantised, for the notes.
  void judge(const Module& module) {
    if (!schemes_) return;
    if (schemes_->ignores(module.name))
      ignored_.add(module.name);
    else if (module.candidates.empty())
      unconfigured_.add(module.name);
    else if (module.args == nullptr || !module.agrees)
      contradicted_.add(module.name);
  }
  void say(const Tally& tally, std::string_view one, std::string_view many) const {
    if (tally.count == 0) return;
    scan_.note(tally.count == 1 ? "module " + quote_name(tally.first) + " " + std::string(one)
                                : grouped_digits(tally.count) + " modules, the first " +
                                      quote_name(tally.first) + ", " + std::string(many));
  }

  // A shape kept as a small integer tensor; nothing while it is not read.
  std::optional<Shape> stored_shape(TensorRef tensor) {
    const DType dtype = info(tensor).dtype;
    const std::optional<Bytes> bytes = scan_.values().get(tensor);
    if (!bytes || (dtype != DType::I64 && dtype != DType::I32) || bytes->size() > 64) return std::nullopt;
    Shape out;
    const uint64_t width = dtype_bits(dtype) / 8;
    for (uint64_t at = 0; at + width <= bytes->size(); at += width) {
      const int64_t value = width == 8 ? load_le<int64_t>(bytes->data() + to_size(at))
                                       : load_le<int32_t>(bytes->data() + to_size(at));
      if (value < 0) return std::nullopt;
      out.push_back(static_cast<uint64_t>(value));
    }
    return out;
  }

  void packed_weight(TensorRef packed) {
    const std::string_view name = scan_.stem(packed, ".weight_packed");
    const std::optional<TensorRef> scale = scan_.sibling(name, ".weight_scale");
    if (info(packed).dtype == DType::I32 && scan_.sibling(name, ".scale_packed") &&
        scan_.sibling(name, ".meta"))
      return marlin(name, packed);
    const auto broken = [&](const QuantFormat& format, std::string what, Rule rule) {
      scan_.problem(format.id, std::string(name) + ".weight", std::move(what), {packed, scale}, rule);
    };
    if (!scale) {
      if (ours_ || scan_.sibling(name, ".weight_shape"))
        broken(kPack, "weight_scale is missing", Rule::QT010);
      return;
    }
    const bool bytes = info(packed).dtype == DType::U8;
    if (!bytes && info(packed).dtype != DType::I32) return;
    if (ours_ && scan_.sibling(name, ".weight"))
      return broken(bytes ? kCompressedTensorsNvfp4 : kPack, "weight and weight_packed are both there",
                    Rule::QT009);
    if (bytes) return pairs(name, packed, *scale);
    Module module = start(kPack, name, packed, "weight_packed");
    module.match.companions.push_back({"weight_scale", *scale});
    module.match.logical_dtype = native_dtype(info(*scale).dtype);
    if (!scan_.add_companion(module.match, "weight_shape", name, ".weight_shape", {DType::I64, DType::I32}))
      return broken(kPack, "weight_shape is missing", Rule::QT010);
    if (const TensorInfo& shape = info(*module.match.find("weight_shape"));
        element_count(shape.shape) != info(packed).shape.size())
      return broken(kPack,
                    "weight_shape is " + shape_text(shape.shape) + ", expected [" +
                        std::to_string(info(packed).shape.size()) + "]",
                    Rule::QT042);
    add_optional(module);
    module.match.logical_shape = ct::computed_shape(from_, module);
    if (!module.match.logical_shape)
      module.match.logical_shape = stored_shape(*module.match.find("weight_shape"));
    if (!module.match.logical_shape) return claim(std::move(module.match));  // once more, when it is read
    finish(module, ct::fit_packed(from_, module));
  }

  void marlin(std::string_view name, TensorRef packed) {
    Module module = start(kMarlin24, name, packed, "weight_packed");
    scan_.add_companion(module.match, "scale_packed", name, ".scale_packed");
    scan_.add_companion(module.match, "meta", name, ".meta");
    for (std::string_view role : kActivations)
      scan_.add_companion(module.match, role, name, "." + std::string(role));
    module.match.logical_dtype = DType::F16;
    ct::Fault fault = ct::fit_marlin(scan_.checkpoint(), module.match);
    if (!fault.empty()) return finish(module, std::move(fault));
    claim(std::move(module.match));
  }

  static bool wants_exponents(const Module& module) {
    return std::any_of(module.candidates.begin(), module.candidates.end(), [](const ct::Args* args) {
      return args->is_float && args->bits == 4 && args->group_size == 32;
    });
  }

  // NVFP4 and MXFP4.
  void pairs(std::string_view name, TensorRef packed, TensorRef scale) {
    const bool exponents = info(scale).dtype == DType::U8 || info(scale).dtype == DType::F8_E8M0;
    const bool global = scan_.sibling(name, ".weight_global_scale").has_value();
    const QuantFormat& format = exponents ? kCompressedTensorsMxfp4 : kCompressedTensorsNvfp4;
    Module module = start(format, name, packed, "weight_packed");
    module.match.companions.push_back({"weight_scale", scale});
    scan_.add_companion(module.match, "weight_global_scale", name, ".weight_global_scale");
    add_optional(module);
    Shape logical = info(packed).shape;
    const auto columns = logical.empty() ? std::nullopt : checked_mul(logical.back(), 2);
    if (!columns)
      return finish(module,
                    {Rule::QT051, "weight_packed is " + shape_text(logical) + ", which is no matrix"});
    logical.back() = *columns;
    module.match.logical_shape = logical;
    if (!exponents && info(scale).dtype != DType::F8_E4M3)
      return finish(module, {wants_exponents(module) ? Rule::QT061 : Rule::QT051,
                             "weight_scale is " + std::string(dtype_name(info(scale).dtype)) +
                                 ", expected F8_E4M3 (NVFP4) or U8 (MXFP4)"});
    if (exponents == global)
      return finish(module, global
                                ? ct::Fault(Rule::QT065, "weight_global_scale is there, which MXFP4 has not")
                                : ct::Fault(Rule::QT010, "weight_global_scale is missing"));
    module.layout.codes = ct::Codes::kPairs;
    module.layout.bits = 4;
    module.layout.code_bytes = info(packed).shape.back();
    if (!ct::set_shape(module.layout, logical) || logical.size() < 2)
      return finish(module, {Rule::QT051,
                             "weight_packed is " + shape_text(info(packed).shape) + ", which is no matrix"});
    finish(module, ct::fit_small_groups(from_, module, exponents ? 32 : 16));
  }

  void sparse(TensorRef compressed) {
    std::string_view name = scan_.stem(compressed, ".compressed");
    const std::optional<TensorRef> bitmask = scan_.sibling(name, ".bitmask"),
                                   shape = scan_.sibling(name, ".shape");
    if (!bitmask || !shape || info(*bitmask).dtype != DType::U8) return;
    if (info(*shape).dtype != DType::I64 && info(*shape).dtype != DType::I32) return;
    const std::optional<TensorRef> offsets = scan_.sibling(name, ".row_offsets");
    // 0.4 to 0.8: beside the weight's name, not the module's.
    if (ends_with(name, ".weight")) name.remove_suffix(7);
    Module module = start(offsets ? kBitmask : kBitmask24, name, compressed, "compressed");
    module.match.companions.push_back({"bitmask", *bitmask});
    module.match.companions.push_back({"shape", *shape});
    if (offsets) module.match.companions.push_back({"row_offsets", *offsets});
    scan_.add_companion(module.match, "weight_scale", name, ".weight_scale");
    add_optional(module);
    if (const TensorInfo* scale = from_.part(module, "weight_scale")) {
      module.match.logical_dtype = native_dtype(scale->dtype);
    } else if (info(compressed).dtype == DType::I8) {
      module.match.logical_dtype = DType::I8;  // what it was before
    }
    module.match.logical_shape = stored_shape(*shape);
    if (!module.match.logical_shape) return claim(std::move(module.match));
    finish(module, ct::fit_sparse(from_, module));
  }

  bool says_naive(std::string_view name) const {
    if (!schemes_) {
      const JsonValue* format = scan_.config().get("format");
      return format != nullptr && format->text == "naive-quantized";
    }
    const ct::Config& config = schemes_->config();
    for (const ct::Group* group : schemes_->candidates(name, ct::guessed_class(name)))
      if (group->format_given) return group->format == "naive-quantized";
    return config.format == "naive-quantized";
  }

  // Weights that were left as they are, with what a calibration has found beside them.
  bool says_dense(std::string_view name) const {
    if (!schemes_) return false;
    for (const ct::Group* group : schemes_->candidates(name, ct::guessed_class(name)))
      if (group->format_given) return group->format == "dense";
    const std::string& format = schemes_->config().format;
    return format.empty() || format == "dense" || format == "fakequant";
  }

  // `weight` with `weight_scale`: named by the configuration, except that E8M0 bytes in groups of 32 over FP8 are told by
  // their shape.
  void plain(TensorRef scale) {
    const std::string_view name = scan_.stem(scale, ".weight_scale");
    const std::optional<TensorRef> weight = scan_.sibling(name, ".weight");
    if (!weight) return;
    const TensorInfo &codes = info(*weight), &scales = info(scale);
    const bool fp8 = codes.dtype == DType::F8_E4M3;
    const bool exponents = scales.dtype == DType::U8 || scales.dtype == DType::F8_E8M0;
    Shape small = codes.shape;
    if (!small.empty()) small.back() = ceil_div(small.back(), 32);
    const bool groups = fp8 && exponents && small.size() >= 2 && scales.shape == small;
    if (!groups && !ours_) return;
    const bool codes_of_bytes = fp8 || codes.dtype == DType::I8;
    const bool wide = codes.dtype == DType::I16 || codes.dtype == DType::I32;
    const bool dense = is_scale_float(codes.dtype) && says_dense(name);
    if (!codes_of_bytes && !wide && !dense && !is_fp8(codes.dtype)) return;
    const bool naive = wide || (!groups && says_naive(name));
    const QuantFormat& format = dense                 ? kDense
                                : exponents && fp8    ? kCompressedTensorsMxfp8
                                : naive               ? kNaive
                                : is_fp8(codes.dtype) ? kFloat
                                                      : kInt;
    Module module = start(format, name, *weight, "weight");
    module.match.companions.push_back({"weight_scale", scale});
    add_optional(module);
    if (!dense) module.match.logical_dtype = native_dtype(scales.dtype);
    module.match.logical_shape = codes.shape;
    if (is_fp8(codes.dtype) && !fp8)
      return finish(
          module, {Rule::QT032, "weight is " + std::string(dtype_name(codes.dtype)) + ", expected F8_E4M3"});
    finish(module, ct::fit_elements(from_, module, dense, exponents && fp8));
  }

  // Codes that the configuration means and that no scale goes with are no values.
  void missing_scales() {
    if (!schemes_) return;
    for (TensorRef weight : scan_.ending(".weight")) {
      const TensorInfo& codes = info(weight);
      const std::string_view name = scan_.stem(weight, ".weight");
      if (codes.shape.size() < 2 || (codes.dtype != DType::I8 && codes.dtype != DType::F8_E4M3)) continue;
      if (scan_.sibling(name, ".weight_scale_inv") || scan_.sibling(name, ".weight_scale_2") ||
          schemes_->assign(name, ct::guessed_class(name)) == nullptr)
        continue;
      scan_.problem(codes.dtype == DType::I8 ? kInt.id : kFloat.id, codes.name,
                    "it is " + std::string(dtype_name(codes.dtype)) + ", and weight_scale is missing",
                    {weight}, Rule::QT003);
    }
  }

  // Scales of the key-value cache mean nothing without quantised activations.
  void attention_scales() {
    if (first_layout_.empty()) return;
    for (const std::string_view word : kAttention)
      for (TensorRef tensor : scan_.ending("." + std::string(word))) scan_.claim_extra(first_layout_, tensor);
  }

  LayoutScan& scan_;
  ct::FitContext from_;
  bool ours_;
  std::optional<ct::Schemes> schemes_{};
  std::string_view first_layout_{};
  std::string first_module_{}, config_fault_{};
  Tally ignored_{}, unconfigured_{}, contradicted_{};
};

void detect_compressed_tensors(LayoutScan& scan) { Detection(scan).run(); }

constexpr const QuantFormat* kCompressedTensorsFormats[] = {&kPack,
                                                            &kInt,
                                                            &kFloat,
                                                            &kNaive,
                                                            &kCompressedTensorsNvfp4,
                                                            &kCompressedTensorsMxfp4,
                                                            &kCompressedTensorsMxfp8,
                                                            &kMarlin24,
                                                            &kBitmask,
                                                            &kBitmask24,
                                                            &kDense};

}  // namespace

constexpr QuantFamily kCompressedTensorsFamily = {"compressed-tensors", kCompressedTensorsFormats,
                                                  detect_compressed_tensors};

}  // namespace tftf
