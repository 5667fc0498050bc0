// Distributions shared by random.cpp and sampling.cpp.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// Mean 1, always above 0: 1 - u lies in (0, 1], and its logarithm's zero is moved off.
Value exponential(Builder&, Args&, Dtype float_dtype, const Dims&);

}  // namespace torchport::ops
