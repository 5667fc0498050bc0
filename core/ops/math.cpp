#include "ops/math.h"

#include <cmath>
#include <numbers>

namespace torchport::ops {

Value sign_bit(Builder& b, const Value& x) {
  if (is_unsigned(x.dtype()) || is_bool(x.dtype())) return b.constant(0, Dtype::b1, x.dims());
  if (!is_float(x.dtype())) return b.compare(Cmp::lt, x, 0);
  const size_t bytes = size_of(x.dtype());
  return b.compare(Cmp::lt,
                   b.bitcast(x, bytes == 8   ? Dtype::i64
                                : bytes == 4 ? Dtype::i32
                                : bytes == 2 ? Dtype::i16
                                             : Dtype::i8),
                   0);
}
Value is_infinite(Builder& b, const Value& x) {
  if (is_integral(x.dtype())) return b.constant(0, Dtype::b1, x.dims());
  if (is_complex(x.dtype())) return b.bit_or(is_infinite(b, b.real(x)), is_infinite(b, b.imag(x)));
  return b.compare(Cmp::eq, b.abs(x), INFINITY);
}
Value softplus(Builder& b, const Value& x) { return b.add(b.max(x, 0), b.log1p(b.exp(b.neg(b.abs(x))))); }
Value exp2(Builder& b, const Value& x) { return b.pow(b.constant(2, x.dtype()), x); }

// The pole at 0 has the sign of the side that it is approached from.
Value digamma(Builder& b, const Value& x) {
  const Value pole = b.select(sign_bit(b, x), b.like(x, INFINITY), b.like(x, -INFINITY));
  return b.select(b.compare(Cmp::eq, x, 0), pole, b.unary("chlo.digamma", x));
}

// Scaled complementary error function exp(x^2) erfc(x): the product where both factors are accurate, a continued
// fraction where the second underflows.
Value erfcx(Builder& b, const Value& x) {
  const Value far = b.max(x, 2);
  Value tail = far;
  for (int k = x.dtype() == Dtype::f64 ? 70 : 24; k >= 1; --k)
    tail = b.add(far, b.div(b.constant(k / 2.0, x.dtype()), tail));
  const Value large = b.div(b.constant(1 / std::sqrt(std::numbers::pi), x.dtype()), tail);
  const Value near = b.min(x, 2);
  const Value product = b.mul(b.exp(square(b, near)), b.unary("chlo.erfc", near));
  return b.select(b.compare(Cmp::gt, x, 2), large, product);
}

Value log_ndtr(Builder& b, const Value& x) {
  const Value t = b.mul(x, std::numbers::sqrt2 / 2);
  const Value low = b.min(t, -0.5), high = b.max(t, -1);
  const Value left = b.sub(b.log(b.mul(erfcx(b, b.neg(low)), 0.5)), square(b, low));
  const Value right = b.log1p(b.mul(b.unary("chlo.erfc", high), -0.5));
  return b.select(b.compare(Cmp::lt, x, -1), left, right);
}

// Inverse of the normal distribution: a closed guess for the smaller tail, then Newton steps on the logarithm, which is
// nearly quadratic there.
Value ndtri(Builder& b, const Value& p) {
  const Value upper = b.compare(Cmp::gt, p, 0.5), q = b.select(upper, b.rsub(1, p), p);
  const Value middle = b.mul(b.unary("chlo.erf_inv", b.rsub(1, b.mul(b.max(q, 0.01), 2))), -std::numbers::sqrt2);
  const Value log_q = b.log(q), t = b.sqrt(b.max(b.mul(log_q, -2), 1));
  const Value tail = b.sub(b.div(b.add(b.log(t), 0.5 * std::log(2 * std::numbers::pi)), t), t);
  Value x = b.select(b.compare(Cmp::lt, q, 0.01), tail, middle);
  for (int step = 0; step < 3; ++step) {
    const Value f = log_ndtr(b, x);
    const Value log_density = b.sub(b.mul(square(b, x), -0.5), 0.5 * std::log(2 * std::numbers::pi));
    x = b.sub(x, b.mul(b.sub(f, log_q), b.exp(b.sub(f, log_density))));
  }
  x = b.select(upper, b.neg(x), x);
  x = b.select(b.compare(Cmp::eq, p, 0), b.like(p, -INFINITY),
               b.select(b.compare(Cmp::eq, p, 1), b.like(p, INFINITY), x));
  const Value inside = b.bit_and(b.compare(Cmp::ge, p, 0), b.compare(Cmp::le, p, 1));
  return b.select(inside, x, b.nan(p.dtype(), p.dims()));
}

Value python_mod(Builder& b, const Value& x, const Value& y) {
  const Value r = b.rem(x, y);
  if (is_unsigned(x.dtype())) return r;
  const Value wrong = b.bit_and(b.compare(Cmp::ne, r, 0), b.ne(b.compare(Cmp::lt, r, 0), b.compare(Cmp::lt, y, 0)));
  return b.select(wrong, b.add(r, y), r);
}

Value floor_div(Builder& b, const Value& x, const Value& y) {
  if (is_unsigned(x.dtype())) return b.div(x, y);
  const Value r = b.rem(x, y);
  const Value below = b.bit_and(b.compare(Cmp::ne, r, 0), b.ne(b.compare(Cmp::lt, r, 0), b.compare(Cmp::lt, y, 0)));
  if (is_int(x.dtype())) {
    const Value q = b.div(x, y);
    return b.select(below, b.sub(q, 1), q);
  }
  // As PyTorch: the remainder is taken off first, so the quotient is whole up to rounding, then snapped to a whole
  // number.
  Value q = b.div(b.sub(x, r), y);
  q = b.select(below, b.sub(q, 1), q);
  const Value down = b.floor(q), snapped = b.select(b.compare(Cmp::gt, b.sub(q, down), 0.5), b.add(down, 1), down);
  const Value plain = b.div(x, y), zero = b.select(sign_bit(b, plain), b.like(plain, -0.0), b.like(plain, 0));
  const Value whole = b.select(b.compare(Cmp::eq, q, 0), zero, snapped);
  return b.select(b.compare(Cmp::eq, y, 0), plain, whole);
}

Value reduce_loss(Builder& b, Args& a, const Value& loss) {
  const int64_t kind = a.i("reduction");
  if (kind == 0) return loss;
  const Value sum = b.reduce_keep(Reduce::add, loss, {}, false);
  return kind == 2 ? sum : b.div(sum, static_cast<double>(loss.numel()));
}
double loss_scale(Args& a, const Value& x) {
  return a.i("reduction") == 1 ? 1.0 / static_cast<double>(x.numel()) : 1.0;
}

}  // namespace torchport::ops
