// Vector norms and what is built on them: distances between points, renorm.
#include <cmath>

#include "ops/math.h"
#include "ops/reduce.h"

namespace torchport::ops {

namespace {

// The p-norm over dims of real, widened values that are not negative.
Value p_norm(Builder& b, const Value& x, double p, const Dims& dims, bool keep) {
  auto sum = [&](const Value& v) { return reduce_over(b, Reduce::add, v, dims, keep); };
  if (p == INFINITY) return reduce_over(b, Reduce::max, x, dims, keep);
  if (p == -INFINITY) return reduce_over(b, Reduce::min, x, dims, keep);
  if (p == 0) return sum(b.cast(b.compare(Cmp::ne, x, 0), x.dtype()));
  if (p == 1) return sum(x);
  if (p == 2) return b.sqrt(sum(square(b, x)));
  return b.pow(sum(b.pow(x, p)), 1 / p);
}

Value norm(Builder& b, Args& a, const char* order) {
  const Value self = a.tensor("self");
  const Dtype d = a.dtype("dtype", self.dtype());
  a.check(!is_integral(d), Code::bad_value, str("must get a floating point or complex dtype, got ", name(d)));
  const double p = a.f(order, 2);
  const Value x = b.abs(widen(b, b.cast(self, d)));
  const Dims dims = reduced_dims(a, x);
  a.check(x.numel() > 0 || p >= 0, Code::bad_value,
          str("order ", p, " must get at least one element, got ", text(x.type())));
  for (int64_t k : dims)
    a.check(x.dims()[k] > 0 || p != INFINITY, Code::dim_out_of_range, "order inf must get at least one element");
  return b.cast(p_norm(b, x, p, dims, keepdim(a)), real_of(d));
}

}  // namespace

OP("linalg_vector_norm", .marks = "ord!", .own_order = true) { return norm(b, a, "ord"); }
OP("norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype", Promote::none, "p!") {
  return norm(b, a, "p");
}

// Slices along dim whose norm is above maxnorm are scaled down to it.
OP("renorm", Promote::none, "p!") {
  const Value self = a.tensor("self"), x = widen(b, self);
  a.check(!is_integral(x.dtype()), Code::bad_value,
          str("must get a floating point or complex tensor, got ", name(x.dtype())));
  a.check(a.f("p") > 0, Code::bad_value, str("p must be above 0, got ", a.f("p")));
  a.check(x.rank() > 1, Code::bad_value, str("must get at least 2 dimensions, got ", x.rank()));
  const int64_t dim = a.dim("dim", x);
  Dims others;
  for (int64_t k = 0; k < x.rank(); ++k)
    if (k != dim) others.push_back(k);
  const Value n = p_norm(b, b.abs(x), a.f("p"), others, true), limit = a.number("maxnorm", n.dtype());
  const Value factor = b.select(b.gt(n, limit), b.div(limit, b.add(n, 1e-7)), b.like(n, 1));
  return b.cast(b.mul(x, b.cast(factor, x.dtype())), self.dtype());
}

namespace {

// d/dx of the p-norm of a difference, times g: what cdist and pdist share. dist broadcasts against diff.
Value norm_slope(Builder& b, const Value& diff, const Value& g, const Value& dist, double p) {
  const Value zero = b.constant(0, diff.dtype());
  const Value flat = b.compare(Cmp::eq, dist, 0), safe = b.select(flat, b.like(dist, 1), dist);
  if (p == 0) return b.mul(diff, zero);
  if (p == 1) return b.mul(b.sign(diff), g);
  if (p == INFINITY) return b.select(b.eq(b.abs(diff), dist), b.mul(b.sign(diff), g), zero);
  Value s;
  if (p == 2) {
    s = b.div(b.mul(g, diff), safe);
  } else {
    const Value size = b.abs(diff);
    const Value power = b.mul(b.sign(diff), b.pow(b.div(size, safe), p - 1));
    s = b.select(b.compare(Cmp::eq, diff, 0), zero, b.mul(power, g));
  }
  return b.select(flat, zero, s);
}
// [..., P, 1, M] - [..., R... broadcast to one shape
Value gaps(Builder& b, const Value& x, const Value& y) {
  return b.sub(b.unsqueeze(x, x.rank() - 1), b.unsqueeze(y, y.rank() - 2));
}

}  // namespace

OP("_cdist_forward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("x1"), y = a.tensor("x2");
  a.check(x.rank() >= 2 && y.rank() >= 2, Code::bad_value,
          str("must get tensors of at least 2 dimensions, got ", text(x.dims()), " and ", text(y.dims())));
  a.check(x.dim(-1) == y.dim(-1), Code::bad_value,
          str("must get points of one size, got ", x.dim(-1), " and ", y.dim(-1)));
  const Value d = b.abs(gaps(b, x, y));
  return p_norm(b, d, a.f("p"), {d.rank() - 1}, false);
}
OP("_cdist_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("x1"), diff = gaps(b, x, a.tensor("x2"));
  const Value s = norm_slope(b, diff, b.unsqueeze(a.tensor("grad"), -1), b.unsqueeze(a.tensor("cdist"), -1), a.f("p"));
  return b.reduce(Reduce::add, b.broadcast_to(s, diff.dims()), {diff.rank() - 2});
}

// All pairs (i, j), i < j, of the rows, as flat indices.
static Value pair_index(Builder& b, int64_t n) {
  std::vector<int64_t> flat;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) flat.push_back(i * n + j);
  return b.constants(flat);
}
OP("_pdist_forward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  a.check(x.rank() == 2, Code::bad_value, str("must get a matrix, got ", text(x.dims())));
  const int64_t n = x.dim(0);
  if (n <= 1) return b.constant(0, x.dtype(), {0});
  const Value d = p_norm(b, b.abs(gaps(b, x, x)), a.f("p"), {2}, false);
  GatherDims g;
  g.collapsed_slice_dims = {0}, g.start_index_map = {0}, g.index_vector_dim = 1;
  return b.gather(b.flatten(d), b.unsqueeze(pair_index(b, n), 1), g, {1});
}
OP("_pdist_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad"), dist = a.tensor("pdist");
  const int64_t n = x.dim(0);
  if (n <= 1 || x.numel() == 0) return b.zeros(x.type());
  ScatterDims s;
  s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0}, s.index_vector_dim = 1, s.unique = true;
  auto matrix = [&](const Value& v) {
    const Value flat = b.scatter(b.constant(0, v.dtype(), {n * n}), b.unsqueeze(pair_index(b, n), 1), v, s);
    const Value upper = b.reshape(flat, {n, n});
    return b.unsqueeze(b.add(upper, b.transpose(upper, {1, 0})), 2);
  };
  const Value slope = norm_slope(b, gaps(b, x, x), matrix(g), matrix(dist), a.f("p"));
  return b.reduce(Reduce::add, slope, {1});
}

}  // namespace torchport::ops
