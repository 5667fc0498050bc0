#include "ops/linalg.h"

#include <cmath>

namespace torchport::ops {

void expect_matrix(Args& a, const Value& x, bool square, Code wrong_dtype) {
  a.check(x.rank() >= 2, Code::bad_value,
          str("must get a tensor of at least 2 dimensions (A must be batches of matrices), got ", text(x.type())));
  a.check(!square || x.dim(-1) == x.dim(-2), Code::bad_value,
          str("must get batches of square matrices, got ", text(x.type())));
  const Dtype d = real_of(x.dtype());
  a.check(d == Dtype::f32 || d == Dtype::f64, wrong_dtype,
          str("must get a floating point or complex tensor of single or double precision, got ", text(x.type())));
}
Dims batch_of(const Value& x) { return Dims(x.dims().begin(), x.dims().end() - 2); }
Value flat(Builder& b, const Value& x) { return b.reshape(x, {numel(batch_of(x)), x.dim(-2), x.dim(-1)}); }
Value unflat(Builder& b, const Value& x, const Dims& batch) {
  Dims d = batch;
  d.insert(d.end(), x.dims().begin() + 1, x.dims().end());
  return b.reshape(x, d);
}
Value transposed(Builder& b, const Value& x) { return b.swap_dims(x, -1, -2); }
Value adjoint(Builder& b, const Value& x) { return transposed(b, conj(b, x)); }

// column - row of the last two dimensions against k
static Value compare_diagonal(Builder& b, Cmp c, const Dims& dims, int64_t k) {
  const Type t{Dtype::i32, dims};
  const int64_t r = static_cast<int64_t>(dims.size());
  return b.compare(c, b.sub(b.iota(t, r - 1), b.iota(t, r - 2)), static_cast<double>(k));
}
Value identity(Builder& b, const Value& like, int64_t rows, int64_t columns) {
  Dims d = batch_of(like);
  d.push_back(rows), d.push_back(columns);
  return b.cast(compare_diagonal(b, Cmp::eq, d, 0), like.dtype());
}
Value upper(Builder& b, const Value& x, int64_t k) {
  return b.select(compare_diagonal(b, Cmp::ge, x.dims(), k), x, b.like(x, 0));
}
Value lower(Builder& b, const Value& x, int64_t k) {
  return b.select(compare_diagonal(b, Cmp::le, x.dims(), k), x, b.like(x, 0));
}
Value diagonal(Builder& b, const Value& x) {
  const int64_t k = std::min(x.dim(-1), x.dim(-2));
  const Value square = b.slice_dim(b.slice_dim(x, -1, 0, k), -2, 0, k);
  return b.reduce(Reduce::add, b.select(compare_diagonal(b, Cmp::eq, square.dims(), 0), square, b.like(square, 0)),
                  {x.rank() - 1});
}

OP("linalg_cross", .own_order = true) {
  const Value x = a.tensor("self"), y = a.tensor("other");
  a.check(x.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", text(x.type()), " and ", text(y.type())));
  a.check(x.rank() == y.rank(), Code::bad_value,
          str("must get two tensors of one rank, got ", text(x.type()), " and ", text(y.type())));
  const Dims dims = broadcast(x.dims(), y.dims(), a.where());
  const int64_t dim = a.dim("dim", x);
  a.check(x.dim(dim) == 3 && y.dim(dim) == 3, Code::bad_value,
          str("must get a size of 3 at dim ", dim, ", got ", text(x.dims()), " and ", text(y.dims())));
  const Value u = b.broadcast_to(b.cast(x, opmath(x.dtype())), dims),
              v = b.broadcast_to(b.cast(y, opmath(y.dtype())), dims);
  auto at = [&](const Value& t, int64_t i) { return b.slice_dim(t, dim, i % 3, i % 3 + 1); };
  Values parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(b.sub(b.mul(at(u, i + 1), at(v, i + 2)), b.mul(at(u, i + 2), at(v, i + 1))));
  return b.cast(b.concatenate(parts, dim), x.dtype());
}

// exp(A) by scaling, a Taylor polynomial of degree 18 and repeated squaring.
OP("linalg_matrix_exp", .own_order = true) {
  const Value given = a.tensor("self"), self = b.cast(given, opmath(given.dtype()));  // halves too, unlike its kin
  expect_matrix(a, self, true);
  if (self.numel() == 0) return given;
  const Value x = flat(b, self);
  const Dtype real = real_of(x.dtype());
  const int64_t batch = x.dim(0);
  const Value norm = b.reduce(Reduce::max, b.reduce(Reduce::add, b.abs(x), {1}), {1});  // [B]
  const Value steps = b.max(b.ceil(b.div(b.log(b.max(norm, 1e-30)), std::log(2.0))), 0.0);
  const Value finite = b.select(b.is_finite(steps), steps, b.like(steps, 0)), count = b.convert(finite, Dtype::i32);
  const Value scale = b.pow(b.constant(0.5, real, {batch}), finite);
  const Value scaled = b.mul(x, b.cast(b.broadcast_in_dim(scale, x.dims(), {0}), x.dtype()));
  const Value one = identity(b, x, x.dim(1), x.dim(1));
  Value sum = one;
  for (int k = 18; k >= 1; --k) sum = b.add(one, b.div(product(b, scaled, sum), static_cast<double>(k)));
  const Value most = b.reduce(Reduce::max, count, {0});
  const Values r = b.while_loop(
      {b.constant_int(0, Dtype::i32), sum, count, most}, [&](const Values& v) { return Values{b.lt(v[0], v[3])}; },
      [&](const Values& v) {
        const Value more = b.broadcast_in_dim(b.lt(b.full(v[0], v[2].dims()), v[2]), v[1].dims(), {0});
        return Values{b.add(v[0], 1.0), b.select(more, product(b, v[1], v[1]), v[1]), v[2], v[3]};
      });
  return b.cast(b.reshape(r[1], self.dims()), given.dtype());
}

}  // namespace torchport::ops
