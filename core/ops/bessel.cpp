// Bessel and Airy functions from their integrals. The integrands are smooth and periodic or die out, so the trapezoidal
// rule converges exponentially and needs no tables; far from 0 the asymptotic series take over.
#include <cmath>
#include <numbers>

#include "ops/math.h"

namespace torchport::ops {

namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kEuler = std::numbers::egamma;
constexpr int kCircle = 128;  // points on the circle; exact to double precision for |x| <= kFar
constexpr double kFar = 25;

// sum over points t of one quarter circle of weight(t) * f(t): by symmetry four times that is the circle.
struct Quadrature {
  std::vector<double> points, weights;
};
Quadrature quarter(double (*weight)(double)) {
  Quadrature q;
  for (int j = 0; j < kCircle / 4; ++j) {
    const double t = (j + 0.5) * 2 * kPi / kCircle;
    q.points.push_back(t), q.weights.push_back(weight(t) * 4 / kCircle);
  }
  return q;
}
// sum_j weights[j] * f(x, points[j]) over a new last dimension.
Value integrate(Builder& b, const Value& x, const std::vector<double>& points, const std::vector<double>& weights,
                const std::function<Value(const Value& x, const Value& point)>& f) {
  const Value y = f(b.unsqueeze(x, x.rank()), b.constants(points, x.dtype()));
  const Value terms = b.mul(y, b.constants(weights, x.dtype()));
  return b.reduce(Reduce::add, terms, {x.rank()});
}
std::vector<double> map(const std::vector<double>& v, double (*f)(double)) {
  std::vector<double> out;
  for (double e : v) out.push_back(f(e));
  return out;
}
double sin1(double t) { return std::sin(t); }
double cos1(double t) { return std::cos(t); }
double one(double) { return 1; }
double sin2(double t) { return std::sin(t) * std::sin(t); }

// Near 0: J0 = mean of cos(x sin t), J1 = x * mean of cos(x cos t) sin^2 t.
Value j0_near(Builder& b, const Value& x) {
  const Quadrature q = quarter(one);
  return integrate(b, x, map(q.points, sin1), q.weights,
                   [&](const Value& v, const Value& p) { return b.cos(b.mul(v, p)); });
}
Value j1_near(Builder& b, const Value& x) {
  const Quadrature q = quarter(sin2);
  return b.mul(x, integrate(b, x, map(q.points, cos1), q.weights,
                            [&](const Value& v, const Value& p) { return b.cos(b.mul(v, p)); }));
}
// Neumann's series of Y0 sums J_2k(x) (-1)^k / k; under the integral it becomes one weight a point.
double neumann(double t) {
  double w = 0;
  for (int k = 1; k <= kCircle / 4; ++k) w += (k % 2 ? -1.0 : 1.0) * std::cos(2 * k * t) / k;
  return w;
}
double neumann_sin(double t) { return neumann(t) * std::sin(t); }
Value log_half(Builder& b, const Value& x) { return b.add(b.log(b.mul(x, 0.5)), kEuler); }
Value y0_near(Builder& b, const Value& x) {
  const Quadrature q = quarter(neumann);
  const Value sum = integrate(b, x, map(q.points, sin1), q.weights,
                              [&](const Value& v, const Value& p) { return b.cos(b.mul(v, p)); });
  return b.sub(b.mul(b.mul(log_half(b, x), j0_near(b, x)), 2 / kPi), b.mul(sum, 4 / kPi));
}
Value y1_near(Builder& b, const Value& x) {
  const Quadrature q = quarter(neumann_sin);
  const Value sum = integrate(b, x, map(q.points, sin1), q.weights,
                              [&](const Value& v, const Value& p) { return b.sin(b.mul(v, p)); });
  const Value regular = b.sub(b.mul(log_half(b, x), j1_near(b, x)), b.div(j0_near(b, x), x));
  return b.sub(b.mul(regular, 2 / kPi), b.mul(sum, 4 / kPi));
}

// Hankel's expansion for large x: P and Q, the even and odd terms of a_k / x^k, and the phase.
struct Hankel {
  Value even, odd, size, cosine, sine;
};
Hankel hankel(Builder& b, const Value& x, int order) {
  double a = 1;
  std::vector<double> c{1};
  for (int k = 1; k <= 18; ++k) c.push_back(a *= (4.0 * order * order - (2 * k - 1) * (2 * k - 1)) / (8.0 * k));
  auto series = [&](int first) {
    const Value z = b.div(b.like(x, -1), square(b, x));  // alternating signs
    Value s = b.like(x, c[first + 16]);
    for (int k = first + 14; k >= first; k -= 2) s = b.add(b.mul(s, z), c[k]);
    return s;
  };
  // cos and sin of x - (order/2 + 1/4) pi from those of x, so that no digits of the angle are lost
  const Value s = b.sin(x), k = b.cos(x);
  const double h = std::numbers::sqrt2 / 2;
  const Value sum = b.mul(b.add(s, k), h), diff = b.mul(b.sub(s, k), h);
  const Value cosine = order == 0 ? sum : diff, sine = order == 0 ? diff : b.neg(sum);
  return {series(0), b.div(series(1), x), b.sqrt(b.div(b.constant(2 / kPi, x.dtype()), x)), cosine, sine};
}
Value j_far(Builder& b, const Hankel& h) { return b.mul(h.size, b.sub(b.mul(h.even, h.cosine), b.mul(h.odd, h.sine))); }
Value y_far(Builder& b, const Hankel& h) { return b.mul(h.size, b.add(b.mul(h.even, h.sine), b.mul(h.odd, h.cosine))); }

Value near_or_far(Builder& b, const Value& size, const std::function<Value(const Value&)>& near,
                  const std::function<Value(const Value&)>& far) {
  const Value r = b.select(b.compare(Cmp::le, size, kFar), near(b.min(size, kFar)), far(b.max(size, kFar)));
  return b.select(b.is_nan(size), size, r);
}
Value bessel_j(Builder& b, const Value& x, int order) {
  const Value size = b.abs(x);
  const Value r = near_or_far(
      b, size, [&](const Value& v) { return order == 0 ? j0_near(b, v) : j1_near(b, v); },
      [&](const Value& v) { return j_far(b, hankel(b, v, order)); });
  const Value finite = b.select(is_infinite(b, x), b.like(x, 0), r);
  return order == 0 ? finite : b.select(b.compare(Cmp::lt, x, 0), b.neg(finite), finite);
}
Value bessel_y(Builder& b, const Value& x, int order) {
  const Value r = near_or_far(
      b, x, [&](const Value& v) { return order == 0 ? y0_near(b, v) : y1_near(b, v); },
      [&](const Value& v) { return y_far(b, hankel(b, v, order)); });
  const Value finite = b.select(is_infinite(b, x), b.like(x, 0), r);
  const Value zero = b.select(b.compare(Cmp::eq, x, 0), b.like(x, -INFINITY), finite);
  return b.select(b.compare(Cmp::lt, x, 0), b.nan(x.dtype(), x.dims()), zero);
}

// exp(-|x|) I_n(x): the mean of exp(|x| (cos t - 1)), with x sin^2 t for n = 1.
Value scaled_i(Builder& b, const Value& x, int order) {
  const Value size = b.abs(x);
  auto near = [&](const Value& v) {
    // The half circles on both sides of t = pi/2 differ, so both cosines are taken.
    Quadrature q = quarter(order == 0 ? one : sin2);
    const size_t n = q.points.size();
    std::vector<double> steps = map(q.points, cos1), weights = q.weights;
    for (size_t k = 0; k < n; ++k) steps.push_back(-steps[k]), weights.push_back(weights[k]);
    for (double& s : steps) s -= 1;
    for (double& w : weights) w /= 2;
    const Value mean =
        integrate(b, v, steps, weights, [&](const Value& y, const Value& p) { return b.exp(b.mul(y, p)); });
    return order == 0 ? mean : b.mul(v, mean);
  };
  auto far = [&](const Value& v) {
    std::vector<double> c{1};
    for (int k = 1; k <= 16; ++k)
      c.push_back(-c.back() * (4.0 * order * order - (2 * k - 1) * (2 * k - 1)) / (8.0 * k));
    const Value z = b.div(b.like(v, 1), v);
    Value s = b.like(v, c.back());
    for (int k = 15; k >= 0; --k) s = b.add(b.mul(s, z), c[k]);
    return b.mul(s, b.sqrt(b.mul(z, 1 / (2 * kPi))));
  };
  const Value r = near_or_far(b, size, near, far);
  return order == 0 ? r : b.select(b.compare(Cmp::lt, x, 0), b.neg(r), r);
}
Value grown(Builder& b, const Value& scaled,
            const Value& x) {  // times exp(|x|) in two halves, so that only the result overflows
  const Value half = b.exp(b.mul(b.abs(x), 0.5));
  return b.mul(b.mul(scaled, half), half);
}

// exp(x) K_n(x) = integral of exp(-x (cosh t - 1)) cosh(n t) up to where it has died out; near 0, where that is far,
// two terms of the series.
Value scaled_k(Builder& b, const Value& x, int order) {
  const int n = 64;
  std::vector<double> points, weights;
  for (int k = 0; k <= n; ++k)
    points.push_back(static_cast<double>(k) / n), weights.push_back((k == 0 ? 0.5 : 1.0) / n);
  const Value y = b.max(x, 1e-3), reach = b.unary("chlo.acosh", b.add(b.div(b.constant(45, x.dtype()), y), 1));
  const Value wide = b.unsqueeze(y, x.rank()), far = b.unsqueeze(reach, x.rank());
  const Value sum = integrate(b, y, points, weights, [&](const Value&, const Value& p) {
    // cosh t - 1 = 2 sinh^2(t / 2) keeps the digits that the difference would lose
    const Value t = b.mul(far, p), s = b.unary("chlo.sinh", b.mul(t, 0.5)), above = b.mul(square(b, s), 2);
    const Value e = b.exp(b.neg(b.mul(wide, above)));
    return order == 0 ? e : b.mul(e, b.add(above, 1));
  });
  const Value log = log_half(b, x), quarter_square = b.mul(square(b, x), 0.25);
  const Value series = order == 0 ? b.sub(quarter_square, b.mul(log, b.add(quarter_square, 1)))
                                  : b.add(b.div(b.like(x, 1), x), b.mul(b.mul(x, 0.5), b.sub(log, 0.5)));
  const Value r = b.select(b.compare(Cmp::lt, x, 1e-3), b.mul(series, b.exp(x)), b.mul(sum, reach));
  const Value zero = b.select(b.compare(Cmp::eq, x, 0), b.like(x, INFINITY), r);
  return b.select(b.compare(Cmp::ge, x, 0), zero, b.nan(x.dtype(), x.dims()));
}

// Airy's function, by the integral of exp(i (t^3 / 3 + x t)) over the real line moved up by `lift`.
Value airy_middle(Builder& b, const Value& x) {
  const double lift = 0.4, step = 0.09;
  std::vector<double> points, weights;
  for (int k = 0; k * step < 10; ++k) points.push_back(k * step), weights.push_back((k == 0 ? 0.5 : 1.0) * step / kPi);
  for (size_t k = 0; k < points.size(); ++k)
    weights[k] *= std::exp(-lift * points[k] * points[k] + lift * lift * lift / 3);
  const Value sum = integrate(b, x, points, weights, [&](const Value& v, const Value& p) {
    return b.cos(b.add(b.mul(v, p), b.sub(b.div(b.mul(square(b, p), p), 3), b.mul(p, lift * lift))));
  });
  return b.mul(sum, b.exp(b.mul(x, -lift)));
}
// The asymptotic series in zeta = 2/3 |x|^(3/2), on either side.
Value airy_far(Builder& b, const Value& size, bool negative) {
  const Value root = b.sqrt(size), zeta = b.mul(b.mul(size, root), 2.0 / 3), quarter_root = b.sqrt(root);
  std::vector<double> u{1};
  for (int k = 1; k <= 16; ++k)
    u.push_back(u.back() * (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1)));
  auto series = [&](int first, int by, const Value& z) {
    int last = first;
    while (last + by <= 15) last += by;
    Value s = b.like(size, u[last]);
    for (int k = last - by; k >= first; k -= by) s = b.add(b.mul(s, z), u[k]);
    return s;
  };
  const Value inverse = b.div(b.like(zeta, 1), zeta);
  const Value scale = b.div(b.constant(1 / std::sqrt(kPi), size.dtype()), quarter_root);
  if (!negative) return b.mul(b.mul(b.mul(scale, 0.5), b.exp(b.neg(zeta))), series(0, 1, b.neg(inverse)));
  const Value z = b.neg(square(b, inverse)), even = series(0, 2, z), odd = b.mul(series(1, 2, z), inverse);
  const Value phase = b.sub(zeta, kPi / 4);
  return b.mul(scale, b.add(b.mul(even, b.cos(phase)), b.mul(odd, b.sin(phase))));
}
Value airy(Builder& b, const Value& x) {
  const double left = -8, right = 12;
  const Value middle = airy_middle(b, b.clamp(b.constant(left, x.dtype()), x, b.constant(2, x.dtype())));
  // Between the two, K_1/3's integral: it dies out without oscillation.
  const Value y = b.clamp(b.constant(2, x.dtype()), x, b.constant(right, x.dtype()));
  const Value zeta = b.mul(b.mul(y, b.sqrt(y)), 2.0 / 3);
  std::vector<double> points, weights;
  for (int k = 0; k * 0.08 < 4.6; ++k)
    points.push_back(k * 0.08), weights.push_back((k == 0 ? 0.5 : 1.0) * 0.08 * std::cosh(k * 0.08 / 3));
  const Value k13 = integrate(b, zeta, map(points, [](double t) { return 2 * std::sinh(t / 2) * std::sinh(t / 2); }),
                              weights, [&](const Value& v, const Value& p) { return b.exp(b.neg(b.mul(v, p))); });
  const Value upper = b.mul(b.mul(b.sqrt(b.div(y, 3)), b.mul(k13, b.exp(b.neg(zeta)))), 1 / kPi);
  const Value far_right = airy_far(b, b.max(x, right), false), far_left = airy_far(b, b.max(b.neg(x), -left), true);
  const Value inner = b.select(b.compare(Cmp::gt, x, 2), upper, middle);
  const Value r =
      b.select(b.compare(Cmp::gt, x, right), far_right, b.select(b.compare(Cmp::lt, x, left), far_left, inner));
  return b.select(b.bit_or(b.is_nan(x), is_infinite(b, x)), b.nan(x.dtype(), x.dims()), r);
}

}  // namespace

