// Google TPU through libtpu. Where there is no chip it still compiles for a topology, but must be told not to ask the
// metadata server, which hangs outside Google Cloud.
#include <cstdlib>

#include "pjrt/platform.h"

namespace torchport::devices {

static bool has_chip() { return pjrt::any_exists({"/dev/accel0", "/dev/vfio/0"}); }

DEVICE("tpu"){
    .plugin = {"env:TPU_LIBRARY_PATH", "python:libtpu/libtpu.so"},
    .present = has_chip,
    .priority = 300,
    .prepare =
        [] {
          if (!has_chip()) setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
        },
    .caps = {.f64 = true,
             .c128 = true,
             .f64_emulated = true,
             .f8 = true,
             .donation = true,
             .compile_only = true,
             .in_order = true,
             .portable = true},
    .install = "pip install libtpu",
};

}  // namespace torchport::devices
