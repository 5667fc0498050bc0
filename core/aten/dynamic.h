// Ops whose output shape depends on values: the host waits for a count, then runs a program of that size.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace torchport::aten {

// Indices of x[...]: masks become index tensors, index tensors on the host move to the device.
c10::IValue expand_masks(const at::Tensor& self, at::ArrayRef<c10::IValue> indices);
// A mask alone, beside dimensions taken whole.
bool is_one_mask(at::ArrayRef<c10::IValue> indices);

}  // namespace torchport::aten
