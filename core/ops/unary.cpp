// Elementwise ops of one tensor.
#include <cmath>
#include <numbers>

#include "ops/op.h"

namespace torchport::ops {

#define UNARY(NAME, PROMOTE, ...) \
  OP(NAME, PROMOTE, "", kOpmath) { Value x = a.tensor("self"); return __VA_ARGS__; }

UNARY("exp", Promote::to_float, b.exp(x))
UNARY("expm1", Promote::to_float, b.expm1(x))
UNARY("log", Promote::to_float, b.log(x))
UNARY("tanh", Promote::to_float, b.tanh(x))
UNARY("sqrt", Promote::to_float, b.sqrt(x))
UNARY("rsqrt", Promote::to_float, b.rsqrt(x))
UNARY("sigmoid", Promote::to_float, b.sigmoid(x))

OP("neg", Promote::same) {
  a.check(!is_bool(a.dtype()), Code::bad_value, "must not get a bool tensor; use ~ or logical_not() instead");
  return b.neg(a.tensor("self"));
}

}  // namespace torchport::ops
