// Max and average pooling with fixed windows. Small windows are unrolled into shifted slices, which fuse into one loop
// and need no scatter on the way back; large ones use reduce_window.
#include <limits>

#include "ops/window.h"

namespace torchport::ops {

namespace {

constexpr int64_t kUnrolled = 32;  // largest window volume that is unrolled

Dims with_lead(int64_t first, const Dims& rest) {
  Dims d{first};
  d.insert(d.end(), rest.begin(), rest.end());
  return d;
}
// Padding above that lets the last window end inside; never negative.
Dims high_padding(const Pool& p) {
  Dims high;
  for (int64_t i = 0; i < p.n; ++i)
    high.push_back(std::max<int64_t>(
        0, (p.out[i] - 1) * p.stride[i] + (p.size[i] - 1) * p.dilation[i] + 1 - p.in[i] - p.padding[i]));
  return high;
}
hlo::Window window(const Pool& p) {
  return {with_lead(1, p.size),     with_lead(1, p.stride),  {},
          with_lead(1, p.dilation), with_lead(0, p.padding), with_lead(0, high_padding(p))};
}
void expect_number(Args& a, const Value& x) {
  a.check(!is_bool(x.dtype()) && !is_complex(x.dtype()), Code::dtype_unsupported,
          str("must get real numbers, got ", text(x.type())));
}

// What the windows' tap reads from padded [lead, ...]: shape [lead, out...].
Value tap_slice(Builder& b, const Pool& p, const Value& padded, const Dims& tap) {
  Dims start{0}, limit{padded.dim(0)}, step{1};
  for (int64_t i = 0; i < p.n; ++i) {
    start.push_back(tap[i] * p.dilation[i]);
    limit.push_back(start.back() + (p.out[i] - 1) * p.stride[i] + 1);
    step.push_back(p.stride[i]);
  }
  return b.slice(padded, start, limit, step);
}

Values max_pool(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self");
  expect_number(a, x);
  const Pool p = read_pool(a, x, n, true);
  const Value folded = b.reshape(x, p.folded(p.in));
  if (p.volume() > kUnrolled || x.numel() == 0) {
    const Value plane = b.reshape(b.iota({Dtype::i64, {numel(p.in)}}, 0), with_lead(1, p.in));
    Values r;
    if (x.numel() == 0)
      r = {b.zeros({x.dtype(), p.folded(p.out)}), b.zeros({Dtype::i64, p.folded(p.out)})};
    else
      r = b.reduce_window({folded, b.broadcast_to(plane, folded.dims())},
                          {b.lowest(x.dtype()), b.constant_int(std::numeric_limits<int64_t>::max(), Dtype::i64)},
                          window(p), max_position_body(b, x.dtype()));
    return {b.reshape(r[0], p.shape(p.out)), b.reshape(r[1], p.shape(p.out))};
  }
  const Value padded = b.pad(folded, b.lowest(x.dtype()), with_lead(0, p.padding), with_lead(0, high_padding(p)));
  // taps count in window order; a tap in the padding never beats one in the input because its place is checked
  Value best, where;
  const bool has_padding = padded.dims() != folded.dims();
  each_tap(p, [&](const Dims& tap) {
    const Value y = tap_slice(b, p, padded, tap),
                at = b.broadcast_to(b.unsqueeze(tap_positions(b, p, tap), 0), y.dims());
    Value inside;
    if (has_padding)
      for (int64_t i = 0; i < n; ++i) {
        const Value along = b.add(b.mul(b.iota({Dtype::i64, p.out}, i), static_cast<double>(p.stride[i])),
                                  static_cast<double>(tap[i] * p.dilation[i] - p.padding[i]));
        const Value ok =
            b.bit_and(b.compare(Cmp::ge, along, 0.0), b.compare(Cmp::lt, along, static_cast<double>(p.in[i])));
        inside = inside ? b.bit_and(inside, ok) : ok;
      }
    if (!best) {
      best = y;
      where = has_padding ? b.select(b.unsqueeze(inside, 0), at, b.constant_int(-1, Dtype::i64, at.dims())) : at;
      return;
    }
    Value better = b.gt(y, best);
    if (is_float(x.dtype())) better = b.select(b.is_nan(best), b.is_nan(y), b.bit_or(better, b.is_nan(y)));
    if (has_padding) better = b.bit_and(b.unsqueeze(inside, 0), b.bit_or(better, b.compare(Cmp::lt, where, 0.0)));
    best = b.select(better, y, best);
    where = b.select(better, at, where);
  });
  return {b.reshape(best, p.shape(p.out)), b.reshape(where, p.shape(p.out))};
}

Value max_pool_backward(Builder& b, Args& a, int64_t n) {
  const Value g = a.tensor("grad_output"), x = a.tensor("self"), indices = a.tensor("indices");
  const Pool p = read_pool(a, x, n, true);
  a.check(g.dims() == p.shape(p.out) && indices.dims() == g.dims(), Code::shape_mismatch,
          str("grad_output and indices must have shape ", text(p.shape(p.out)), ", got ", text(g.dims()), " and ",
              text(indices.dims())));
  const Value wide = b.cast(g, opmath(g.dtype()));
  if (p.volume() > kUnrolled || x.numel() == 0) return b.cast(place(b, p, wide, indices, true), g.dtype());
  const Value grads = b.reshape(wide, p.folded(p.out)), at = b.reshape(indices, p.folded(p.out));
  const Value zero = b.constant(0, wide.dtype());
  Value sum;
  each_tap(p, [&](const Dims& tap) {
    // the gradients whose maximum sits at this tap, spread to the input's grid
    const Value here = b.select(b.eq(at, b.broadcast_to(b.unsqueeze(tap_positions(b, p, tap), 0), at.dims())), grads,
                                b.like(grads, 0));
    Dims low{0}, high{0}, interior{0};
    for (int64_t i = 0; i < n; ++i) {
      low.push_back(tap[i] * p.dilation[i] - p.padding[i]);
      high.push_back(p.in[i] - ((p.out[i] - 1) * p.stride[i] + 1) - low.back());
      interior.push_back(p.stride[i] - 1);
    }
    const Value part = b.pad(here, zero, low, high, interior);
    sum = sum ? b.add(sum, part) : part;
  });
  return b.cast(b.reshape(sum, x.dims()), g.dtype());
}

// Elements that each average divides by: a 0-d value, or one a window position.
Value divisors(Builder& b, Args& a, const Pool& p, Dtype d) {
  if (a.has("divisor_override")) {
    const int64_t v = a.i("divisor_override");
    a.check(v != 0, Code::bad_value, "divisor_override must not be zero");
    return b.constant_int(v, d);
  }
  const bool count_pad = a.flag("count_include_pad");
  Value all;
  for (int64_t i = 0; i < p.n; ++i) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < p.out[i]; ++o) {
      const int64_t start = o * p.stride[i] - p.padding[i], end = std::min(start + p.size[i], p.in[i] + p.padding[i]);
      counts.push_back(count_pad ? end - start : std::min(end, p.in[i]) - std::max<int64_t>(start, 0));
    }
    const bool uniform = std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
    const Value one = uniform ? b.constant_int(counts[0], d)
                              : b.broadcast_in_dim(b.constants(counts, d), with_lead(1, p.out), {i + 1});
    all = all ? b.mul(all, one) : one;
  }
  return all;
}

