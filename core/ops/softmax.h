// Softmax for the families that are built on it.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// A value without dimension `dim`, repeated along it to x's shape.
Value spread_over(Builder&, const Value& reduced, const Value& x, int64_t dim);
Value softmax(Builder&, const Value& x, int64_t dim, bool safe);
Value softmax_backward(Builder&, const Value& grad, const Value& y, int64_t dim);

}  // namespace torchport::ops
