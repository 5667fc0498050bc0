// Places of values among others: searchsorted, bucketize, isin, histc, nonzero_static.
#include <cmath>

#include "ops/math.h"
#include "ops/scan.h"

namespace torchport::ops {

namespace {

// How many of the sorted numbers lie before each value: binary search, all values in step. seq: [..., M], x: [..., N]
// with equal leading dims, or seq of one dimension. The predicates are PyTorch's, so that NaN goes to the end.
Value count_before(Builder& b, const Value& seq, const Value& x, bool right) {
  const int64_t m = seq.dim(-1);
  const Dims dims = x.dims();
  if (m == 0 || x.numel() == 0) return b.constant(0, Dtype::i64, dims);
  const int64_t rows = seq.rank() == 1 ? 1 : seq.numel() / m;
  const Value table = b.reshape(seq, {rows, m}), values = b.reshape(x, {rows, x.numel() / rows});
  const Dims shape = values.dims();
  GatherDims g;
  g.collapsed_slice_dims = {0, 1}, g.start_index_map = {0, 1}, g.index_vector_dim = 2;
  const Value row = b.iota({Dtype::i64, {shape[0], shape[1], 1}}, 0);
  Value low = b.constant(0, Dtype::i64, shape), high = b.constant(static_cast<double>(m), Dtype::i64, shape);
  for (int64_t left = m; left > 0; left /= 2) {
    const Value middle = b.div(b.add(low, high), 2), open = b.lt(low, high);
    const Value at =
        b.gather(table, b.concatenate({row, b.unsqueeze(b.min(middle, static_cast<double>(m - 1)), 2)}, 2), g, {1, 1});
    const Value after = b.bit_and(open, b.logical_not(right ? b.gt(at, values) : b.ge(at, values)));
    high = b.select(b.bit_and(open, b.logical_not(after)), middle, high);
    low = b.select(after, b.add(middle, 1), low);
  }
  return b.reshape(low, dims);
}
Value as_index(Builder& b, Args& a, const Value& i) { return b.cast(i, a.flag("out_int32") ? Dtype::i32 : Dtype::i64); }

Value search(Builder& b, Args& a, const Value& seq, const Value& x, bool right) {
  a.check(seq.rank() > 0, Code::bad_value, "must get boundaries of at least 1 dimension, got 0");
  if (seq.rank() > 1 || x.rank() == 0) {
    Dims l = seq.dims(), r = x.dims();
    l.pop_back();
    if (!r.empty()) r.pop_back();
    a.check(seq.rank() == 1 || l == r, Code::bad_value,
            str("boundaries must be 1-dimensional or have the values' leading dimensions, got ", text(seq.dims()),
                " and ", text(x.dims())));
  }
  return as_index(b, a, count_before(b, seq, x, right));
}

}  // namespace

OP("searchsorted.Tensor searchsorted.Scalar", Promote::same, "sorter-") {
  Value seq = a.tensor("sorted_sequence");
  const std::string side = a.text("side");
  a.check(side.empty() || side == "left" || side == "right", Code::bad_value,
          str("side must be 'left' or 'right', got '", side, "'"));
  a.check(side != "left" || !a.flag("right"), Code::bad_value,
          "side and right must agree, got side='left' and right=True");
  if (a.has("sorter")) {
    const Value order = a.tensor("sorter");
    a.check(order.dims() == seq.dims(), Code::bad_value,
            str("sorter must have shape ", text(seq.dims()), ", got ", text(order.dims())));
    a.check(order.dtype() == Dtype::i64, Code::bad_value, str("sorter must hold int64, got ", name(order.dtype())));
    const int64_t m = seq.dim(-1), rows = m == 0 ? 0 : seq.numel() / m;
    if (rows > 0) {
      const Value index = b.reshape(order, {rows, m, 1}), row = b.iota({Dtype::i64, {rows, m, 1}}, 0);
      a.require(b.bit_and(b.compare(Cmp::ge, index, 0), b.compare(Cmp::lt, index, static_cast<double>(m))),
                Code::bad_value, str("sorter must hold indices in [0, ", m, ")"));
      GatherDims g;
      g.collapsed_slice_dims = {0, 1}, g.start_index_map = {0, 1}, g.index_vector_dim = 2;
      seq = b.reshape(b.gather(b.reshape(seq, {rows, m}), b.concatenate({row, index}, 2), g, {1, 1}), seq.dims());
    }
  }
  return search(b, a, seq, a.tensor("self"), side == "right" || a.flag("right"));
}
OP("bucketize.Tensor bucketize.Scalar", Promote::same) {
  const Value bounds = a.tensor("boundaries");
  a.check(bounds.rank() == 1, Code::bad_value, str("boundaries must be 1-dimensional, got ", text(bounds.dims())));
  return search(b, a, bounds, a.tensor("self"), a.flag("right"));
}

OP("isin.Tensor_Tensor", Promote::same, "elements+ test_elements+") {
  const Value x = a.tensor("elements"), set = b.flatten(a.tensor("test_elements"));
  const Value hit = b.eq(b.unsqueeze(x, x.rank()), set);
  const Value any = b.reduce(Reduce::any, hit, {x.rank()});
  return a.flag("invert") ? b.logical_not(any) : any;
}
OP("isin.Tensor_Scalar isin.Scalar_Tensor", Promote::same, "element+ elements+ test_element+ test_elements+") {
  const bool one = a.op_name() == "isin.Scalar_Tensor";
  const Value x = a.tensor(one ? "element" : "elements"),
              set = b.flatten(a.tensor(one ? "test_elements" : "test_element"));
  const Value any = b.reduce(Reduce::any, b.eq(b.unsqueeze(x, x.rank()), set), {x.rank()});
  return a.flag("invert") ? b.logical_not(any) : any;
}

// Bins of equal width over [min, max], or over the data's own range when both are equal.
OP("histc") {
  const Value self = a.tensor("self");
  const int64_t bins = a.i("bins");
  a.check(bins > 0, Code::bad_value, str("bins must be above 0, got ", bins));
  // Integers as on accelerators: models that count experts' tokens rely on it (PyTorch's CPU takes floats only).
  a.check(is_float(self.dtype()) || is_int(self.dtype()), Code::dtype_unsupported,
          str("must get a floating point or integer tensor, got ", name(self.dtype())));
  const Value x = b.flatten(is_int(self.dtype()) ? b.cast(self, Dtype::f64) : widen(b, self));
  const Dtype d = x.dtype();
  if (x.numel() == 0) return b.constant(0, self.dtype(), {bins});
  Value low = a.number("min", d), high = a.number("max", d);
  const Value own = b.eq(low, high);
  low = b.select(own, b.reduce(Reduce::min, x, {0}), low), high = b.select(own, b.reduce(Reduce::max, x, {0}), high);
  const Value point = b.eq(low, high);
  low = b.select(point, b.sub(low, 1), low), high = b.select(point, b.add(high, 1), high);
  a.require(b.bit_and(b.is_finite(low), b.is_finite(high)), Code::bad_value, "must get a finite range [min, max]");
  a.require(b.le(low, high), Code::bad_value, "max must not be below min");
  const Value inside = b.bit_and(b.ge(x, low), b.le(x, high));
  const Value position = b.floor(b.div(b.mul(b.sub(x, low), static_cast<double>(bins)), b.sub(high, low)));
  Value bin = b.cast(b.select(inside, position, b.like(x, 0)), Dtype::i64);
  bin = b.min(bin, static_cast<double>(bins - 1));
  ScatterDims s;
  s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0}, s.index_vector_dim = 1;
  auto add = [&](const Values& v) { return Values{b.add(v[0], v[1])}; };
  const Value counts =
      b.scatter(b.constant(0, Dtype::i64, {bins}), b.unsqueeze(bin, 1), b.cast(inside, Dtype::i64), s, add);
  return b.cast(counts, self.dtype());
}

// The first `size` places of non-zero elements, one row each; rows that are left over hold fill_value.
OP("nonzero_static") {
  const Value self = a.tensor("self");
  const int64_t size = a.i("size"), n = self.numel(), rank = self.rank();
  a.check(size >= 0, Code::bad_value, str("size must not be negative, got ", size));
  const Value fill = b.constant_int(a.i("fill_value"), Dtype::i64, {size, rank});
  if (n == 0 || size == 0 || rank == 0) return fill;
  const Value on = b.flatten(b.cast(self, Dtype::b1));
  const Value row = b.sub(running_sum(b, b.cast(on, Dtype::i64), 0), 1.0);
  Values columns;
  for (int64_t k = 0; k < rank; ++k) columns.push_back(b.reshape(b.iota({Dtype::i64, self.dims()}, k), {n, 1}));
  ScatterDims s;
  s.update_window_dims = {1}, s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  // rows past the end are dropped by scatter, as are those of zero elements, sent there
  const Value place = b.select(on, row, b.constant(static_cast<double>(size), Dtype::i64, {n}));
  return b.scatter(fill, b.unsqueeze(place, 1), b.concatenate(columns, 1), s);
}

}  // namespace torchport::ops
