// Elementwise ops of two tensors, or of a tensor and a number.
#include "ops/op.h"

namespace torchport::ops {

// alpha * other, where alpha is nearly always 1.
static Value scaled(Builder& b, Args& a, const Value& other) {
  return a.is("alpha", 1) ? other : b.mul(other, a.number("alpha", other.dtype()));
}

OP("add.Tensor add.Scalar", Promote::same, "", kOpmath) { return b.add(a.tensor("self"), scaled(b, a, a.tensor("other"))); }
OP("sub.Tensor sub.Scalar", Promote::same, "", kOpmath) {
  a.check(!is_bool(a.dtype()), Code::bad_value, "must not get bool tensors; use ^ or logical_xor() instead");
  return b.sub(a.tensor("self"), scaled(b, a, a.tensor("other")));
}
OP("mul.Tensor mul.Scalar", Promote::same, "", kOpmath) { return b.mul(a.tensor("self"), a.tensor("other")); }
OP("div.Tensor div.Scalar", Promote::to_float, "", kOpmath) { return b.div(a.tensor("self"), a.tensor("other")); }

OP("eq.Tensor eq.Scalar", Promote::compare) { return b.eq(a.tensor("self"), a.tensor("other")); }

}  // namespace torchport::ops
