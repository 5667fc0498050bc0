#include "pjrt/executable.h"

namespace torchport::pjrt {

Executable::Executable(const Api& api, PJRT_LoadedExecutable* loaded, bool pass_device)
    : Program(api, PJRT(api, PJRT_LoadedExecutable_GetExecutable, {.loaded_executable = loaded}).executable),
      loaded_(loaded),
      pass_device_(pass_device) {}

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
