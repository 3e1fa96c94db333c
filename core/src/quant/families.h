// One constant per family file: the list that registry.cpp orders.
#pragma once

#include "tftf/quant/registry.h"

namespace tftf {

extern const QuantFamily kTorchaoFamily;            // torchao.cpp
extern const QuantFamily kComfyFamily;              // comfy.cpp
extern const QuantFamily kComfyScaledFamily;        // comfy_scaled.cpp
extern const QuantFamily kColibriFamily;            // colibri/family.cpp
extern const QuantFamily kBitsandbytesFamily;       // bitsandbytes.cpp
extern const QuantFamily kQweightFamily;            // qweight.cpp
extern const QuantFamily kCompressedTensorsFamily;  // compressed_tensors.cpp
extern const QuantFamily kGptOssFamily;             // gpt_oss.cpp
extern const QuantFamily kMlxFamily;                // mlx.cpp
extern const QuantFamily kFp8BlockFamily;           // fp8_block.cpp
extern const QuantFamily kModeloptFamily;           // modelopt.cpp
extern const QuantFamily kMxFamily;                 // mx.cpp
extern const QuantFamily kQuarkFamily;              // quark.cpp
extern const QuantFamily kFbgemmFamily;             // fbgemm.cpp
extern const QuantFamily kAutoroundFamily;          // autoround.cpp
extern const QuantFamily kFp8ScaledFamily;          // fp8_scaled.cpp
extern const QuantFamily kForeignFamily;            // foreign.cpp
extern const QuantFamily kGemmaFamily;              // gemma.cpp
extern const QuantFamily kBitnetFamily;             // bitnet.cpp
extern const QuantFamily kHqqFamily;                // hqq.cpp
extern const QuantFamily kQuantoFamily;             // quanto.cpp
extern const QuantFamily kAqlmFamily;               // aqlm.cpp
extern const QuantFamily kVptqFamily;               // vptq.cpp

}  // namespace tftf
