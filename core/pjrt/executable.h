// A program loaded on the devices of a client. Launching is thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>

#include "pjrt/device.h"
#include "pjrt/program.h"

namespace torchport::pjrt {

class Executable : public Program {
 public:
  Executable(const Api&, PJRT_LoadedExecutable*);  // takes over the handle
  ~Executable() override { destroy<&PJRT_Api::PJRT_LoadedExecutable_Destroy>(api_, loaded_); }

  PJRT_LoadedExecutable* raw() const { return loaded_; }
  bool is_portable() const { return portable_; }

  // Launches on one device and returns before it is done: outputs[0, num_outputs) are handles the caller owns, errors
  // of the computation come with their ready events. Inputs that the program aliases to outputs (tf.aliasing_output)
  // are consumed unless their positions are listed in non_donatable.
  void execute(PJRT_Buffer* const* inputs, size_t num_inputs, PJRT_Buffer** outputs, Device& device,
               const int64_t* non_donatable = nullptr, size_t num_non_donatable = 0) const {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.non_donatable_input_indices = non_donatable;
    options.num_non_donatable_input_indices = num_non_donatable;
    PJRT_LoadedExecutable_Execute_Args args{};
    args.executable = loaded_;
    args.options = &options;
    args.argument_lists = &inputs;
    args.num_devices = 1;
    args.num_args = num_inputs;
    args.output_lists = &outputs;
    args.execute_device = portable_ ? device.raw() : nullptr;
    PJRT(api_, PJRT_LoadedExecutable_Execute, (args));
  }

  // Launches a program of several replicas or partitions on all its devices: a list of inputs and of outputs for each.
  void execute_all(PJRT_Buffer* const* const* inputs, size_t num_devices, size_t num_inputs,
                   PJRT_Buffer** const* outputs) const;

 private:
  PJRT_LoadedExecutable* loaded_;
  bool portable_;  // bound to no device: each launch names one
};

}  // namespace torchport::pjrt
