// Sampling an image at given coordinates, in two and three dimensions, and affine grids. Each axis gives a few taps
// (index, weight and the weight's slope in the grid's coordinate); a sample is the sum over all combinations of taps.
#include <cmath>

#include "ops/product.h"

namespace torchport::ops {

namespace {

enum class Mode { linear = 0, nearest = 1, cubic = 2 };
enum class Border { zeros = 0, clip = 1, reflect = 2 };

struct Coordinate {
  Value x, slope;  // in elements; d x / d grid
};
struct Tap {
  Value index, inside, weight, slope;  // all [N, P]; the index is clamped
};

// Where(x < 0) and friends keep a NaN coordinate out of the integer conversion.
Coordinate clipped(Builder& b, const Coordinate& c, int64_t size) {
  const Value low = b.logical_not(b.compare(Cmp::gt, c.x, 0.0)),
              high = b.compare(Cmp::ge, c.x, static_cast<double>(size - 1));
  const Value zero = b.like(c.x, 0);
  return {b.select(low, zero, b.select(high, b.like(c.x, static_cast<double>(size - 1)), c.x)),
          b.select(b.bit_or(low, high), zero, c.slope)};
}
Coordinate reflected(Builder& b, const Coordinate& c, int64_t size, bool align) {
  const double low = align ? 0 : -0.5, span = align ? static_cast<double>(size - 1) : static_cast<double>(size);
  if (span == 0) return {b.like(c.x, 0), b.like(c.x, 0)};
  const Value from = b.sub(c.x, low), distance = b.abs(from);
  const Value extra = b.rem(distance, b.like(distance, span)), flips = b.floor(b.div(distance, span));
  const Value even = b.compare(Cmp::eq, b.rem(flips, b.like(flips, 2)), 0.0);
  const Value sign = b.select(b.compare(Cmp::lt, from, 0.0), b.like(c.x, -1), b.like(c.x, 1));
  return {b.add(b.select(even, extra, b.rsub(span, extra)), low),
          b.mul(c.slope, b.mul(sign, b.select(even, b.like(c.x, 1), b.like(c.x, -1))))};
}
Coordinate bordered(Builder& b, Coordinate c, int64_t size, Border border, bool align) {
  if (border == Border::zeros) return c;
  if (border == Border::reflect) c = reflected(b, c, size, align);
  return clipped(b, c, size);
}
Tap tap(Builder& b, const Value& at, const Value& weight, const Value& slope, int64_t size) {
  const Value inside = b.bit_and(b.compare(Cmp::ge, at, 0.0), b.compare(Cmp::lt, at, static_cast<double>(size)));
  const Value safe = b.select(inside, at, b.like(at, 0));  // NaN is not inside
  return {b.convert(safe, Dtype::i64), inside, weight, slope};
}

std::vector<Tap> taps(Builder& b, const Value& grid, int64_t size, Mode mode, Border border, bool align) {
  const double n = static_cast<double>(size);
  const Value one = b.like(grid, 1);
  Coordinate c;
  if (align)
    c = {b.mul(b.div(b.add(grid, 1.0), 2.0), n - 1), b.like(grid, (n - 1) / 2)};
  else
    c = {b.div(b.sub(b.mul(b.add(grid, 1.0), n), 1.0), 2.0), b.like(grid, n / 2)};
  if (mode == Mode::cubic) {  // the border applies to each tap's place
    const double A = -0.75;
    const Value floor = b.floor(c.x), t = b.sub(c.x, floor);
    auto near = [&](const Value& x) { return b.add(b.mul(b.mul(b.sub(b.mul(x, A + 2), A + 3), x), x), 1.0); };
    auto far = [&](const Value& x) {
      return b.sub(b.mul(b.add(b.mul(b.sub(b.mul(x, A), 5 * A), x), 8 * A), x), 4 * A);
    };
    auto near_slope = [&](const Value& x) { return b.mul(b.sub(b.mul(x, 3 * (A + 2)), 2 * (A + 3)), x); };
    auto far_slope = [&](const Value& x) { return b.add(b.mul(b.sub(b.mul(x, 3 * A), 10 * A), x), 8 * A); };
    const Value u = b.rsub(1, t), t1 = b.add(t, 1.0), u1 = b.add(u, 1.0);
    const Values weights{far(t1), near(t), near(u), far(u1)},
        slopes{far_slope(t1), near_slope(t), b.neg(near_slope(u)), b.neg(far_slope(u1))};
    std::vector<Tap> r;
    for (int k = 0; k < 4; ++k) {
      const Coordinate at = bordered(b, {b.add(floor, k - 1.0), c.slope}, size, border, align);
      r.push_back(tap(b, at.x, weights[k], b.mul(slopes[k], c.slope), size));
    }
    return r;
  }
  c = bordered(b, c, size, border, align);
  if (mode == Mode::nearest) return {tap(b, b.round_even(c.x), one, b.like(grid, 0), size)};
  const Value floor = b.floor(c.x), t = b.sub(c.x, floor);
  return {tap(b, floor, b.rsub(1, t), b.neg(c.slope), size), tap(b, b.add(floor, 1.0), t, c.slope, size)};
}

struct Sampler {
  Value image;                         // [N, C, plane] in the compute dtype
  std::vector<std::vector<Tap>> axes;  // outermost first
  Dims sizes;                          // the image's spatial sizes
  Dims out;                            // the grid's spatial sizes
  Type input, grid;
};
Sampler read(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("input"), grid = a.tensor("grid");
  a.check(x.rank() == n + 2 && grid.rank() == n + 2 && grid.dim(-1) == n && x.dim(0) == grid.dim(0),
          Code::shape_mismatch,
          str("input and grid must be ", n + 2, "-D with one batch and a last grid size of ", n, ", got ",
              text(x.type()), " and ", text(grid.type())));
  a.check(x.dtype() == grid.dtype(), Code::dtype_mismatch,
          str("input and grid must have one dtype, got ", text(x.type()), " and ", text(grid.type())));
  for (int64_t i = 1; i < x.rank(); ++i)
    a.check(x.dim(i) > 0, Code::shape_mismatch,
            str("input must have no empty dimension but the batch, got ", text(x.type())));
  const Mode mode = static_cast<Mode>(a.i("interpolation_mode"));
  a.check(n == 2 || mode != Mode::cubic, Code::bad_value, "bicubic interpolation must get a 4-D input");
  Sampler s;
  s.input = x.type(), s.grid = grid.type();
  const Dtype d = opmath(x.dtype());
  s.sizes = Dims(x.dims().begin() + 2, x.dims().end());
  s.out = Dims(grid.dims().begin() + 1, grid.dims().end() - 1);
  s.image = b.reshape(b.cast(x, d), {x.dim(0), x.dim(1), numel(s.sizes)});
  const Value g = b.reshape(b.cast(grid, d), {grid.dim(0), numel(s.out), n});
  for (int64_t i = 0; i < n; ++i) {  // the grid's last coordinate belongs to the outermost axis
    const Value c = b.reshape(b.slice_dim(g, 2, n - 1 - i, n - i), {g.dim(0), g.dim(1)});
    s.axes.push_back(taps(b, c, s.sizes[i], mode, static_cast<Border>(a.i("padding_mode")), a.flag("align_corners")));
  }
  return s;
}

// Calls visit(flat index, inside, chosen tap of each axis) for every combination.
void each(Builder& b, const Sampler& s,
          const std::function<void(const Value&, const Value&, const std::vector<const Tap*>&)>& visit) {
  std::vector<size_t> at(s.axes.size(), 0);
  while (true) {
    Value index, inside;
    std::vector<const Tap*> chosen;
    for (size_t i = 0; i < at.size(); ++i) {
      const Tap& t = s.axes[i][at[i]];
      chosen.push_back(&t);
      index = i == 0 ? t.index : b.add(b.mul(index, static_cast<double>(s.sizes[i])), t.index);
      inside = i == 0 ? t.inside : b.bit_and(inside, t.inside);
    }
    visit(index, inside, chosen);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == s.axes[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}
Value pixels(Builder& b, const Sampler& s, const Value& index, const Value& inside) {  // [N, C, P]
  hlo::GatherDims g;
  g.offset_dims = {1}, g.collapsed_slice_dims = {2}, g.start_index_map = {2}, g.index_vector_dim = 2;
  g.operand_batching_dims = {0}, g.start_indices_batching_dims = {0};
  const Value v = b.gather(s.image, index, g, {1, s.image.dim(1), 1});
  return b.select(b.unsqueeze(inside, 1), v, b.like(v, 0));
}
Value weight_of(Builder& b, const std::vector<const Tap*>& taps, size_t slope_at) {
  Value w;
  for (size_t i = 0; i < taps.size(); ++i) {
    const Value& f = i == slope_at ? taps[i]->slope : taps[i]->weight;
    w = w ? b.mul(w, f) : f;
  }
  return w;
}
constexpr size_t kNoSlope = static_cast<size_t>(-1);

Value sample(Builder& b, Args& a, int64_t n) {
  const Sampler s = read(b, a, n);
  Dims shape{s.input.dims[0], s.input.dims[1]};
  shape.insert(shape.end(), s.out.begin(), s.out.end());
  if (numel(shape) == 0) return b.zeros({s.input.dtype, shape});
  Value sum;
  each(b, s, [&](const Value& index, const Value& inside, const std::vector<const Tap*>& t) {
    const Value part = b.mul(pixels(b, s, index, inside), b.unsqueeze(weight_of(b, t, kNoSlope), 1));
    // a tap outside counts for nothing, whatever its weight
    const Value kept = b.select(b.unsqueeze(inside, 1), part, b.like(part, 0));
    sum = sum ? b.add(sum, kept) : kept;
  });
  return b.cast(b.reshape(sum, shape), s.input.dtype);
}

Values sample_backward(Builder& b, Args& a, int64_t n) {
  const Sampler s = read(b, a, n);
  const std::vector<bool> mask = a.flags("output_mask");
  const Value image_zero = b.zeros(s.image.type());
  if (numel(s.out) == 0 || s.input.numel() == 0) return {mask[0] ? b.zeros(s.input) : Value{}, b.zeros(s.grid)};
  const Value g =
      b.reshape(b.cast(a.tensor("grad_output"), s.image.dtype()), {s.input.dims[0], s.input.dims[1], numel(s.out)});
  Value gx = image_zero;
  Values gg(n);
  each(b, s, [&](const Value& index, const Value& inside, const std::vector<const Tap*>& t) {
    if (mask[0]) {
      const Value part = b.mul(g, b.unsqueeze(weight_of(b, t, kNoSlope), 1));
      hlo::ScatterDims d;
      d.update_window_dims = {1}, d.inserted_window_dims = {2}, d.scatter_dims_to_operand_dims = {2},
      d.index_vector_dim = 2;
      d.input_batching_dims = {0}, d.scatter_indices_batching_dims = {0};
      gx = b.scatter(gx, index, b.select(b.unsqueeze(inside, 1), part, b.like(part, 0)), d,
                     [&b](const Values& v) { return Values{b.add(v[0], v[1])}; });
    }
    if (mask[1]) {
      const Value along = b.reduce(Reduce::add, b.mul(pixels(b, s, index, inside), g), {1});
      for (int64_t i = 0; i < n; ++i) {
        const Value part = b.select(inside, b.mul(along, weight_of(b, t, static_cast<size_t>(i))), b.like(along, 0));
        gg[i] = gg[i] ? b.add(gg[i], part) : part;
      }
    }
  });
  Value grid;
  if (mask[1]) {
    Values columns;
    for (int64_t i = n; i-- > 0;) columns.push_back(b.unsqueeze(gg[i], 2));
    grid = b.cast(b.reshape(b.concatenate(columns, 2), s.grid.dims), s.grid.dtype);
  }
  return {mask[0] ? b.cast(b.reshape(gx, s.input.dims), s.input.dtype) : Value{}, grid};
}

}  // namespace

OP("grid_sampler_2d") { return sample(b, a, 2); }
OP("grid_sampler_3d") { return sample(b, a, 3); }
OP("grid_sampler_2d_backward") { return sample_backward(b, a, 2); }
OP("grid_sampler_3d_backward") { return sample_backward(b, a, 3); }

OP("affine_grid_generator") {
  const Value theta = a.tensor("theta");
  const Dims size = a.ints("size");
  const int64_t n = static_cast<int64_t>(size.size()) - 2;
  a.check(
      (n == 2 || n == 3) && theta.rank() == 3 && theta.dim(0) == size[0] && theta.dim(1) == n && theta.dim(2) == n + 1,
      Code::shape_mismatch,
      str("theta must be [batch, n, n + 1] for a size of n + 2 entries, got ", text(theta.type()), " and ",
          text(size)));
  const Dtype d = opmath(theta.dtype());
  Dims grid(size.begin() + 2, size.end());
  grid.push_back(1);
  Values columns;  // x, y, (z,) 1
  for (int64_t i = n; i-- > 0;) {
    const double steps = static_cast<double>(grid[i]);
    Value line = steps <= 1 ? b.constant(0, d, grid) : b.sub(b.mul(b.iota({d, grid}, i), 2 / (steps - 1)), 1.0);
    if (!a.flag("align_corners")) line = b.mul(line, (steps - 1) / steps);
    columns.push_back(line);
  }
  columns.push_back(b.constant(1, d, grid));
  const Value base = b.reshape(b.concatenate(columns, n), {numel(grid), n + 1});
  const Value r = b.dot_general(b.cast(theta, d), base, {}, {}, {2}, {1}, d);  // [N, n, points]
  Dims shape{size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(n);
  return b.cast(b.reshape(b.transpose(r, {0, 2, 1}), shape), theta.dtype());
}

}  // namespace torchport::ops
