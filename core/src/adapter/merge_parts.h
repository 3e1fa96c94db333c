// What the forms of adapters share: factors, ranks and scales, and how what does not fit is told.
#pragma once

#include "adapter/merge_forms.h"

namespace tftf::merging {

constexpr int64_t kDefaultRank = 8;  // PEFT's, when a configuration names none

// Product of the dimensions from `first` on; shapes of tensors that are there do not overflow.
uint64_t product(const Shape& shape, size_t first);
// The shortest digits that name the value, whatever the locale.
std::string short_number(double value);
// Why the module's tensors do not fit the weight, with all shapes.
Error shape_error(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                  const std::string& what);
// A program of the shape's rows and columns that changes nothing yet.
std::shared_ptr<MergeProgram> new_program(const FormContext& context, const Shape& shape);
// Factors as they are stored, and transposed.
Factor plain(const TensorData* tensor, uint64_t rows, uint64_t cols);
Factor flipped(const TensorData* tensor, uint64_t rows, uint64_t cols);
Factor transposed(Factor factor);
// The configured rank and the tensors' must agree.
Result<void> check_rank(const FormContext& context, const ModuleParts& parts, std::string_view path,
                        uint64_t rank);
// s: the user's scale times alpha over rank.
Result<double> scale_of(const FormContext& context, std::string_view path, uint64_t rank);
// Rank, scale and the program's word.
Result<void> set_scale(const FormContext& context, const ModuleParts& parts, std::string_view path,
                       uint64_t rank, std::string_view form, MergeProgram& program);
// DoRA, when the module has a magnitude.
Result<void> add_magnitude(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                           bool of_rows, MergeProgram& program);
// Whether all dimensions from `first` on are 1, or equal to those of the other shape.
bool ones_after(const Shape& shape, size_t first);
// The core of a Tucker form for the weight: (r, r, k...), where PEFT gives a kernel of one dimension a second of 1.
bool is_tucker_core(const Shape& core, const Shape& weight);
bool same_from(const Shape& a, const Shape& b, size_t first);

}  // namespace tftf::merging
