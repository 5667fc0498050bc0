// A machine that is not here: compiles for it with its plugin alone. A target's compiler may abort, hang or eat memory,
// so callers run this in a worker process; what can be checked beforehand is checked here.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "pjrt/platform.h"
#include "pjrt/program.h"

namespace torchport::pjrt {

class Topology {
 public:
  // name as the plugin spells it: "v5e:2x2"; options such as target_config where it takes them.
  static std::unique_ptr<Topology> create(const Platform&, const std::string& name, const Options& = {});
  Topology(const Topology&) = delete;
  ~Topology() { destroy<&PJRT_Api::PJRT_TopologyDescription_Destroy>(api_, raw_); }

  int num_devices() const { return num_devices_; }
  const std::string& kind() const { return kind_; }  // of its first device: "TPU v5 lite"
  const Platform& platform() const { return platform_; }

  // num_replicas * num_partitions must be 1 or the number of devices (anything else aborts inside some compilers).
  std::unique_ptr<Program> compile(std::string_view stablehlo_text, const CompileOptions&) const;

 private:
  Topology(const Api&, PJRT_TopologyDescription*, Platform);
  const Api& api_;
  PJRT_TopologyDescription* raw_;
  Platform platform_;
  int num_devices_ = 0;
  std::string kind_;
};

}  // namespace torchport::pjrt
