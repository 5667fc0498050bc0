// Special functions with a closed or short iterative form; Bessel's and Airy's are in bessel.cpp.
#include <cmath>
#include <numbers>

#include "ops/math.h"

namespace torchport::ops {

#define SPECIAL(NAME, ...)                   \
  OP(NAME, Promote::to_float, "", kOpmath) { \
    const Value x = a.tensor("self");        \
    return __VA_ARGS__;                      \
  }

SPECIAL("special_erfcx", erfcx(b, x))
SPECIAL("special_log_ndtr", log_ndtr(b, x))
SPECIAL("special_ndtri", ndtri(b, x))

OP("special_entr", Promote::to_float, "", kOpmath) {
  const Value x = a.tensor("self"), zero = b.like(x, 0);
  const Value inside = b.select(b.compare(Cmp::eq, x, 0), zero, b.neg(b.mul(x, b.log(x))));
  return b.select(b.compare(Cmp::lt, x, 0), b.like(x, -INFINITY), inside);
}

// Hurwitz' zeta function with PyTorch's edges: poles at x = 1 and at q = 0, -1, -2, ..., nothing left of x = 1. The
// compiler's series needs q > 0, so the terms before that are summed one by one.
static Value zeta(Builder& b, const Value& power, const Value& start) {
  const Dims dims = broadcast(power.dims(), start.dims(), b.where);
  const Value x = b.broadcast_to(power, dims), q = b.broadcast_to(start, dims);
  if (x.numel() == 0) return x;
  constexpr double kFarthest = 20000;  // steps: a bound on the time that one element may cost
  auto more = [&](const Values& v) {
    const Value left = b.reduce_keep(Reduce::any, b.compare(Cmp::le, v[1], 0), {}, false);
    return Values{b.bit_and(left, b.compare(Cmp::lt, v[0], kFarthest))};
  };
  auto step = [&](const Values& v) {
    const Value left = b.compare(Cmp::le, v[1], 0), term = b.pow(v[1], b.neg(x));
    return Values{b.add(v[0], 1), b.select(left, b.add(v[1], 1), v[1]), b.select(left, b.add(v[2], term), v[2])};
  };
  const Values shifted = b.while_loop({b.constant(0, Dtype::i32), q, b.like(x, 0)}, more, step);
  const Value r = b.add(shifted[2], b.binary("chlo.zeta", x, shifted[1]));
  const Value pole = b.bit_and(b.compare(Cmp::le, q, 0), b.eq(q, b.floor(q)));
  const Value right = b.select(b.bit_or(b.compare(Cmp::eq, x, 1), pole), b.like(r, INFINITY), r);
  return b.select(b.compare(Cmp::lt, x, 1), b.nan(r.dtype(), dims), right);
}
OP("special_zeta special_zeta.self_scalar special_zeta.other_scalar", Promote::to_float, "", kOpmath) {
  return zeta(b, a.tensor("self"), a.tensor("other"));
}

OP("polygamma", Promote::to_float, "", kOpmath) {
  const int64_t n = a.i("n");
  a.check(n >= 0, Code::bad_value, str("n must be at least 0 (negative n is not supported), got ", n));
  const Value x = a.tensor("self");
  if (n == 0) return digamma(b, x);
  if (n > 1) {
    const double factorial = std::tgamma(static_cast<double>(n) + 1);
    return b.mul(zeta(b, b.constant(static_cast<double>(n) + 1, x.dtype()), x), n % 2 ? factorial : -factorial);
  }
  // The first derivative is reflected to the right half; PyTorch does so for this one only.
  const Value left = b.compare(Cmp::lt, x, 0.5);
  const Value right = b.binary("chlo.polygamma", b.like(x, 1), b.select(left, b.rsub(1, x), x));
  const Value sine = b.sin(b.mul(x, std::numbers::pi));
  const Value both = b.div(b.constant(std::numbers::pi * std::numbers::pi, x.dtype()), square(b, sine));
  return b.select(left, b.sub(both, right), right);
}

// log of the multivariate gamma function: log Gamma at x, x - 1/2, ..., x - (p - 1)/2, and p (p - 1)/4 log pi.
OP("mvlgamma", Promote::to_float, "", kOpmath) {
  const int64_t p = a.i("p");
  a.check(p >= 1, Code::bad_value, str("p has to be greater than or equal to 1, got ", p));
  const Value x = a.tensor("self");
  Value sum = b.like(x, 0.25 * static_cast<double>(p * (p - 1)) * std::log(std::numbers::pi));
  for (int64_t i = 0; i < p; ++i) sum = b.add(sum, b.unary("chlo.lgamma", b.sub(x, 0.5 * static_cast<double>(i))));
  return sum;
}

namespace {

// Repeats a step on per-element state until `live` (the last value, i1) is false everywhere.
Values until_done(Builder& b, const Values& init, const Body& step) {
  auto more = [&](const Values& v) { return Values{b.reduce_keep(Reduce::any, v.back(), {}, false)}; };
  return b.while_loop(init, more, step);
}
double epsilon(Dtype d) { return d == Dtype::f64 ? 1.1e-16 : 6e-8; }

// The regularised incomplete gamma functions P (lower) and Q (upper), each by the expansion that converges there: a
// power series left of x = a + 1, Legendre's continued fraction (by Lentz' method) right of it.
Value gamma_series(Builder& b, const Value& a, const Value& x) {
  auto step = [&](const Values& v) {  // n, term, sum, live
    const Value n = b.add(v[0], 1), term = b.mul(v[1], b.div(x, n)), sum = b.add(v[2], term);
    const Value small = b.le(b.abs(term), b.mul(b.abs(sum), epsilon(x.dtype())));
    const Value live = b.bit_and(v[3], b.logical_not(b.bit_or(small, b.is_nan(term))));
    return Values{n, b.select(v[3], term, v[1]), b.select(v[3], sum, v[2]), live};
  };
  const Value live = b.constant(1, Dtype::b1, x.dims());
  return b.div(until_done(b, {a, b.like(x, 1), b.like(x, 1), live}, step)[2], a);
}
Value gamma_fraction(Builder& b, const Value& a, const Value& x) {
  const double tiny = x.dtype() == Dtype::f64 ? 1e-300 : 1e-30;
  auto nonzero = [&](const Value& v) { return b.select(b.compare(Cmp::lt, b.abs(v), tiny), b.like(v, tiny), v); };
  auto step = [&](const Values& v) {  // k, base, c, d, h, live
    const Value k = b.add(v[0], 1), base = b.add(v[1], 2), numerator = b.neg(b.mul(k, b.sub(k, a)));
    const Value d = b.div(b.like(x, 1), nonzero(b.add(b.mul(numerator, v[3]), base)));
    const Value c = nonzero(b.add(base, b.div(numerator, v[2]))), factor = b.mul(c, d), h = b.mul(v[4], factor);
    const Value small = b.compare(Cmp::le, b.abs(b.sub(factor, 1)), 2 * epsilon(x.dtype()));
    const Value live =
        b.bit_and(v[5], b.logical_not(b.bit_or(small, b.bit_or(b.is_nan(factor), b.compare(Cmp::gt, k, 5000)))));
    return Values{k, base, c, d, b.select(v[5], h, v[4]), live};
  };
  const Value base = b.add(b.sub(x, a), 1), d = b.div(b.like(x, 1), nonzero(base));
  return until_done(b, {b.like(x, 0), base, b.like(x, 1 / tiny), d, d, b.constant(1, Dtype::b1, x.dims())}, step)[4];
}

Value incomplete_gamma(Builder& b, Args& args, bool upper) {
  const Value self = args.tensor("self"), other = args.tensor("other");
  args.check(is_float(self.dtype()), Code::dtype_unsupported,
             str("must get floating point tensors, got ", name(self.dtype())));
  const Dims dims = broadcast(self.dims(), other.dims(), args.where());
  const Value a = b.broadcast_to(self, dims), x = b.broadcast_to(other, dims);
  if (x.numel() == 0) return x;
  const Value one = b.like(x, 1), zero = b.like(x, 0);
  const Value usual = b.bit_and(b.bit_and(b.compare(Cmp::gt, a, 0), b.compare(Cmp::gt, x, 0)),
                                b.bit_and(b.is_finite(a), b.is_finite(x)));
  const Value left = b.lt(x, b.add(a, 1));
  // Elements that belong to the other expansion run it on a harmless point.
  const Value sa = b.select(b.bit_and(usual, left), a, one), sx = b.select(b.bit_and(usual, left), x, one);
  const Value fa = b.select(b.bit_and(usual, b.logical_not(left)), a, one),
              fx = b.select(b.bit_and(usual, b.logical_not(left)), x, b.like(x, 3));
  auto weight = [&](const Value& s, const Value& y) {
    return b.exp(b.sub(b.sub(b.mul(s, b.log(y)), y), b.unary("chlo.lgamma", s)));
  };
  const Value lower_p = b.mul(gamma_series(b, sa, sx), weight(sa, sx)),
              upper_q = b.mul(gamma_fraction(b, fa, fx), weight(fa, fx));
  Value r = upper ? b.select(left, b.rsub(1, lower_p), upper_q) : b.select(left, lower_p, b.rsub(1, upper_q));
  // The edges: P(a, 0) = 0, P(0, x) = 1, P(a, inf) = 1, P(inf, x) = 0; both zero or infinite, or negative, have no
  // value.
  const Value bad =
      b.bit_or(b.bit_or(b.compare(Cmp::lt, a, 0), b.compare(Cmp::lt, x, 0)), b.bit_or(b.is_nan(a), b.is_nan(x)));
  const Value a0 = b.compare(Cmp::eq, a, 0), x0 = b.compare(Cmp::eq, x, 0);
  const Value ai = b.compare(Cmp::eq, a, INFINITY), xi = b.compare(Cmp::eq, x, INFINITY);
  const Value is_one = b.bit_or(a0, xi), is_zero = b.bit_or(x0, ai);
  r = b.select(is_one, upper ? zero : one, b.select(is_zero, upper ? one : zero, r));
  return b.select(b.bit_or(bad, b.bit_and(is_one, is_zero)), b.nan(x.dtype(), dims), r);
}

}  // namespace

OP("igamma", Promote::same, "", kOpmath) { return incomplete_gamma(b, a, false); }
OP("igammac", Promote::same, "", kOpmath) { return incomplete_gamma(b, a, true); }

}  // namespace torchport::ops
