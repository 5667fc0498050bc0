// NVIDIA GPU through XLA's CUDA plugin. Its topology needs a target_config (a GpuTargetConfig text) when no GPU is
// present.
#include "pjrt/platform.h"

namespace torchport::devices {

DEVICE("cuda"){
    .plugin = {"python:jax_plugins/xla_cuda13/xla_cuda_plugin.so", "python:jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
    .present = [] { return pjrt::any_exists({"/dev/nvidia0", "/dev/nvidiactl"}); },
    .priority = 200,
    .caps = {.f64 = true,
             .c128 = true,
             .f8 = true,
             .s64_dot = true,
             .donation = true,
             .compile_only = true,
             .in_order = true,
             .portable = true},
    .install = "pip install jax-cuda13-pjrt",
};

}  // namespace torchport::devices
