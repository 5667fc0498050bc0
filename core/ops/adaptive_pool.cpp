// Pooling whose windows follow from the sizes (adaptive), from random samples (fractional) or from stored positions
// (unpool).
#include <limits>

#include "ops/product.h"
#include "ops/window.h"

namespace torchport::ops {

namespace {

// The bins of one adaptive axis: bin o covers [start, end).
struct Bins {
  std::vector<int64_t> start, length;
  int64_t longest = 0;
  bool uniform = true;  // equal bins that do not overlap: a reshape
};
Bins bins(int64_t in, int64_t out) {
  Bins r;
  for (int64_t o = 0; o < out; ++o) {
    r.start.push_back(o * in / out);
    r.length.push_back(((o + 1) * in + out - 1) / out - r.start.back());
    r.longest = std::max(r.longest, r.length.back());
  }
  r.uniform = out > 0 && in % out == 0;
  return r;
}

// x with axis `dim` split into [bins, longest]; elements past a bin's length become `filler`.
Value split(Builder& b, const Value& x, int64_t dim, const Bins& r, const Value& filler) {
  const int64_t out = static_cast<int64_t>(r.start.size());
  if (r.uniform) {
    Dims d = x.dims();
    d[dim] = out;
    d.insert(d.begin() + dim + 1, r.longest);
    return b.reshape(x, d);
  }
  std::vector<int64_t> index, valid;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t l = 0; l < r.longest; ++l) {
      index.push_back(std::min(r.start[o] + l, x.dim(dim) - 1));
      valid.push_back(l < r.length[o]);
    }
  const Value y = take(b, x, b.reshape(b.constants(index, Dtype::i64), {out, r.longest}), dim);
  const Value mask = b.reshape(b.cast(b.constants(valid, Dtype::i64), Dtype::b1), {out, r.longest});
  return b.select(b.broadcast_in_dim(mask, y.dims(), {dim, dim + 1}), y, b.full(filler, y.dims()));
}

Pool read_adaptive(Args& a, const Value& x, int64_t n) {
  Pool p = read_lead(a, x, n);
  a.check(a.where().find("max") == std::string::npos || static_cast<int64_t>(a.ints("output_size").size()) == n,
          Code::bad_value, str("output_size must have ", n, " entries, got ", text(a.ints("output_size"))));
  p.out = a.expand_ints("output_size", n, 1);
  for (int64_t o : p.out) a.check(o >= 0, Code::bad_value, str("output_size must not be negative, got ", text(p.out)));
  return p;
}
int64_t axis(const Value& x, const Pool& p, int64_t i) { return x.rank() - p.n + i; }

Value adaptive_avg(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self");
  a.check(!is_bool(x.dtype()) && !is_int(x.dtype()), Code::dtype_unsupported,
          str("must get floating point numbers, got ", text(x.type())));
  const Pool p = read_adaptive(a, x, n);
  if (x.numel() == 0 || numel(p.out) == 0) return b.zeros({x.dtype(), p.shape(p.out)});
  Value y = b.cast(x, opmath(x.dtype()));
  for (int64_t i = n; i-- > 0;) {
    const Bins r = bins(p.in[i], p.out[i]);
    const int64_t dim = axis(x, p, i);
    y = b.reduce(Reduce::add, split(b, y, dim, r, b.constant(0, y.dtype())), {dim + 1});
    y = r.uniform ? b.div(y, static_cast<double>(r.longest))
                  : b.div(y, b.broadcast_in_dim(b.constants(r.length, y.dtype()), y.dims(), {dim}));
  }
  return b.cast(y, x.dtype());
}

Value adaptive_avg_backward(Builder& b, Args& a, int64_t n) {
  const Value g = a.tensor("grad_output"), x = a.tensor("self");
  Pool p = read_lead(a, x, n);
  p.out = Dims(g.dims().end() - n, g.dims().end());
  a.check(g.dims() == p.shape(p.out), Code::shape_mismatch,
          str("grad_output must fit input ", text(x.dims()), ", got ", text(g.dims())));
  if (x.numel() == 0 || g.numel() == 0) return b.zeros(x.type());
  Value y = b.cast(g, opmath(g.dtype()));
  for (int64_t i = 0; i < n; ++i) {
    const Bins r = bins(p.in[i], p.out[i]);
    const int64_t dim = axis(x, p, i);
    if (r.uniform) {
      Dims wide = y.dims(), merged = y.dims(), mapping;
      wide.insert(wide.begin() + dim + 1, r.longest);
      merged[dim] = p.in[i];
      for (int64_t k = 0; k < y.rank(); ++k) mapping.push_back(k <= dim ? k : k + 1);
      y = b.reshape(b.broadcast_in_dim(b.div(y, static_cast<double>(r.longest)), wide, mapping), merged);
    } else {  // the transposed averaging matrix
      const Dims grid{p.out[i], p.in[i]};
      const Value at = b.iota({Dtype::i64, grid}, 1), start = b.broadcast_in_dim(b.constants(r.start), grid, {0}),
                  length = b.broadcast_in_dim(b.constants(r.length), grid, {0});
      const Value inside = b.bit_and(b.ge(at, start), b.lt(at, b.add(start, length)));
      y = contract_axis(b, y, b.div(b.cast(inside, y.dtype()), b.cast(length, y.dtype())), dim);
    }
  }
  return b.cast(y, g.dtype());
}

Values adaptive_max(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self");
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point numbers, got ", text(x.type())));
  const Pool p = read_adaptive(a, x, n);
  if (x.numel() == 0 || numel(p.out) == 0)
    return {b.zeros({x.dtype(), p.shape(p.out)}), b.zeros({Dtype::i64, p.shape(p.out)})};
  Value y = x, at = b.broadcast_to(b.reshape(b.iota({Dtype::i64, {numel(p.in)}}, 0), p.in), x.dims());
  for (int64_t i = n; i-- > 0;) {  // one axis after the other: ties keep the first position either way
    const Bins r = bins(p.in[i], p.out[i]);
    const int64_t dim = axis(x, p, i);
    const Values best = reduce_max_position(
        b, split(b, y, dim, r, b.lowest(y.dtype())),
        split(b, at, dim, r, b.constant_int(std::numeric_limits<int64_t>::max(), Dtype::i64)), {dim + 1});
    y = best[0], at = best[1];
  }
  return {y, at};
}

Value place_gradient(Builder& b, Args& a, int64_t n) {
  const Value g = a.tensor("grad_output"), x = a.tensor("self"), indices = a.tensor("indices");
  a.check(g.dims() == indices.dims(), Code::shape_mismatch,
          str("grad_output must have the shape of indices ", text(indices.dims()), ", got ", text(g.dims())));
  return b.cast(place(b, read_lead(a, x, n), b.cast(g, opmath(g.dtype())), indices, true), x.dtype());
}

// Window starts of one fractional axis: [lead, out]; sample [lead] in [0, 1).
Value fractional_starts(Builder& b, const Value& sample, int64_t in, int64_t out, int64_t size) {
  const Dims grid{sample.dim(0), out};
  const Value last = b.constant_int(in - size, Dtype::i64, grid);
  if (out == 1) return last;
  const double alpha = static_cast<double>(in - size) / static_cast<double>(out - 1);
  const Value rate = b.constant(alpha, sample.dtype(), grid);
  const Value s = b.broadcast_in_dim(sample, grid, {0});
  auto whole = [&](const Value& v) { return b.convert(v, Dtype::i64); };
  const Value start = b.sub(whole(b.mul(b.add(b.iota({sample.dtype(), grid}, 1), s), rate)), whole(b.mul(s, rate)));
  return b.select(b.compare(Cmp::eq, b.iota({Dtype::i64, grid}, 1), static_cast<double>(out - 1)), last, start);
}

Values fractional_max(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self"), samples = a.tensor("random_samples");
  Pool p = read_lead(a, x, n);
  p.size = a.expand_ints("kernel_size", n, 1), p.out = a.expand_ints("output_size", n, 1);
  a.check(samples.rank() == 3 && samples.dim(2) == n && samples.dim(0) * samples.dim(1) == numel(p.lead),
          Code::shape_mismatch, str("random_samples must be [batch, channels, ", n, "], got ", text(samples.dims())));
  a.check(samples.dtype() == x.dtype(), Code::dtype_mismatch,
          str("random_samples must have the input's dtype, got ", text(samples.type())));
  for (int64_t i = 0; i < n; ++i)
    a.check(p.out[i] + p.size[i] - 1 <= p.in[i], Code::shape_mismatch,
            str("kernel ", text(p.size), " and output ", text(p.out), " must fit input ", text(x.dims())));
  const int64_t lead = numel(p.lead);
  if (x.numel() == 0) return {b.zeros({x.dtype(), p.shape(p.out)}), b.zeros({Dtype::i64, p.shape(p.out)})};
  const Value flat_samples = b.reshape(b.cast(samples, opmath(samples.dtype())), {lead, n});
  // positions [lead, out..., size...] in the flat plane
  Dims grid = p.folded(p.out);
  grid.insert(grid.end(), p.size.begin(), p.size.end());
  Value at;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t which = n == 2 ? 1 - i : i;  // in two dimensions the width's sample comes first
    const Value start = fractional_starts(b, b.reshape(b.slice_dim(flat_samples, 1, which, which + 1), {lead}), p.in[i],
                                          p.out[i], p.size[i]);
    const Value along = b.add(b.broadcast_in_dim(start, grid, {0, 1 + i}), b.iota({Dtype::i64, grid}, 1 + n + i));
    at = i == 0 ? along : b.add(b.mul(at, static_cast<double>(p.in[i])), along);
  }
  const Value global = b.add(at, b.mul(b.iota({Dtype::i64, grid}, 0), static_cast<double>(numel(p.in))));
  const Value y = take(b, b.flatten(x), global, 0);
  Dims window;
  for (int64_t i = 0; i < n; ++i) window.push_back(1 + n + i);
  const Values best = reduce_max_position(b, y, at, window);
  return {b.reshape(best[0], p.shape(p.out)), b.reshape(best[1], p.shape(p.out))};
}

