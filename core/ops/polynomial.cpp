// Orthogonal polynomials by their three-term recurrences. The degree is an operand: one program serves them all.
#include <cmath>

#include "ops/math.h"

namespace torchport::ops {

namespace {

struct Point {
  Value x, n;  // broadcast to one shape; n whole
};
Point point(Builder& b, Args& a) {
  const Value x = a.tensor("x"), n = a.tensor("n");
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get real tensors, got complex ones");
  const Dims dims = broadcast(x.dims(), n.dims(), a.where());
  return {b.broadcast_to(x, dims), truncate(b, b.broadcast_to(n, dims))};
}
Value is_even(Builder& b, const Value& n) { return b.compare(Cmp::eq, b.rem(n, b.constant(2, n.dtype())), 0); }

// P_0 = 1, P_1 = first, then next(k, P_k-1, P_k) = P_k+1, until every element has reached its degree.
Value recur(Builder& b, const Point& at, const Value& first, const Value& stop,
            const std::function<Value(const Value& k, const Value& p, const Value& q)>& next) {
  const Dtype d = at.x.dtype();
  if (at.x.numel() == 0) return at.x;
  const Value last = b.reduce_keep(Reduce::max, b.select(stop, b.like(at.n, 0), at.n), {}, false);
  auto more = [&](const Values& v) { return Values{b.lt(v[0], last)}; };
  auto step = [&](const Values& v) {
    const Value live = b.bit_and(b.lt(v[0], at.n), b.logical_not(stop));
    const Value r = next(v[0], v[1], v[2]);
    return Values{b.add(v[0], 1), b.select(live, v[2], v[1]), b.select(live, r, v[2])};
  };
  const Value q = b.while_loop({b.constant(1, d), b.like(at.x, 1), first}, more, step)[2];
  const Value low = b.select(b.compare(Cmp::eq, at.n, 0), b.like(q, 1), q);
  return b.select(b.compare(Cmp::lt, at.n, 0), b.like(q, 0), low);
}

enum class Kind { t, u, v, w };
// Inside (-1, 1) high degrees come from the angle, as in PyTorch; at the ends the values are whole numbers.
Value chebyshev(Builder& b, Args& a, Kind kind, bool shifted) {
  Point at = point(b, a);
  const Value n = at.n;
  if (shifted) at.x = b.sub(b.mul(at.x, 2), 1);
  const Value x = at.x, size = b.abs(x), one = b.like(x, 1);
  const Value end = b.compare(Cmp::eq, size, 1), inside = b.compare(Cmp::lt, size, 1), right = b.compare(Cmp::gt, x, 0);
  const Value by_angle = b.bit_and(inside, b.compare(Cmp::gt, n, kind == Kind::t ? 6 : 8));
  const Value sign = b.select(b.bit_or(right, is_even(b, n)), one, b.neg(one)), odd = b.add(b.mul(n, 2), 1);
  const Value angle = b.unary("chlo.acos", b.clamp(b.constant(-1, x.dtype()), x, b.constant(1, x.dtype())));
  const Value half = b.mul(angle, 0.5), shifted_angle = b.mul(b.add(n, kind == Kind::u ? 1 : 0.5), angle);
  Value trig, ends, first = b.mul(x, 2);
  switch (kind) {
    case Kind::t: trig = b.cos(b.mul(n, angle)), ends = sign, first = x; break;
    case Kind::u: trig = b.div(b.sin(shifted_angle), b.sin(angle)), ends = b.mul(sign, b.add(n, 1)); break;
    case Kind::v:
      trig = b.div(b.cos(shifted_angle), b.cos(half)), ends = b.select(right, one, b.mul(sign, odd)),
      first = b.sub(first, 1);
      break;
    case Kind::w:
      trig = b.div(b.sin(shifted_angle), b.sin(half)), ends = b.select(right, odd, sign), first = b.add(first, 1);
      break;
  }
  const Value r = recur(b, at, first, b.bit_or(end, by_angle),
                        [&](const Value&, const Value& p, const Value& q) { return b.sub(b.mul(b.mul(x, 2), q), p); });
  const Value closed = b.select(end, ends, b.select(by_angle, trig, r));
  return b.select(b.compare(Cmp::lt, n, 0), b.like(x, 0), closed);
}
// Degrees above this overflow on the way; PyTorch gives NaN there.
Value up_to_limit(Builder& b, const Point& at, const Value& r) {
  return b.select(b.compare(Cmp::gt, at.n, at.x.dtype() == Dtype::f64 ? 512 : 128), b.nan(r.dtype(), r.dims()), r);
}
Value hermite(Builder& b, Args& a, double factor) {  // 2: physicists', 1: probabilists'
  const Point at = point(b, a);
  const Value x = b.mul(at.x, factor), stop = b.compare(Cmp::gt, at.n, at.x.dtype() == Dtype::f64 ? 512 : 128);
  return up_to_limit(b, at, recur(b, at, x, stop, [&](const Value& k, const Value& p, const Value& q) {
                       return b.sub(b.mul(x, q), b.mul(b.mul(k, factor), p));
                     }));
}
Value never(Builder& b, const Point& at) { return b.constant(0, Dtype::b1, at.x.dims()); }

}  // namespace

#define POLYNOMIAL(NAME, ...) \
  OP(NAME " " NAME ".x_scalar " NAME ".n_scalar", Promote::to_float, "x+ n+") { return __VA_ARGS__; }

POLYNOMIAL("special_chebyshev_polynomial_t", chebyshev(b, a, Kind::t, false))
POLYNOMIAL("special_chebyshev_polynomial_u", chebyshev(b, a, Kind::u, false))
POLYNOMIAL("special_chebyshev_polynomial_v", chebyshev(b, a, Kind::v, false))
POLYNOMIAL("special_chebyshev_polynomial_w", chebyshev(b, a, Kind::w, false))
POLYNOMIAL("special_shifted_chebyshev_polynomial_t", chebyshev(b, a, Kind::t, true))
POLYNOMIAL("special_shifted_chebyshev_polynomial_u", chebyshev(b, a, Kind::u, true))
POLYNOMIAL("special_shifted_chebyshev_polynomial_v", chebyshev(b, a, Kind::v, true))
POLYNOMIAL("special_shifted_chebyshev_polynomial_w", chebyshev(b, a, Kind::w, true))
POLYNOMIAL("special_hermite_polynomial_h", hermite(b, a, 2))
POLYNOMIAL("special_hermite_polynomial_he", hermite(b, a, 1))

OP("special_laguerre_polynomial_l special_laguerre_polynomial_l.x_scalar special_laguerre_polynomial_l.n_scalar",
   Promote::to_float, "x+ n+") {
  const Point at = point(b, a);
  return recur(b, at, b.rsub(1, at.x), never(b, at), [&](const Value& k, const Value& p, const Value& q) {
    const Value lead = b.sub(b.add(b.mul(k, 2), 1), at.x);
    return b.div(b.sub(b.mul(lead, q), b.mul(k, p)), b.add(k, 1));
  });
}
OP("special_legendre_polynomial_p special_legendre_polynomial_p.x_scalar special_legendre_polynomial_p.n_scalar",
   Promote::to_float, "x+ n+") {
  const Point at = point(b, a);
  return recur(b, at, at.x, never(b, at), [&](const Value& k, const Value& p, const Value& q) {
    const Value lead = b.mul(b.add(b.mul(k, 2), 1), at.x);
    return b.div(b.sub(b.mul(lead, q), b.mul(k, p)), b.add(k, 1));
  });
}

}  // namespace torchport::ops
