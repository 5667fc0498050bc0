// Softmax, its logarithm and their gradients; halves are computed in f32 and rounded once.
#include "ops/softmax.h"

namespace torchport::ops {

Value spread_over(Builder& b, const Value& reduced, const Value& x, int64_t dim) {
  Dims mapping;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) mapping.push_back(i);
  return b.broadcast_in_dim(reduced, x.dims(), mapping);
}
Value softmax(Builder& b, const Value& x, int64_t dim, bool safe) {
  if (x.rank() == 0) {
    const Value one = b.exp(b.sub(x, x));
    return safe ? b.select(b.eq(x, b.lowest(x.dtype())), b.like(x, 0), one) : one;
  }
  const Value top = b.reduce(Reduce::max, x, {dim});
  // a row that is -inf throughout gives NaN, or zeros when safe
  const Value base = safe ? b.select(b.eq(top, b.lowest(top.dtype(), top.dims())), b.like(top, 0), top) : top;
  const Value e = b.exp(b.sub(x, spread_over(b, base, x, dim)));
  const Value sum = b.reduce(Reduce::add, e, {dim});
  return b.div(e, spread_over(b, safe ? b.select(b.compare(Cmp::eq, sum, 0.0), b.like(sum, 1), sum) : sum, x, dim));
}
Value softmax_backward(Builder& b, const Value& grad, const Value& y, int64_t dim) {
  if (y.rank() == 0) return b.mul(y, b.sub(grad, grad));
  return b.mul(y, b.sub(grad, spread_over(b, b.reduce(Reduce::add, b.mul(grad, y), {dim}), y, dim)));
}

static Value input(Builder& b, Args& a, const Value& x) {
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point numbers, got ", text(x.type())));
  return b.cast(x, opmath(x.dtype()));
}
static Dtype result(Args& a, const Value& x) {
  if (!a.flag("half_to_float")) return x.dtype();
  a.check(x.dtype() == Dtype::f16 || x.dtype() == Dtype::bf16, Code::bad_value,
          str("half_to_float must get f16 or bf16, got ", text(x.type())));
  return Dtype::f32;
}

OP("_softmax") {
  const Value x = a.tensor("self");
  return b.cast(softmax(b, input(b, a, x), a.dim("dim", x), false), result(a, x));
}
OP("_safe_softmax") {
  const Value self = a.tensor("self"), x = b.cast(self, a.dtype("dtype", self.dtype()));
  return b.cast(softmax(b, input(b, a, x), a.dim("dim", x), true), x.dtype());
}
OP("_log_softmax") {
  const Value x = a.tensor("self"), w = input(b, a, x);
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return b.cast(b.sub(w, w), result(a, x));
  const Value shifted = b.sub(w, spread_over(b, b.reduce(Reduce::max, w, {dim}), w, dim));
  const Value sum = b.log(b.reduce(Reduce::add, b.exp(shifted), {dim}));
  return b.cast(b.sub(shifted, spread_over(b, sum, w, dim)), result(a, x));
}
OP("_softmax_backward_data") {
  const Value g = a.tensor("grad_output"), y = a.tensor("output");
  const Dtype d = opmath(g.dtype());
  return b.cast(softmax_backward(b, b.cast(g, d), b.cast(y, d), a.dim("dim", y)), a.dtype("input_dtype", g.dtype()));
}
OP("_log_softmax_backward_data") {
  const Value g = a.tensor("grad_output"), y = a.tensor("output");
  const int64_t dim = a.dim("dim", y);
  const Dtype d = opmath(g.dtype());
  const Value gw = b.cast(g, d), yw = b.cast(y, d);
  const Value sum = y.rank() == 0 ? gw : spread_over(b, b.reduce(Reduce::add, gw, {dim}), gw, dim);
  return b.cast(b.sub(gw, b.mul(b.exp(yw), sum)), a.dtype("input_dtype", g.dtype()));
}

// mask: true where an element is left out. A [B, L] mask has mask_type 1 (padding: over [B, heads, T, L]), [T, L] has
// 0.
static Value full_mask(Builder& b, Args& a, const Value& x) {
  const Value mask = a.tensor("mask");
  a.check(is_bool(mask.dtype()), Code::bad_value, str("mask must be bool, got ", text(mask.type())));
  if (mask.dims() == x.dims()) return mask;
  const int64_t type = a.has("mask_type") ? a.i("mask_type") : 2;
  if (type == 1) return b.broadcast_in_dim(mask, x.dims(), {0, x.rank() - 1});
  return b.broadcast_to(mask, x.dims());
}
OP("_masked_softmax") {
  const Value x = a.tensor("self"), w = input(b, a, x);
  const int64_t dim = wrap_dim(a.i("dim", x.rank() - 1), x.rank(), a.where());
  const Value mask = full_mask(b, a, x);
  const Value kept = b.select(mask, b.lowest(w.dtype(), w.dims()), w);
  return b.cast(softmax(b, kept, dim, false), x.dtype());
}
OP("_masked_softmax_backward") {
  const Value g = a.tensor("grad_output"), y = a.tensor("output"), mask = b.broadcast_to(a.tensor("mask"), y.dims());
  const int64_t dim = wrap_dim(a.i("dim", y.rank() - 1), y.rank(), a.where());
  const Dtype d = opmath(g.dtype());
  const Value zero = b.constant(0, d, y.dims());
  const Value gw = b.select(mask, zero, b.cast(g, d)), yw = b.select(mask, zero, b.cast(y, d));
  return b.cast(softmax_backward(b, gw, yw, dim), g.dtype());
}

}  // namespace torchport::ops
