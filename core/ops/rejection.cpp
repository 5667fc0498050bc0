// Distributions sampled by rejection: poisson, binomial, gamma, dirichlet. All elements draw together until each has
// been accepted; the random state travels through the loop.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/op.h"

namespace torchport::ops {

namespace {

constexpr int64_t kMaxRounds = 1000;     // never reached but by NaN, which is never accepted
constexpr int64_t kReservedRounds = 24;  // draws set aside; a round accepts most of what is left

Dtype wide_type(Args& a) { return a.platform_has_f64() ? Dtype::f64 : Dtype::f32; }

// A stream of random numbers whose state a loop can carry.
class Stream {
 public:
  Stream(Builder& b, Value state, Dtype w) : b_(b), state_(std::move(state)), w_(w) {}
  const Value& state() const { return state_; }
  Value uniform(const Dims& dims) {  // [0, 1)
    const bool f64 = w_ == Dtype::f64;
    const Dtype d = f64 ? Dtype::u64 : Dtype::u32;
    const auto [next, bits] = b_.rng_bits(state_, d, dims);
    state_ = next;
    const int kept = f64 ? 53 : 24;
    return b_.mul(b_.convert(b_.shift_right(bits, b_.constant((f64 ? 64 : 32) - kept, d)), w_), std::ldexp(1.0, -kept));
  }
  Value positive(const Dims& dims) { return b_.rsub(1, uniform(dims)); }  // (0, 1]
  Value normal(const Dims& dims) {
    const Value radius = b_.sqrt(b_.mul(b_.log(positive(dims)), -2));
    return b_.mul(radius, b_.cos(b_.mul(uniform(dims), 2 * std::numbers::pi)));
  }

