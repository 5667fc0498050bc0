#include "pjrt/executable.h"

namespace torchport::pjrt {

// A portable program has no device assignment, also after serialising, and so no devices of its own.
Executable::Executable(const Api& api, PJRT_LoadedExecutable* loaded)
    : Program(api, PJRT(api, PJRT_LoadedExecutable_GetExecutable, {.loaded_executable = loaded}).executable),
      loaded_(loaded),
      portable_(PJRT(api, PJRT_LoadedExecutable_AddressableDevices, {.executable = loaded}).num_addressable_devices ==
                0) {}

void Executable::execute_all(PJRT_Buffer* const* const* inputs, size_t num_devices, size_t num_inputs,
                             PJRT_Buffer** const* outputs) const {
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  PJRT(api_, PJRT_LoadedExecutable_Execute,
       {.executable = loaded_,
        .options = &options,
        .argument_lists = inputs,
        .num_devices = num_devices,
        .num_args = num_inputs,
        .output_lists = outputs});
}

}  // namespace torchport::pjrt
