// Running reductions along one dimension, without reduce_window: compilers expand that to a quadratic amount of work.
#include "ops/scan.h"

#include <cmath>

#include "ops/math.h"
#include "ops/reduce.h"

namespace torchport::ops {

namespace {

constexpr int64_t kBlock = 64;

Value padded(Builder& b, const Value& x, const Value& fill, int64_t dim, int64_t low, int64_t high) {
  Dims lo(x.rank(), 0), hi(x.rank(), 0);
  lo[dim] = low, hi[dim] = high;
  return b.pad(x, fill, lo, hi);
}
Values zip(const Values& earlier, const Values& later, const Body& combine) {
  Values both = earlier;
  both.insert(both.end(), later.begin(), later.end());
  return combine(both);
}
// Every element joins the one `step` before it, with step doubling.
Values doubling(Builder& b, Values xs, int64_t dim, const Body& combine, const Values& identity) {
  const int64_t n = xs[0].dim(dim);
  for (int64_t step = 1; step < n; step *= 2) {
    Values earlier;
    for (size_t k = 0; k < xs.size(); ++k)
      earlier.push_back(padded(b, b.slice_dim(xs[k], dim, 0, n - step), identity[k], dim, step, 0));
    xs = zip(earlier, xs, combine);
  }
  return xs;
}

}  // namespace

Values scan(Builder& b, const Values& xs, int64_t dim, const Body& combine, const Values& identity) {
  if (xs[0].rank() == 0 || xs[0].numel() == 0) return xs;
  const int64_t n = xs[0].dim(dim);
  if (n <= kBlock) return doubling(b, xs, dim, combine, identity);
  // Blocks are scanned side by side, then what came before each block joins it.
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Values inner, last, before, wide;
  for (size_t k = 0; k < xs.size(); ++k) {
    Dims split = xs[k].dims();
    split[dim] = blocks;
    split.insert(split.begin() + dim + 1, kBlock);
    inner.push_back(b.reshape(padded(b, xs[k], identity[k], dim, 0, blocks * kBlock - n), split));
  }
  inner = doubling(b, inner, dim + 1, combine, identity);
  for (const Value& v : inner) last.push_back(b.squeeze(b.slice_dim(v, dim + 1, kBlock - 1, kBlock), dim + 1));
  last = scan(b, last, dim, combine, identity);
  for (size_t k = 0; k < xs.size(); ++k) {
    before.push_back(padded(b, b.slice_dim(last[k], dim, 0, blocks - 1), identity[k], dim, 1, 0));
    wide.push_back(b.broadcast_to(b.unsqueeze(before[k], dim + 1), inner[k].dims()));
  }
  Values out = zip(wide, inner, combine);
  for (size_t k = 0; k < xs.size(); ++k) {
    Dims flat = xs[k].dims();
    flat[dim] = blocks * kBlock;
    out[k] = b.slice_dim(b.reshape(out[k], flat), dim, 0, n);
  }
  return out;
}

Value running_sum(Builder& b, const Value& x, int64_t dim) {
  return scan(b, {x}, dim, [&](const Values& v) { return Values{b.add(v[0], v[1])}; }, {b.constant(0, x.dtype())})[0];
}

OP("cumsum") {
  const Value x = a.tensor("self");
  const Dtype d = sum_dtype(a, x);
  return b.cast(running_sum(b, b.cast(x, opmath(d)), a.dim("dim", x)), d);
}
OP("cumprod") {
  const Value x = a.tensor("self");
  const Dtype d = sum_dtype(a, x);
  auto product = [&](const Values& v) { return Values{b.mul(v[0], v[1])}; };
  return b.cast(scan(b, {b.cast(x, opmath(d))}, a.dim("dim", x), product, {b.constant(1, opmath(d))})[0], d);
}

OP("logcumsumexp _logcumsumexp", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  a.check(!is_integral(x.dtype()), Code::dtype_unsupported,
          str("must get a floating point tensor, got ", name(x.dtype())));
  auto join = [&](const Values& v) {
    const Value first = b.ge(b.real(v[0]), b.real(v[1]));
    const Value big = b.select(first, v[0], v[1]), small = b.select(first, v[1], v[0]);
    // Two equal infinities have no difference; a NaN on either side wins.
    const Value same = b.eq(big, small), sum = b.add(big, b.log1p(b.exp(b.sub(small, big))));
    const Value both = b.bit_and(same, is_infinite(b, big));
    return Values{b.select(b.bit_or(b.is_nan(v[0]), b.is_nan(v[1])), b.add(v[0], v[1]), b.select(both, big, sum))};
  };
  return scan(b, {x}, a.dim("dim", x), join, {b.constant(-INFINITY, x.dtype())})[0];
}

// The last of equal extremes counts, and NaN from where it first stands.
static Result running_extreme(Builder& b, Args& a, bool largest) {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get a real tensor, got complex");
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return {x, b.constant(0, Dtype::i64)};
  auto pick = [&](const Values& v) {
    Value later = largest ? b.ge(v[2], v[0]) : b.le(v[2], v[0]);
    if (is_float(x.dtype())) later = b.bit_or(b.is_nan(v[2]), later);
    return Values{b.select(later, v[2], v[0]), b.select(later, v[3], v[1])};
  };
  const Value neutral = largest ? b.lowest(x.dtype()) : b.highest(x.dtype());
  const Values r = scan(b, {x, b.iota({Dtype::i64, x.dims()}, dim)}, dim, pick, {neutral, b.constant(0, Dtype::i64)});
  return {r[0], r[1]};
}
OP("cummax") { return running_extreme(b, a, true); }
OP("cummin") { return running_extreme(b, a, false); }

}  // namespace torchport::ops
