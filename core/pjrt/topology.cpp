#include "pjrt/topology.h"

#include "pjrt/plugin.h"

namespace torchport::pjrt {

std::unique_ptr<Topology> Topology::create(const Platform& platform, const std::string& name, const Options& options) {
  const Api& api = load_plugin(platform);
  const std::vector<PJRT_NamedValue> values = named_values(options);
  auto* raw = PJRT(api, PJRT_TopologyDescription_Create,
                   {.topology_name = name.data(),
                    .topology_name_size = name.size(),
                    .create_options = values.data(),
                    .num_options = values.size()})
                  .topology;
  return std::unique_ptr<Topology>(new Topology(api, raw, platform));
}

Topology::Topology(const Api& api, PJRT_TopologyDescription* raw, Platform platform)
    : api_(api), raw_(raw), platform_(std::move(platform)) {
  try {
    const auto list = PJRT(api_, PJRT_TopologyDescription_GetDeviceDescriptions, {.topology = raw_});
    num_devices_ = static_cast<int>(list.num_descriptions);
    if (num_devices_ == 0) return;
    const auto kind = PJRT(api_, PJRT_DeviceDescription_Kind, {.device_description = list.descriptions[0]});
    kind_.assign(kind.device_kind, kind.device_kind_size);
  } catch (...) {
    destroy<&PJRT_Api::PJRT_TopologyDescription_Destroy>(api_, raw_);
    throw;
  }
}

std::unique_ptr<Program> Topology::compile(std::string_view stablehlo_text, const CompileOptions& options) const {
  const int64_t wanted = int64_t{options.num_replicas} * options.num_partitions;
  if (options.num_replicas < 1 || options.num_partitions < 1 || (wanted != 1 && wanted != num_devices_))
    fail(Code::bad_value, "topology",
         str("num_replicas * num_partitions must be 1 or the topology's ", num_devices_, " devices, got ",
             options.num_replicas, " * ", options.num_partitions));
  const PJRT_Program program = mlir_program(stablehlo_text);
  const std::string encoded = encode(options);
  auto* compiled = PJRT(api_, PJRT_Compile,
                        {.topology = raw_,
                         .program = &program,
                         .compile_options = encoded.data(),
                         .compile_options_size = encoded.size()})
                       .executable;
  return std::make_unique<Program>(api_, compiled);
}

}  // namespace torchport::pjrt
