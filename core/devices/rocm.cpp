// AMD GPU through XLA's ROCm plugin, which loads only where the ROCm libraries are.
#include "pjrt/platform.h"

namespace torchport::devices {

DEVICE("rocm"){
    .plugin = {"python:jax_plugins/xla_rocm7/xla_rocm_plugin.so"},
    .present = [] { return pjrt::any_exists({"/dev/kfd"}); },
    .priority = 150,
    .caps = {.f64 = true,
             .c128 = true,
             .f8 = true,
             .s64_dot = true,
             .donation = true,
             .compile_only = true,
             .in_order = true,
             .portable = true},
    .install = "pip install jax-rocm7-pjrt",
};

}  // namespace torchport::devices
