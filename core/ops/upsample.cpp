// Interpolation, one axis at a time: each output reads a few taps (index and weight) of the axis. The gradient
// multiplies by the transposed matrix of the taps, so neither direction scatters.
#include <cmath>

#include "ops/product.h"

namespace torchport::ops {

namespace {

enum class Kind { nearest, nearest_exact, linear, cubic, linear_aa, cubic_aa, lanczos_aa };

struct Taps {
  Values index;         // each [out], i64
  Values weight;        // each [out]; none for nearest
  bool masked = false;  // a zero weight means that the tap does not count, even when the input is infinite there
};
struct Axis {
  int64_t in, out;
  double scale;  // the scale factor given by the caller, 0 when none
};

// Input steps per output step, rounded as PyTorch's opmath type rounds it.
double step(const Axis& s, bool align_corners, Dtype d) {
  auto rounded = [d](double v) { return d == Dtype::f64 ? v : static_cast<double>(static_cast<float>(v)); };
  if (align_corners) return s.out > 1 ? rounded(static_cast<double>(s.in - 1) / static_cast<double>(s.out - 1)) : 0.0;
  return s.scale > 0 ? rounded(1.0 / s.scale) : rounded(static_cast<double>(s.in) / static_cast<double>(s.out));
}

Value whole(Builder& b, const Value& x) { return b.convert(x, Dtype::i64); }
Value clamp_index(Builder& b, const Value& i, int64_t size) {
  return b.min(b.max(i, 0.0), static_cast<double>(size - 1));
}
Value real_of(Builder& b, const Value& i, Dtype d) { return b.convert(i, d); }

// PyTorch's cubic convolution: 1 for taps within one step, 2 for the outer ones.
Value cubic1(Builder& b, const Value& x, double A) {
  return b.add(b.mul(b.mul(b.sub(b.mul(x, A + 2), A + 3), x), x), 1.0);
}
Value cubic2(Builder& b, const Value& x, double A) {
  return b.sub(b.mul(b.add(b.mul(b.sub(b.mul(x, A), 5 * A), x), 8 * A), x), 4 * A);
}

Value sinc(Builder& b, const Value& x) {
  const Value px = b.mul(x, M_PI), zero = b.compare(Cmp::eq, x, 0.0);
  return b.select(zero, b.like(x, 1), b.div(b.sin(px), b.select(zero, b.like(x, 1), px)));
}
Value filter(Builder& b, Kind kind, const Value& x) {
  const Value m = b.abs(x), zero = b.like(m, 0);
  if (kind == Kind::linear_aa) return b.max(b.rsub(1, m), 0.0);
  if (kind == Kind::cubic_aa)
    return b.select(b.compare(Cmp::lt, m, 1.0), cubic1(b, m, -0.5),
                    b.select(b.compare(Cmp::lt, m, 2.0), cubic2(b, m, -0.5), zero));
  return b.select(b.compare(Cmp::lt, m, 3.0), b.mul(sinc(b, m), sinc(b, b.div(m, 3.0))), zero);
}

Taps antialiased(Builder& b, Kind kind, const Axis& s, double scale, Dtype d) {
  const double radius = kind == Kind::linear_aa ? 1 : kind == Kind::cubic_aa ? 2 : 3;
  const double support = scale >= 1 ? radius * scale : radius, shrink = scale >= 1 ? 1 / scale : 1;
  const Type line{d, {s.out}};
  const Value center = b.mul(b.add(b.iota(line, 0), 0.5), scale);
  const Value first = b.max(whole(b, b.add(b.sub(center, support), 0.5)), 0.0);
  const Value last = b.min(whole(b, b.add(b.add(center, support), 0.5)), static_cast<double>(s.in));  // exclusive
  const int64_t count = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  Taps t;
  t.masked = true;
  Value total;
  for (int64_t k = 0; k < count; ++k) {
    const Value at = b.add(first, static_cast<double>(k));
    const Value w = filter(b, kind, b.mul(b.add(b.sub(real_of(b, at, d), center), 0.5), shrink));
    const Value used = b.select(b.lt(at, last), w, b.like(w, 0));
    total = total ? b.add(total, used) : used;
    t.index.push_back(clamp_index(b, at, s.in));
    t.weight.push_back(used);
  }
  for (Value& w : t.weight) w = b.select(b.compare(Cmp::eq, total, 0.0), w, b.div(w, total));
  return t;
}

Taps taps(Builder& b, Kind kind, const Axis& s, bool align_corners, Dtype d) {
  const double scale = step(s, align_corners, d);
  const Value o = b.iota({d, {s.out}}, 0);
  switch (kind) {
    case Kind::nearest: return {{clamp_index(b, whole(b, b.floor(b.mul(o, scale))), s.in)}, {}};
    case Kind::nearest_exact: return {{clamp_index(b, whole(b, b.floor(b.mul(b.add(o, 0.5), scale))), s.in)}, {}};
    case Kind::linear: {
      const Value x = align_corners ? b.mul(o, scale) : b.max(b.sub(b.mul(b.add(o, 0.5), scale), 0.5), 0.0);
      const Value i = clamp_index(b, whole(b, x), s.in);
      const Value w = b.min(b.max(b.sub(x, real_of(b, i, d)), 0.0), 1.0);
      return {{i, clamp_index(b, b.add(i, 1.0), s.in)}, {b.rsub(1, w), w}};
    }
    case Kind::cubic: {
      const Value x = align_corners ? b.mul(o, scale) : b.sub(b.mul(b.add(o, 0.5), scale), 0.5);
      const Value floor = b.floor(x), t = b.min(b.max(b.sub(x, floor), 0.0), 1.0), u = b.rsub(1, t),
                  i = whole(b, floor);
      Taps r;
      for (int64_t k = -1; k <= 2; ++k) r.index.push_back(clamp_index(b, b.add(i, static_cast<double>(k)), s.in));
      r.weight = {cubic2(b, b.add(t, 1.0), -0.75), cubic1(b, t, -0.75), cubic1(b, u, -0.75),
                  cubic2(b, b.add(u, 1.0), -0.75)};
      return r;
    }
    default: return antialiased(b, kind, s, scale, d);
  }
}

// Sizes and scale factors of the spatial axes, from the arguments.
std::vector<Axis> axes(Args& a, const Dims& in, int64_t n) {
  const Dims out = a.ints("output_size");
  a.check(static_cast<int64_t>(out.size()) == n, Code::bad_value,
          str("output_size must have ", n, " entries, got ", text(out)));
  static const std::vector<std::vector<const char*>> names{
      {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  std::vector<Axis> r;
  for (int64_t i = 0; i < n; ++i) {
    a.check(in[i + 2] > 0 && out[i] > 0, Code::bad_value,
            str("input and output sizes must be greater than 0, got input ", text(in), " and output ", text(out)));
    r.push_back({in[i + 2], out[i], a.f(names[n - 1][i], 0)});
  }
  return r;
}
bool identity(const Axis& s) { return s.in == s.out && (s.scale == 0 || s.scale == 1); }
bool is_nearest(Kind k) { return k == Kind::nearest || k == Kind::nearest_exact; }
bool aligned(Args& a, Kind k) { return !is_nearest(k) && a.flag("align_corners"); }

Value interpolate(Builder& b, Args& a, Kind kind, int64_t n) {
  const Value x = a.tensor("self");
  a.check(x.rank() == n + 2, Code::shape_mismatch, str("input must be a ", n + 2, "-D tensor, got ", text(x.type())));
  const bool corners = aligned(a, kind);
  const Dtype d = is_int(x.dtype()) ? Dtype::f32 : opmath(x.dtype());
  const std::vector<Axis> as = axes(a, x.dims(), n);
  Value y = is_nearest(kind) ? x : b.cast(x, d);
  for (int64_t i = n; i-- > 0;) {
    if (identity(as[i])) continue;
    const int64_t dim = i + 2;
    const Taps t = taps(b, kind, as[i], corners, d);
    Value sum;
    for (size_t k = 0; k < t.index.size(); ++k) {
      Value part = take(b, y, t.index[k], dim);
      if (!t.weight.empty()) {
        const Value w = b.broadcast_in_dim(t.weight[k], part.dims(), {dim});
        part = t.masked ? b.select(b.compare(Cmp::eq, w, 0.0), b.like(part, 0), b.mul(part, w)) : b.mul(part, w);
      }
      sum = sum ? b.add(sum, part) : part;
    }
    y = sum;
  }
  if (is_int(x.dtype()) && !is_nearest(kind))
    y = b.clamp(b.cast(b.lowest(x.dtype()), d), b.round_even(y), b.cast(b.highest(x.dtype()), d));
  return b.cast(y, x.dtype());
}

// The factor when each input element feeds a run of equally many outputs, else 0.
int64_t repeats(const Axis& s, Kind kind, Dtype d) {
  if (!is_nearest(kind) || s.out % s.in != 0) return 0;
  const double scale = step(s, false, d);
  for (int64_t o = 0; o < s.out; ++o) {
    const double x = (static_cast<double>(o) + (kind == Kind::nearest_exact ? 0.5 : 0.0)) * scale;
    const double rounded = d == Dtype::f64 ? x : static_cast<double>(static_cast<float>(x));
    if (std::min(static_cast<int64_t>(std::floor(rounded)), s.in - 1) != o / (s.out / s.in)) return 0;
  }
  return s.out / s.in;
}

Value interpolate_backward(Builder& b, Args& a, Kind kind, int64_t n) {
  const Value g = a.tensor("grad_output");
  const Dims in = a.ints("input_size");
  a.check(g.rank() == n + 2 && static_cast<int64_t>(in.size()) == n + 2, Code::shape_mismatch,
          str("grad_output must be a ", n + 2, "-D tensor, got ", text(g.type())));
  const bool corners = aligned(a, kind);
  const Dtype d = opmath(g.dtype());
  const std::vector<Axis> as = axes(a, in, n);
  for (int64_t i = 0; i < n + 2; ++i) {
    const int64_t want = i < 2 ? in[i] : as[i - 2].out;
    a.check(g.dim(i) == want, Code::shape_mismatch,
            str("grad_output must have size ", want, " at dimension ", i, ", got ", text(g.dims())));
  }
  Value y = b.cast(g, d);
  for (int64_t i = 0; i < n; ++i) {
    const Axis& s = as[i];
    if (identity(s)) continue;
    const int64_t dim = i + 2;
    if (const int64_t r = repeats(s, kind, d)) {
      Dims split = y.dims();
      split[dim] = s.in;
      split.insert(split.begin() + dim + 1, r);
      y = b.reduce(Reduce::add, b.reshape(y, split), {dim + 1});
      continue;
    }
    const Taps t = taps(b, kind, s, corners, d);
    const Dims grid{s.out, s.in};
    const Value column = b.iota({Dtype::i64, grid}, 1);
    Value matrix;
    for (size_t k = 0; k < t.index.size(); ++k) {
      const Value hit = b.eq(column, b.broadcast_in_dim(t.index[k], grid, {0}));
      const Value w = t.weight.empty()
                          ? b.cast(hit, d)
                          : b.select(hit, b.broadcast_in_dim(t.weight[k], grid, {0}), b.constant(0, d, grid));
      matrix = matrix ? b.add(matrix, w) : w;
    }
    y = contract_axis(b, y, matrix, dim);
  }
  return b.cast(y, g.dtype());
}

}  // namespace

#define UPSAMPLE(NAME, KIND, N)                         \
  OP(NAME) { return interpolate(b, a, Kind::KIND, N); } \
  OP(NAME "_backward") { return interpolate_backward(b, a, Kind::KIND, N); }

UPSAMPLE("upsample_nearest1d", nearest, 1)
UPSAMPLE("upsample_nearest2d", nearest, 2)
UPSAMPLE("upsample_nearest3d", nearest, 3)
UPSAMPLE("_upsample_nearest_exact1d", nearest_exact, 1)
UPSAMPLE("_upsample_nearest_exact2d", nearest_exact, 2)
UPSAMPLE("_upsample_nearest_exact3d", nearest_exact, 3)
UPSAMPLE("upsample_linear1d", linear, 1)
UPSAMPLE("upsample_bilinear2d", linear, 2)
UPSAMPLE("upsample_trilinear3d", linear, 3)
UPSAMPLE("upsample_bicubic2d", cubic, 2)
UPSAMPLE("_upsample_bilinear2d_aa", linear_aa, 2)
UPSAMPLE("_upsample_bicubic2d_aa", cubic_aa, 2)
UPSAMPLE("_upsample_lanczos2d_aa", lanczos_aa, 2)

}  // namespace torchport::ops
