// The quantisation method that a model folder declares, and what its readers expect to be stored.
#pragma once

#include <string>
#include <string_view>

#include "lint/layout/modules.h"
#include "tftf/quant/config.h"

namespace tftf {

// Small letters, `_` as `-`; vendor names and variants brought to one; empty without any.
std::string declared_method(const QuantConfig& quant);
// Whether what the method stores is known.
bool is_known_method(std::string_view method);
bool method_stores(std::string_view method, ModuleKind kind);
// The method keeps plain weights: it quantises while loading, or only caches, or not at all as configured.
bool stores_plain_weights(std::string_view method, const QuantConfig& quant);

}  // namespace tftf