 private:
  Builder& b_;
  Value state_;
  Dtype w_;
};
Stream stream(Builder& b, Args& a, const Dims& dims, Dtype w, int64_t draws_a_round) {
  return {b, a.launch().rng_state(b, numel(dims) * draws_a_round * kReservedRounds * (w == Dtype::f64 ? 2 : 1)), w};
}

// attempt gives {accepted, candidate}; elements that start as done keep `initial`. Values used inside come from outside
// the loop.
using Attempt = std::function<std::pair<Value, Value>(Stream&)>;
Value until_accepted(Builder& b, const Stream& s, Dtype w, const Value& done, const Value& initial,
                     const Attempt& attempt) {
  Dims all;
  for (int64_t d = 0; d < done.rank(); ++d) all.push_back(d);
  const Values end = b.while_loop(
      {s.state(), done, initial, b.constant_int(0, Dtype::i32)},
      [&](const Values& v) {
        return Values{b.bit_and(b.logical_not(b.reduce(Reduce::all, v[1], all)),
                                b.compare(Cmp::lt, v[3], static_cast<double>(kMaxRounds)))};
      },
      [&](const Values& v) {
        Stream inner(b, v[0], w);
        const auto [accepted, candidate] = attempt(inner);
        const Value fresh = b.bit_and(accepted, b.logical_not(v[1]));
        return Values{inner.state(), b.bit_or(v[1], accepted), b.select(fresh, candidate, v[2]), b.add(v[3], 1)};
      });
  return end[2];
}

// Smallest k whose cumulative probability exceeds u, by adding up terms: next(p, k) gives the term after p = P(k).
Value by_inversion(Builder& b, const Value& u, const Value& first, int64_t terms,
                   const std::function<Value(const Value&, const Value&)>& next) {
  const Value zero = b.like(u, 0);
  Dims all;
  for (int64_t d = 0; d < u.rank(); ++d) all.push_back(d);
  const Values end = b.while_loop(
      {first, first, zero, b.constant_int(0, Dtype::i32)},
      [&](const Values& v) {
        return Values{
            b.bit_and(b.reduce(Reduce::any, b.ge(u, v[1]), all), b.compare(Cmp::lt, v[3], static_cast<double>(terms)))};
      },
      [&](const Values& v) {
        const Value k = b.cast(b.full(v[3], u.dims()), u.dtype()), p = next(v[0], k);
        return Values{p, b.add(v[1], p), b.select(b.ge(u, v[1]), b.add(v[2], 1), v[2]), b.add(v[3], 1)};
      });
  return end[2];
}

Value lgamma(Builder& b, const Value& x) { return b.unary("chlo.lgamma", x); }
Value lgamma1(Builder& b, const Value& x) { return lgamma(b, b.add(x, 1)); }
Value nan_where(Builder& b, const Value& bad, const Value& x) { return b.select(bad, b.nan(x.dtype(), x.dims()), x); }

// Hoermann's transformed rejection (PTRS) for rates of at least 10, inversion below.
Value poisson(Builder& b, Args& a, const Value& rate, Dtype w) {
  const Value large = b.compare(Cmp::ge, rate, 10);
  Stream s = stream(b, a, rate.dims(), w, 2);
  const Value low = b.select(large, b.like(rate, 0), rate), u = s.uniform(rate.dims());
  const Value small = by_inversion(b, u, b.exp(b.neg(low)), 80,
                                   [&](const Value& p, const Value& k) { return b.div(b.mul(p, low), b.add(k, 1)); });

  const Value mu = b.select(large, rate, b.like(rate, 10)), log_mu = b.log(mu);
  const Value scale = b.add(b.mul(b.sqrt(mu), 2.53), 0.931), shift = b.sub(b.mul(scale, 0.02483), 0.059);
  const Value inverse_alpha = b.add(b.div(b.like(mu, 1.1328), b.sub(scale, 3.4)), 1.1239);
  const Value quick = b.rsub(0.9277, b.div(b.like(mu, 3.6224), b.sub(scale, 2)));
  const Value big = until_accepted(b, s, w, b.logical_not(large), small, [&](Stream& r) {
    const Value x = b.sub(r.uniform(mu.dims()), 0.5), v = r.positive(mu.dims()), us = b.rsub(0.5, b.abs(x));
    const Value k = b.floor(b.add(b.add(b.mul(b.add(b.div(b.mul(shift, 2), us), scale), x), mu), 0.43));
    const Value at_once = b.bit_and(b.compare(Cmp::ge, us, 0.07), b.le(v, quick));
    const Value out = b.bit_or(b.compare(Cmp::lt, k, 0), b.bit_and(b.compare(Cmp::lt, us, 0.013), b.gt(v, us)));
    const Value left = b.sub(b.add(b.log(v), b.log(inverse_alpha)), b.log(b.add(b.div(shift, b.mul(us, us)), scale)));
    const Value right = b.sub(b.sub(b.mul(k, log_mu), mu), lgamma1(b, b.max(k, 0)));
    return std::pair{b.bit_or(at_once, b.bit_and(b.logical_not(out), b.le(left, right))), k};
  });
  return nan_where(b, b.is_nan(rate), big);
}

// Hoermann's BTRS where n * p is at least 10 (p at most one half), inversion below.
Value binomial(Builder& b, Args& a, const Value& count, const Value& prob, Dtype w) {
  const Value flip = b.compare(Cmp::gt, prob, 0.5), p0 = b.select(flip, b.rsub(1, prob), prob);
  const Value trivial = b.bit_or(b.compare(Cmp::le, count, 0), b.compare(Cmp::le, p0, 0));
  const Value large = b.bit_and(b.logical_not(trivial), b.compare(Cmp::ge, b.mul(count, p0), 10));
  Stream s = stream(b, a, count.dims(), w, 2);
  const Value none = b.bit_or(trivial, large);
  const Value n_low = b.select(none, b.like(count, 0), count), p_low = b.select(none, b.like(p0, 0), p0);
  const Value odds_low = b.div(p_low, b.rsub(1, p_low));
  const Value first = b.exp(b.mul(n_low, b.log1p(b.neg(p_low))));
  const Value small = by_inversion(b, s.uniform(count.dims()), first, 120, [&](const Value& p, const Value& k) {
    return b.div(b.mul(b.mul(p, odds_low), b.max(b.sub(n_low, k), 0)), b.add(k, 1));
  });

  const Value n = b.select(large, count, b.like(count, 40)), p = b.select(large, p0, b.like(p0, 0.5));
  const Value spread = b.sqrt(b.mul(b.mul(n, p), b.rsub(1, p)));
  const Value scale = b.add(b.mul(spread, 2.53), 1.15),
              shift = b.add(b.sub(b.mul(scale, 0.0248), 0.0873), b.mul(p, 0.01));
  const Value centre = b.add(b.mul(n, p), 0.5), quick = b.rsub(0.92, b.div(b.like(n, 4.2), scale));
  const Value alpha = b.mul(b.add(b.div(b.like(n, 5.1), scale), 2.83), spread),
              log_odds = b.log(b.div(p, b.rsub(1, p)));
  const Value mode = b.floor(b.mul(b.add(n, 1), p)), top = b.add(lgamma1(b, mode), lgamma1(b, b.sub(n, mode)));
  const Value big = until_accepted(b, s, w, b.logical_not(large), b.min(small, n_low), [&](Stream& r) {
    const Value x = b.sub(r.uniform(n.dims()), 0.5), v = r.positive(n.dims()), us = b.rsub(0.5, b.abs(x));
    const Value k = b.floor(b.add(b.mul(b.add(b.div(b.mul(shift, 2), us), scale), x), centre));
    const Value inside = b.bit_and(b.compare(Cmp::ge, k, 0), b.le(k, n)), safe = b.clamp(b.like(k, 0), k, n);
    const Value at_once = b.bit_and(b.compare(Cmp::ge, us, 0.07), b.le(v, quick));
    const Value left = b.log(b.div(b.mul(v, alpha), b.add(b.div(shift, b.mul(us, us)), scale)));
    const Value right =
        b.add(b.sub(b.sub(top, lgamma1(b, safe)), lgamma1(b, b.sub(n, safe))), b.mul(b.sub(safe, mode), log_odds));
    return std::pair{b.bit_and(inside, b.bit_or(at_once, b.le(left, right))), k};
  });
  const Value drawn = b.select(b.compare(Cmp::le, count, 0), b.like(count, 0), b.select(flip, b.sub(count, big), big));
  return nan_where(b, b.bit_or(b.is_nan(count), b.is_nan(prob)), drawn);
}

// Marsaglia and Tsang; a shape below 1 is raised by 1 and the result scaled by u^(1/shape).
Value gamma(Builder& b, Args& a, const Value& shape, Dtype w) {
  Stream s = stream(b, a, shape.dims(), w, 3);
  const Value low = b.compare(Cmp::lt, shape, 1);
  const Value boost = b.exp(b.div(b.log(s.positive(shape.dims())), shape));
  const Value d = b.sub(b.select(low, b.add(shape, 1), shape), 1.0 / 3), c = b.rsqrt(b.mul(d, 9));
  const Value drawn = until_accepted(b, s, w, b.is_nan(shape), b.like(shape, 0), [&](Stream& r) {
    const Value x = r.normal(shape.dims()), y = b.add(b.mul(c, x), 1), v = b.mul(b.mul(y, y), y),
                u = r.positive(shape.dims()), xx = b.mul(x, x);
    const Value squeeze = b.lt(u, b.rsub(1, b.mul(b.mul(xx, xx), 0.0331)));
    const Value exact = b.lt(b.log(u), b.add(b.mul(xx, 0.5), b.mul(d, b.add(b.rsub(1, v), b.log(v)))));
    return std::pair{b.bit_and(b.compare(Cmp::gt, y, 0), b.bit_or(squeeze, exact)), b.mul(d, v)};
  });
  return nan_where(b, b.is_nan(shape), b.mul(drawn, b.select(low, boost, b.like(boost, 1))));
}

double smallest_normal(Dtype d) {
  return d == Dtype::f64   ? std::numeric_limits<double>::min()
         : d == Dtype::f16 ? 6.103515625e-05
                           : std::numeric_limits<float>::min();
}
double epsilon(Dtype d) {
  return d == Dtype::f64 ? 0x1p-52 : d == Dtype::f32 ? 0x1p-23 : d == Dtype::f16 ? 0x1p-10 : 0x1p-7;
}
void check_float(Args& a, const Value& x) {
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get a floating point tensor, got ", text(x.type())));
}

}  // namespace

OP("poisson") {
  const Value rate = a.tensor("self");
  check_float(a, rate);
  a.require(b.logical_not(b.compare(Cmp::lt, rate, 0)), Code::bad_value, "rate must not be negative anywhere");
  const Dtype w = wide_type(a);
  return b.cast(poisson(b, a, b.cast(rate, w), w), rate.dtype());
}
OP("binomial") {
  const Value count = a.tensor("count"), prob = a.tensor("prob");
  check_float(a, count);
  const Dims dims = broadcast(count.dims(), prob.dims(), a.where());
  const Dtype w = wide_type(a);
  return b.cast(binomial(b, a, b.broadcast_to(b.cast(count, w), dims), b.broadcast_to(b.cast(prob, w), dims), w),
                count.dtype());
}
OP("_standard_gamma") {
  const Value shape = a.tensor("self");
  check_float(a, shape);
  const Dtype w = wide_type(a);
  return b.max(b.cast(gamma(b, a, b.cast(shape, w), w), shape.dtype()), smallest_normal(shape.dtype()));
}
OP("_sample_dirichlet") {
  const Value shape = a.tensor("self");
  check_float(a, shape);
  const Dtype w = wide_type(a), d = shape.dtype();
  const Value g = b.max(gamma(b, a, b.cast(shape, w), w), smallest_normal(w));
  const Value p = b.div(g, b.reduce_keep(Reduce::add, g, {-1}, true));
  return b.min(b.max(b.cast(p, d), smallest_normal(d)), 1 - epsilon(d));
}

}  // namespace torchport::ops
