// Elementwise functions that several families share. All take and give real floating point unless they say otherwise.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// Casts a half to f32; everything else stays.
inline Value widen(Builder& b, const Value& x) { return b.cast(x, opmath(x.dtype())); }
inline Value square(Builder& b, const Value& x) { return b.mul(x, x); }
// x where it is not negative, ceil below zero.
inline Value truncate(Builder& b, const Value& x) { return b.select(b.compare(Cmp::lt, x, 0), b.ceil(x), b.floor(x)); }
// i1: the sign bit, so -0.0 and -nan count as negative.
Value sign_bit(Builder&, const Value&);
// i1: infinite (complex: either part).
Value is_infinite(Builder&, const Value&);
Value softplus(Builder&, const Value&);  // log(1 + exp(x)) without overflow
Value exp2(Builder&, const Value&);

Value digamma(Builder&, const Value&);
Value erfcx(Builder&, const Value&);
Value log_ndtr(Builder&, const Value&);
Value ndtri(Builder&, const Value&);

// Fmod with the sign of the divisor; quotients rounded down.
Value python_mod(Builder&, const Value& x, const Value& y);
Value floor_div(Builder&, const Value& x, const Value& y);

// Mean (1), sum (2) or nothing (0): the `reduction` of the losses.
Value reduce_loss(Builder&, Args&, const Value& loss);
// What one element's gradient is scaled by: 1/n for the mean.
double loss_scale(Args&, const Value& x);

}  // namespace torchport::ops
