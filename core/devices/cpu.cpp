// The host's processor through XLA's CPU plugin: where no accelerator is, it stands in for one ("emulation"), and shows
// several devices so that copies and collectives between them can be tried.
#include <charconv>

#include "base/env.h"
#include "base/error.h"
#include "pjrt/platform.h"

namespace torchport::devices {

static int device_count() {
  const std::string set = env("TORCHPORT_DEVICES");
  int count = 0;
  const auto [end, error] = std::from_chars(set.data(), set.data() + set.size(), count);
  if (error != std::errc() || end != set.data() + set.size() || count < 1 || count > 64)
    fail(Code::bad_setting, "TORCHPORT_DEVICES", "must be an integer in [1, 64], got '" + set + "'");
  return count;
}

DEVICE("cpu"){
    .plugin = {"python:xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
    .present = [] { return true; },
    .priority = 0,
    .options = [](pjrt::Options& o) { o.set("cpu_device_count", device_count()); },
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
