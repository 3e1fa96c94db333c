// A configuration as the library writes it.
#include "quant/ct/config.h"

namespace tftf::ct {
namespace {

OrderedJson torch_name(const std::optional<DType>& dtype) {
  if (!dtype) return nullptr;
  return "torch." + std::string(dtype_info(*dtype).torch);
}

OrderedJson optional_args(const std::optional<Args>& args) {
  return args ? args_json(*args) : OrderedJson(nullptr);
}

OrderedJson group_json(const Group& group) {
  OrderedJson out;
  out["format"] = group.format_given ? OrderedJson(group.format) : OrderedJson(nullptr);
  out["input_activations"] = optional_args(group.inputs);
  out["output_activations"] = optional_args(group.outputs);
  out["targets"] = group.targets;
  out["weights"] = optional_args(group.weights);
  return out;
}

}  // namespace

OrderedJson args_json(const Args& args) {
  OrderedJson out;
  out["actorder"] = args.actorder_word.empty() ? OrderedJson(nullptr) : OrderedJson(args.actorder_word);
  out["block_structure"] = nullptr;
  if (args.strategy == Strategy::kBlock)
    out["block_structure"] = OrderedJson::array({json_integer(args.block[0]), json_integer(args.block[1])});
  out["dynamic"] = args.local ? OrderedJson("local") : OrderedJson(args.dynamic);
  out["group_size"] = args.group_given ? json_integer(args.group_size) : OrderedJson(nullptr);
  out["num_bits"] = json_integer(args.bits);
  out["observer"] = args.observer ? OrderedJson(*args.observer) : OrderedJson(nullptr);
  out["observer_kwargs"] = OrderedJson::parse(args.observer_kwargs, nullptr, false);
  out["scale_dtype"] = torch_name(args.scale_dtype);
  out["strategy"] = std::string(strategy_name(args.strategy));
  out["symmetric"] = args.symmetric;
  out["type"] = args.is_float ? "float" : "int";
  out["zp_dtype"] = args.symmetric ? OrderedJson(nullptr) : torch_name(args.zp_dtype);
  return out;
}

OrderedJson config_json(const Config& config) {
  OrderedJson groups = OrderedJson::object();
  for (const Group& group : config.groups) groups[group.name] = group_json(group);
  OrderedJson out;
  out["config_groups"] = std::move(groups);
  out["format"] = config.format.empty() ? "fakequant" : config.format;
  out["global_compression_ratio"] = OrderedJson::parse(config.compression_ratio, nullptr, false);
  out["ignore"] = config.ignore;
  out["kv_cache_scheme"] = optional_args(config.cache);
  out["quant_method"] = config.method;
  out["quantization_status"] = config.status;
  return out;
}

}  // namespace tftf::ct
