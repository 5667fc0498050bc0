// Histograms over given or equally spaced edges: histogram, histogramdd. A bin holds its left edge, the last one both.
#include "ops/call.h"
#include "ops/math.h"

namespace torchport::ops {

namespace {

// Points as [N, D] and what each counts for.
struct Points {
  Value x, weight;
  int64_t d = 0;
};
Points points(Args& a, Builder& b, bool flat) {
  const Value self = a.tensor("self"), weight = a.tensor("weight");
  a.check(self.dtype() == Dtype::f32 || self.dtype() == Dtype::f64, Code::op_unsupported,
          str("must get float32 or float64 points (not implemented for others), got ", name(self.dtype())));
  a.check(flat || self.rank() >= 2, Code::bad_value,
          str("must get points of at least 2 dimensions, got ", text(self.type())));
  Points p;
  p.d = flat ? 1 : self.dim(-1);
  Dims lead = self.dims();
  if (!flat) lead.pop_back();
  p.x = b.reshape(self, {numel(lead), p.d});
  if (!weight) {
    p.weight = b.constant(1, self.dtype(), {p.x.dim(0)});
    return p;
  }
  a.check(weight.dtype() == self.dtype(), Code::bad_value,
          str("weight must have the input's dtype, ", name(self.dtype()), ", got ", name(weight.dtype())));
  a.check(weight.dims() == lead, Code::bad_value,
          str("weight must have one entry a point, shape ", text(lead), ", got ", text(weight.dims())));
  p.weight = b.flatten(weight);
  return p;
}

// Equally spaced edges, one vector a dimension, over `range` or the points' own.
Values edges(Builder& b, Args& a, const Points& p, const Dims& bins) {
  const Dtype d = p.x.dtype();
  const std::vector<double> range = a.floats("range");
  a.check(static_cast<int64_t>(bins.size()) == p.d, Code::bad_value,
          str("bins must have one entry a dimension of the points, ", p.d, ", got ", text(bins)));
  a.check(range.empty() || static_cast<int64_t>(range.size()) == 2 * p.d, Code::bad_value,
          str("range must have ", 2 * p.d, " entries, got ", range.size()));
  Values out;
  for (int64_t k = 0; k < p.d; ++k) {
    a.check(bins[k] > 0, Code::bad_value, str("bins must be > 0, got ", bins[k], " for dimension ", k));
    Value low = b.constant(0, d), high = b.constant(1, d);
    if (!range.empty()) {
      a.check(
          range[2 * k] <= range[2 * k + 1], Code::bad_value,
          str("min should not exceed max, got min ", range[2 * k], " max ", range[2 * k + 1], " for dimension ", k));
      low = b.constant(range[2 * k], d), high = b.constant(range[2 * k + 1], d);
    } else if (p.x.numel() > 0) {
      const Value column = b.slice_dim(p.x, 1, k, k + 1);
      low = b.reduce(Reduce::min, column, {0, 1}), high = b.reduce(Reduce::max, column, {0, 1});
    }
    a.require(b.bit_and(b.is_finite(low), b.is_finite(high)), Code::bad_value,
              str("must get a finite range, got infinity or NaN in dimension ", k));
    const Value point = b.eq(low, high);  // one value: a bin of width 1 around it
    low = b.select(point, b.sub(low, 0.5), low), high = b.select(point, b.add(high, 0.5), high);
    out.push_back(call1(b, a, "linspace.Tensor_Tensor",
                        {{"start", low}, {"end", high}, {"steps", integer(bins[k] + 1)}, {"dtype", graph::Attr(d)}}));
  }
  return out;
}

// Each point's bin in every dimension, then one sum a cell.
Value counts(Builder& b, Args& a, const Points& p, const Values& edges) {
  const Dtype d = p.x.dtype();
  const int64_t n = p.x.dim(0);
  Dims shape;
  Value cell = b.constant(0, Dtype::i64, {n}), inside = b.constant(1, Dtype::b1, {n}), volume;
  for (int64_t k = 0; k < p.d; ++k) {
    const Value& e = edges[k];
    const int64_t bins = e.dim(0) - 1;
    const Value x = b.reshape(b.slice_dim(p.x, 1, k, k + 1), {n});
    const Value first = b.slice(e, {0}, {1}), last = b.slice(e, {bins}, {bins + 1});
    inside = b.bit_and(inside, b.bit_and(b.ge(x, first), b.le(x, last)));
    const Value after =
        call1(b, a, "bucketize.Tensor",
              {{"self", x}, {"boundaries", e}, {"out_int32", graph::Attr(false)}, {"right", graph::Attr(true)}});
    const Value bin = b.clamp(b.constant(0, Dtype::i64), b.sub(after, 1.0),
                              b.constant(static_cast<double>(std::max<int64_t>(bins - 1, 0)), Dtype::i64));
    cell = b.add(b.mul(cell, static_cast<double>(bins)), bin);
    shape.push_back(bins);
    Dims along(p.d, 1);
    along[k] = bins;
    const Value width = b.reshape(b.sub(b.slice(e, {1}, {bins + 1}), b.slice(e, {0}, {bins})), along);
    volume = volume ? b.mul(volume, width) : width;
  }
  Value hist = b.constant(0, d, {numel(shape)});
  if (n > 0 && numel(shape) > 0) {
    ScatterDims s;
    s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0}, s.index_vector_dim = 1;
    auto add = [&](const Values& v) { return Values{b.add(v[0], v[1])}; };
    hist = b.scatter(hist, b.unsqueeze(cell, 1), b.select(inside, p.weight, b.like(p.weight, 0)), s, add);
  }
  if (a.flag("density")) {
    const Value total = b.reduce(Reduce::add, hist, {0});
    return b.div(b.reshape(hist, shape), b.mul(b.broadcast_to(volume, shape), total));
  }
  return b.reshape(hist, shape);
}
Value checked_edges(Args& a, const Value& e, const Points& p) {
  a.check(e.rank() == 1, Code::bad_value, str("bins must be vectors (one dimension), got ", text(e.type())));
  a.check(e.numel() > 0, Code::bad_value, "bins must have at least one edge, got none");
  a.check(e.dtype() == p.x.dtype(), Code::bad_value,
          str("bins must have the input's dtype, ", name(p.x.dtype()), ", got ", name(e.dtype())));
  return e;
}

}  // namespace

OP("histogram.bin_ct") {
  const Points p = points(a, b, true);
  const Values e = edges(b, a, p, {a.i("bins")});
  return {counts(b, a, p, e), e[0]};
}
OP("histogram.bins_tensor") {
  const Points p = points(a, b, true);
  const Value e = checked_edges(a, a.tensor("bins"), p);
  return {counts(b, a, p, {e}), e};
}
OP("_histogramdd_bin_edges") { return edges(b, a, points(a, b, false), a.ints("bins")); }
OP("_histogramdd_from_bin_cts") {
  const Points p = points(a, b, false);
  return counts(b, a, p, edges(b, a, p, a.ints("bins")));
}
OP("_histogramdd_from_bin_tensors") {
  const Points p = points(a, b, false);
  const Values bins = a.tensors("bins");
  a.check(static_cast<int64_t>(bins.size()) == p.d, Code::bad_value,
          str("bins must have one tensor a dimension of the points, ", p.d, ", got ", bins.size()));
  for (const Value& e : bins) checked_edges(a, e, p);
  return counts(b, a, p, bins);
}

}  // namespace torchport::ops
