// Where the elements of new tensors lie in memory: as TensorIterator says of elementwise ops, and as PyTorch's own meta
// kernels say of the others.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace torchport::aten {

// Per result of the op (lists are flattened): its dimensions from outermost to innermost in memory, empty when they lie
// as they are numbered, or when the op has no meta kernel for these arguments. args: of a functional overload.
// own_order: the op's trait; without it, operands that lie as numbered give results that do.
std::vector<Dims> memory_orders(const c10::OperatorHandle&, at::ArrayRef<c10::IValue> args,
                                const std::vector<Dims>& results, bool own_order);

}  // namespace torchport::aten
