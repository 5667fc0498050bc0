// Softmax, its logarithm and their derivatives.
#include <cmath>

#include "ops/math.h"
#include "ops/reduce.h"

namespace torchport::ops {

namespace {

struct Shifted {
  Value x;  // minus its maximum
  int64_t dim = 0;
};
Shifted shifted(Builder& b, Args& a) {
  const Value x = widen(b, a.tensor("self"));
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get a floating point tensor, got ", name(x.dtype())));
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return {b.sub(x, x), -1};
  return {b.sub(x, b.reduce_keep(Reduce::max, x, {dim}, true)), dim};
}
Value sum(Builder& b, const Value& x, int64_t dim) { return dim < 0 ? x : b.reduce_keep(Reduce::add, x, {dim}, true); }
// half_to_float asks for an f32 result of an f16 input.
Dtype output_dtype(Args& a) { return a.flag("half_to_float") ? Dtype::f32 : a.tensor("self").dtype(); }
int64_t back_dim(Args& a, const Value& x) { return x.rank() == 0 ? -1 : a.dim("dim", x); }

}  // namespace

OP("_softmax") {
  const Shifted s = shifted(b, a);
  const Value e = b.exp(s.x);
  return b.cast(b.div(e, sum(b, e, s.dim)), output_dtype(a));
}
OP("_log_softmax") {
  const Shifted s = shifted(b, a);
  return b.cast(b.sub(s.x, b.log(sum(b, b.exp(s.x), s.dim))), output_dtype(a));
}
OP("_softmax_backward_data") {
  const Value g = widen(b, a.tensor("grad_output")), y = b.cast(a.tensor("output"), g.dtype()), gy = b.mul(g, y);
  return b.cast(b.sub(gy, b.mul(y, sum(b, gy, back_dim(a, g)))), a.dtype("input_dtype", g.dtype()));
}
OP("_log_softmax_backward_data") {
  const Value g = widen(b, a.tensor("grad_output")), y = b.cast(a.tensor("output"), g.dtype());
  return b.cast(b.sub(g, b.mul(b.exp(y), sum(b, g, back_dim(a, g)))), a.dtype("input_dtype", g.dtype()));
}

// Rows that hold nothing but -inf give zeros.
OP("_safe_softmax") {
  const Value self = a.tensor("self");
  const Dtype d = a.dtype("dtype", self.dtype());
  const Value x = widen(b, b.cast(self, d));
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return b.cast(b.select(b.compare(Cmp::eq, x, -INFINITY), b.like(x, 0), b.like(x, 1)), d);
  const Value top = b.reduce_keep(Reduce::max, x, {dim}, true);
  const Value e = b.exp(b.sub(x, top)), empty = b.compare(Cmp::eq, top, -INFINITY);
  return b.cast(b.select(empty, b.like(x, 0), b.div(e, sum(b, e, dim))), d);
}

}  // namespace torchport::ops