Value avg_pool(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self");
  expect_number(a, x);
  const Pool p = read_pool(a, x, n, false);
  if (x.numel() == 0) return b.zeros({x.dtype(), p.shape(p.out)});
  const Value wide = b.cast(b.reshape(x, p.folded(p.in)), opmath(x.dtype()));
  const Value sum = b.reduce_window(Reduce::add, wide, window(p));
  return b.cast(b.reshape(b.div(sum, divisors(b, a, p, sum.dtype())), p.shape(p.out)), x.dtype());
}

Value avg_pool_backward(Builder& b, Args& a, int64_t n) {
  const Value g = a.tensor("grad_output"), x = a.tensor("self");
  const Pool p = read_pool(a, x, n, false);
  a.check(g.dims() == p.shape(p.out), Code::shape_mismatch,
          str("grad_output must have shape ", text(p.shape(p.out)), ", got ", text(g.dims())));
  if (x.numel() == 0) return b.zeros(x.type());
  Value wide = b.cast(b.reshape(g, p.folded(p.out)), opmath(g.dtype()));
  wide = b.div(wide, divisors(b, a, p, wide.dtype()));
  Dims low{0}, high{0}, interior{0};
  for (int64_t i = 0; i < n; ++i) {
    low.push_back(p.size[i] - 1 - p.padding[i]);
    high.push_back(p.in[i] + p.padding[i] - (p.out[i] - 1) * p.stride[i] - 1);
    interior.push_back(p.stride[i] - 1);
  }
  const Value spread = b.pad(wide, b.constant(0, wide.dtype()), low, high, interior);
  return b.cast(
      b.reshape(b.reduce_window(Reduce::add, spread, hlo::Window{with_lead(1, p.size), {}, {}, {}, {}, {}}), x.dims()),
      g.dtype());
}

}  // namespace

OP("max_pool2d_with_indices") { return max_pool(b, a, 2); }
OP("max_pool3d_with_indices") { return max_pool(b, a, 3); }
OP("max_pool2d_with_indices_backward") { return max_pool_backward(b, a, 2); }
OP("max_pool3d_with_indices_backward") { return max_pool_backward(b, a, 3); }
OP("avg_pool2d") { return avg_pool(b, a, 2); }
OP("avg_pool3d") { return avg_pool(b, a, 3); }
OP("avg_pool2d_backward") { return avg_pool_backward(b, a, 2); }
OP("avg_pool3d_backward") { return avg_pool_backward(b, a, 3); }

}  // namespace torchport::ops
