#include "base/error.h"

#include <cstdio>

namespace torchport {

const std::vector<CodeInfo>& all_codes() {
  static const std::vector<CodeInfo> table{
      {Code::internal, "internal", Raise::runtime_error, "TorchPort met a state it does not handle.",
       "Report it with the message and the program that leads to it."},
      {Code::shape_mismatch, "shape_mismatch", Raise::runtime_error, "The shapes of the arguments do not fit the op.",
       "Print the shapes of the arguments; they must broadcast or match as the message says."},
      {Code::dim_out_of_range, "dim_out_of_range", Raise::index_error,
       "A dimension number lies outside the tensor's rank.", "Use a dimension in the range that the message gives."},
      {Code::index_out_of_range, "index_out_of_range", Raise::index_error,
       "An index tensor holds a value outside the indexed dimension.",
       "Check the largest and smallest index; TORCHPORT_EAGER=debug names the Python line."},
      {Code::bad_value, "bad_value", Raise::runtime_error, "An argument's value is not allowed.",
       "Use a value from the set that the message gives."},
      {Code::dtype_unsupported, "dtype_unsupported", Raise::not_implemented_error,
       "The op or the platform does not take this element type.", "Cast with .to(dtype), or run this op on the CPU."},
      {Code::dtype_mismatch, "dtype_mismatch", Raise::runtime_error,
       "Two arguments must have one element type and do not.", "Cast one of them with .to(dtype)."},
      {Code::dtype_cast, "dtype_cast", Raise::runtime_error,
       "The result cannot be stored in the output's element type.",
       "Give an out= tensor of the result's type, or use the functional form."},
      {Code::device_mismatch, "device_mismatch", Raise::runtime_error, "Tensors of one call live on different devices.",
       "Move them to one device with .to(device)."},
      {Code::bad_device_index, "bad_device_index", Raise::runtime_error, "There is no device of that number.",
       "See torch.accelerator.device_count()."},
      {Code::op_unsupported, "op_unsupported", Raise::not_implemented_error,
       "The op has no lowering and no CPU fallback.", "See docs/ops.md; move this step to the CPU."},
      {Code::fallback_refused, "fallback_refused", Raise::not_implemented_error,
       "The op would fall back to the CPU and TORCHPORT_FALLBACK=error forbids it.",
       "Unset TORCHPORT_FALLBACK, or avoid the op."},
      {Code::layout_unsupported, "layout_unsupported", Raise::not_implemented_error,
       "Sparse and quantised tensors have no kernels here.", "Use .to_dense() or .dequantize() first."},
      {Code::overlap, "overlap", Raise::runtime_error,
       "The written tensor refers to one memory location more than once.", "Clone it before the in-place operation."},
      {Code::zero_division, "zero_division", Raise::runtime_error, "Integer division by zero.",
       "Mask the zeros of the divisor."},
      {Code::nan_found, "nan_found", Raise::runtime_error,
       "Debug mode found a NaN or infinity in an op's result that its inputs did not have.",
       "See the op and the Python line in the message."},
      {Code::out_of_memory, "out_of_memory", Raise::out_of_memory_error, "The device has not enough free memory.",
       "Free tensors, use a smaller batch, or see torch.accelerator.memory_stats()."},
      {Code::plugin_missing, "plugin_missing", Raise::runtime_error, "No PJRT plugin was found for the platform.",
       "Install the plugin's package, or give its path in TORCHPORT_PLATFORM."},
      {Code::plugin_bad, "plugin_bad", Raise::runtime_error, "The file is not a PJRT plugin, or could not be loaded.",
       "Check the path; it must be a shared library that exports GetPjrtApi."},
      {Code::plugin_too_old, "plugin_too_old", Raise::runtime_error,
       "The plugin lacks an entry point that TorchPort needs.", "Install a newer version of the plugin."},
      {Code::pjrt, "pjrt", Raise::runtime_error, "The plugin reported an error.",
       "Read the plugin's words in the message."},
      {Code::compile_failed, "compile_failed", Raise::runtime_error, "The platform's compiler refused a program.",
       "Set TORCHPORT_DUMP=directory to keep the StableHLO text and report it."},
      {Code::forked, "forked", Raise::runtime_error, "The process was forked after the device was used.",
       "Use the 'spawn' start method, or fork before the first use of the device."},
      {Code::bad_setting, "bad_setting", Raise::value_error,
       "A setting (environment variable or argument) has a value that is not allowed.",
       "Use one of the values that the message gives."},
  };
  return table;
}

const CodeInfo& info(Code code) {
  for (const CodeInfo& i : all_codes())
    if (i.code == code) return i;
  return all_codes().front();
}

std::string tag(Code code) {
  char text[16];
  std::snprintf(text, sizeof text, "TP%04d", static_cast<int>(code));
  return text;
}

Error::Error(Code c, std::string w, std::string t, std::string h)
    : code(c), where(std::move(w)), text(std::move(t)), hint(std::move(h)) {
  message_ = "[" + where + "] " + text + " (" + tag(code) + ")";
  if (!hint.empty()) message_ += ". Try: " + hint;
}

void fail(Code code, std::string where, std::string what, std::string hint) {
  throw Error(code, std::move(where), std::move(what), std::move(hint));
}

}  // namespace torchport
