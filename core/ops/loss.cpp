// Elementwise losses and their derivatives; class losses are in class_loss.cpp.
#include <cmath>

#include "ops/math.h"

namespace torchport::ops {

static void expect_float(Args& a) {
  a.check(!is_integral(a.dtype()), Code::dtype_unsupported,
          str("must get floating point tensors, got ", name(a.dtype())));
}
// The gradient that reaches one element: grad_output, over n for a mean.
static Value incoming(Builder& b, Args& a, const Value& x) {
  const double scale = loss_scale(a, x);
  const Value g = a.tensor("grad_output");
  return scale == 1 ? g : b.mul(g, scale);
}
static Value difference(Builder& b, Args& a) { return b.sub(a.tensor("self"), a.tensor("target")); }

OP("mse_loss", Promote::same, "", kOpmath) {
  expect_float(a);
  return reduce_loss(b, a, square(b, difference(b, a)));
}
OP("mse_loss_backward", Promote::same, "", kOpmath) {
  const Value d = difference(b, a);
  return b.mul(b.mul(d, 2), incoming(b, a, d));
}

OP("smooth_l1_loss", Promote::same, "", kOpmath) {
  const double beta = a.f("beta");
  a.check(beta >= 0, Code::bad_value, str("beta must be at least 0, got ", beta));
  const Value z = b.abs(difference(b, a));
  if (beta == 0) return reduce_loss(b, a, z);
  return reduce_loss(b, a,
                     b.select(b.compare(Cmp::lt, z, beta), b.mul(square(b, z), 0.5 / beta), b.sub(z, 0.5 * beta)));
}
OP("smooth_l1_loss_backward", Promote::same, "", kOpmath) {
  const double beta = a.f("beta");
  const Value d = difference(b, a), g = incoming(b, a, d);
  if (beta == 0) return b.mul(b.sign(d), g);
  return b.mul(g, b.clamp(b.constant(-1, d.dtype()), b.div(d, beta), b.constant(1, d.dtype())));
}
OP("huber_loss", Promote::same, "", kOpmath) {
  const double delta = a.f("delta");
  a.check(delta > 0, Code::bad_value, str("delta must be above 0, got ", delta));
  const Value z = b.abs(difference(b, a));
  return reduce_loss(
      b, a, b.select(b.compare(Cmp::le, z, delta), b.mul(square(b, z), 0.5), b.mul(b.sub(z, 0.5 * delta), delta)));
}
OP("huber_loss_backward", Promote::same, "", kOpmath) {
  const double delta = a.f("delta");
  const Value d = difference(b, a);
  return b.mul(incoming(b, a, d), b.clamp(b.constant(-delta, d.dtype()), d, b.constant(delta, d.dtype())));
}
OP("soft_margin_loss", Promote::same, "", kOpmath) {
  return reduce_loss(b, a, softplus(b, b.neg(b.mul(a.tensor("self"), a.tensor("target")))));
}
OP("soft_margin_loss_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), t = a.tensor("target");
  return b.mul(incoming(b, a, x), b.neg(b.mul(t, b.sigmoid(b.neg(b.mul(x, t))))));
}

static Value weighted(Builder& b, Args& a, const Value& loss) {
  return a.has("weight") ? b.mul(loss, a.tensor("weight")) : loss;
}
// Logarithms are cut at -100, as in PyTorch, so that a wrong certain answer costs a finite amount.
OP("binary_cross_entropy", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self"), t = a.tensor("target");
  a.check(x.dims() == t.dims(), Code::bad_value,
          str("target must have the input's size ", text(x.dims()), ", got ", text(t.dims())));
  a.require(b.bit_and(b.compare(Cmp::ge, x, 0), b.compare(Cmp::le, x, 1)), Code::bad_value,
            "must get an input with all elements between 0 and 1");
  const Value yes = b.max(b.log(x), -100), no = b.max(b.log1p(b.neg(x)), -100);
  return reduce_loss(b, a, weighted(b, a, b.sub(b.mul(b.sub(t, 1), no), b.mul(t, yes))));
}
OP("binary_cross_entropy_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), t = a.tensor("target");
  const Value d = b.div(b.sub(x, t), b.max(b.mul(b.rsub(1, x), x), 1e-12));
  return weighted(b, a, b.mul(incoming(b, a, x), d));
}
OP("binary_cross_entropy_with_logits", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), t = a.tensor("target");
  a.check(x.dims() == t.dims(), Code::bad_value,
          str("target must have the input's size ", text(x.dims()), ", got ", text(t.dims())));
  Value yes = softplus(b, b.neg(x));
  if (a.has("pos_weight")) yes = b.mul(yes, b.add(b.mul(b.sub(a.tensor("pos_weight"), 1), t), 1));
  return reduce_loss(b, a, weighted(b, a, b.add(b.mul(b.rsub(1, t), x), yes)));
}

}  // namespace torchport::ops