Value unpool(Builder& b, Args& a, int64_t n) {
  const Value x = a.tensor("self"), indices = a.tensor("indices");
  a.check(indices.dtype() == Dtype::i64, Code::bad_value, str("indices must be i64, got ", text(indices.type())));
  a.check(indices.dims() == x.dims(), Code::shape_mismatch,
          str("indices must have the shape of the input ", text(x.dims()), ", got ", text(indices.dims())));
  const Dims size = a.ints("output_size");
  a.check(static_cast<int64_t>(size.size()) == n, Code::bad_value,
          str("output_size must have ", n, " entries, got ", text(size)));
  Pool p = read_lead(a, x, n);
  p.in = size;
  const Value ok =
      b.bit_and(b.compare(Cmp::ge, indices, 0.0), b.compare(Cmp::lt, indices, static_cast<double>(numel(size))));
  a.require(ok, Code::bad_value,
            str("indices must lie in the output plane of ", text(size), " (found an invalid max index)"));
  return place(b, p, x, indices, false);
}

}  // namespace

OP("_adaptive_avg_pool2d") { return adaptive_avg(b, a, 2); }
OP("_adaptive_avg_pool3d") { return adaptive_avg(b, a, 3); }
OP("_adaptive_avg_pool2d_backward") { return adaptive_avg_backward(b, a, 2); }
OP("_adaptive_avg_pool3d_backward") { return adaptive_avg_backward(b, a, 3); }
OP("adaptive_max_pool2d") { return adaptive_max(b, a, 2); }
OP("adaptive_max_pool3d") { return adaptive_max(b, a, 3); }
OP("adaptive_max_pool2d_backward") { return place_gradient(b, a, 2); }
OP("adaptive_max_pool3d_backward") { return place_gradient(b, a, 3); }
OP("fractional_max_pool2d") { return fractional_max(b, a, 2); }
OP("fractional_max_pool3d") { return fractional_max(b, a, 3); }
OP("fractional_max_pool2d_backward") { return place_gradient(b, a, 2); }
OP("fractional_max_pool3d_backward") { return place_gradient(b, a, 3); }
OP("max_unpool2d") { return unpool(b, a, 2); }
OP("max_unpool3d") { return unpool(b, a, 3); }

}  // namespace torchport::ops