#define BESSEL(NAME, ARG, ...)               \
  OP(NAME, Promote::to_float, "", kOpmath) { \
    const Value x = a.tensor(ARG);           \
    return __VA_ARGS__;                      \
  }

BESSEL("special_bessel_j0", "self", bessel_j(b, x, 0))
BESSEL("special_bessel_j1", "self", bessel_j(b, x, 1))
BESSEL("special_bessel_y0", "self", bessel_y(b, x, 0))
BESSEL("special_bessel_y1", "self", bessel_y(b, x, 1))
BESSEL("i0 special_modified_bessel_i0", "self", grown(b, scaled_i(b, x, 0), x))
BESSEL("special_i0e", "self", scaled_i(b, x, 0))
BESSEL("special_i1 special_modified_bessel_i1", "self", grown(b, scaled_i(b, x, 1), x))
BESSEL("special_i1e", "self", scaled_i(b, x, 1))
BESSEL("special_modified_bessel_k0", "self", b.mul(scaled_k(b, x, 0), b.exp(b.neg(x))))
BESSEL("special_modified_bessel_k1", "self", b.mul(scaled_k(b, x, 1), b.exp(b.neg(x))))
BESSEL("special_scaled_modified_bessel_k0", "x", scaled_k(b, x, 0))
BESSEL("special_scaled_modified_bessel_k1", "x", scaled_k(b, x, 1))
BESSEL("special_airy_ai", "x", airy(b, x))

OP("special_spherical_bessel_j0", Promote::to_float, "", kOpmath) {
  const Value x = a.tensor("x"), size = b.abs(x), s = square(b, x);
  // sin x / x by its series near 0
  const Value series = b.add(b.mul(s, b.add(b.mul(s, b.add(b.mul(s, -1.0 / 5040), 1.0 / 120)), -1.0 / 6)), 1);
  const Value r = b.select(b.compare(Cmp::lt, size, 0.5), series, b.div(b.sin(x), x));
  return b.select(is_infinite(b, x), b.like(x, 0), r);
}

}  // namespace torchport::ops
