// The host's processor through XLA's CPU plugin: where no accelerator is, it stands in for one ("emulation"), and shows
// several devices so that copies and collectives between them can be tried.
#include "base/env.h"
#include "pjrt/platform.h"

namespace torchport::devices {

DEVICE("cpu"){
    .plugin = {"python:xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
    .present = [] { return true; },
    .priority = 0,
    .options =
        [](pjrt::Options& o) { o.set("cpu_device_count", static_cast<int>(env_integer("TORCHPORT_DEVICES", 1, 64))); },
    .caps = {.host_memory = true,
             .f64 = true,
             .c128 = true,
             .f8 = true,
             .s64_dot = true,
             .donation = true,
             .portable = true,
             // Else max and min drop a NaN in their second operand.
             .flags = {{"xla_cpu_enable_fast_min_max", false}}},
    .install = "pip install xla-cpu-pjrt",
};

}  // namespace torchport::devices
