// Sampling from given probabilities: multinomial.
#include <cmath>

#include "ops/call.h"
#include "ops/index.h"
#include "ops/random.h"

namespace torchport::ops {

Value exponential(Builder& b, Args& a, Dtype d, const Dims& dims) {
  const Value u = b.rsub(1, a.uniform(d, dims));
  return b.max(b.neg(b.log(u)), std::ldexp(1.0, d == Dtype::f64 ? -54 : -25));
}

namespace {

// How many entries of the sorted rows cdf[n, c] are at most u[n, s]: a binary search, all queries together.
Value count_at_most(Builder& b, const Value& cdf, const Value& u) {
  const int64_t n = cdf.dim(0), c = cdf.dim(1);
  const Dtype d = index_dtype(n * c);
  const Value flat = b.flatten(cdf), row = b.mul(b.iota({d, u.dims()}, 0), static_cast<double>(c));
  Value found = b.constant(0, d, u.dims());
  int64_t step = 1;
  while (step * 2 <= c) step *= 2;
  for (; step > 0; step /= 2) {
    const Value next = b.add(found, static_cast<double>(step));
    const Value probe = take_flat(b, flat, b.add(row, b.min(b.sub(next, 1), static_cast<double>(c - 1))));
    const Value advance = b.bit_and(b.compare(Cmp::le, next, static_cast<double>(c)), b.le(probe, u));
    found = b.select(advance, next, found);
  }
  return found;
}

}  // namespace

OP("multinomial") {
  const Value self = a.tensor("self");
  const int64_t samples = a.i("num_samples");
  const bool replacement = a.flag("replacement", false);
  a.check(is_float(self.dtype()), Code::bad_value,
          str("self must be a floating point tensor, got ", name(self.dtype())));
  a.check(self.rank() == 1 || self.rank() == 2, Code::bad_value,
          str("self must have 1 or 2 dimensions, got ", text(self.type())));
  a.check(samples > 0, Code::bad_value, str("num_samples must be positive, got ", samples));
  const int64_t c = self.dim(-1), n = self.rank() == 2 ? self.dim(0) : 1;
  a.check(replacement || samples <= c, Code::bad_value,
          str("num_samples must be at most ", c, " without replacement, got ", samples));
  Dims out = self.dims();
  out.back() = samples;
  if (n == 0) return b.zeros({Dtype::i64, out});
  a.check(c > 0, Code::bad_value, str("self must have at least one category, got ", text(self.type())));

  const Dtype w = self.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const Value p = b.reshape(b.cast(self, w), {n, c});
  a.require(b.bit_and(b.is_finite(p), b.compare(Cmp::ge, p, 0)), Code::bad_value,
            "probabilities must be finite and not negative");
  a.require(b.compare(Cmp::gt, b.reduce(Reduce::add, p, {1}), 0), Code::bad_value,
            "probabilities must have a positive sum in each row");
  Value chosen;
  if (replacement) {
    const Value cdf = call1(b, a, "cumsum", {{"self", p}, {"dim", graph::Attr{int64_t{1}}}, {"dtype", graph::Attr{}}});
    const Value total = b.slice_dim(cdf, 1, c - 1, c);
    const Value found = count_at_most(b, cdf, b.mul(a.uniform(w, {n, samples}), total));
    // Rounding may reach the total: stay below the categories of probability 0 at the end.
    const Value last = b.reduce(Reduce::add, b.convert(b.lt(cdf, total), found.dtype()), {1});
    chosen = b.min(found, b.unsqueeze(last, 1));
  } else {  // the largest p / Exp(1) are a sample without replacement
    const Value ratio = b.div(p, exponential(b, a, w, {n, c}));
    const Value ids = b.iota({Dtype::i32, {n, c}}, 1);
    const Values sorted = b.sort({ratio, ids}, 1, true, [&](const Values& v) { return Values{b.gt(v[0], v[1])}; });
    chosen = b.slice_dim(sorted[1], 1, 0, samples);
  }
  return b.reshape(b.convert(chosen, Dtype::i64), out);
}

}  // namespace torchport::ops
