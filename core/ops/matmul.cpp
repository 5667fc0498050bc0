// Matrix and vector products. Halves accumulate in f32 and round once; beta = 0 ignores the added tensor, NaN included.
#include "ops/product.h"

namespace torchport::ops {

static void expect_product(Args& a, const Value& x, const Value& y) {
  a.check(x.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get two operands of one dtype, got ", text(x.type()), " and ", text(y.type())));
  a.check(!is_bool(x.dtype()), Code::dtype_unsupported, str("must get numbers, got ", text(x.type())));
}
static void expect_rank(Args& a, const Value& x, int64_t rank, const char* which) {
  a.check(x.rank() == rank, Code::shape_mismatch, str(which, " must be a ", rank, "-D tensor, got ", text(x.type())));
}

// The checked product of matrices (rank 2) or batches of matrices (rank 3), in the accumulation dtype.
static Value matrices(Builder& b, Args& a, const Value& x, const Value& y, int64_t rank) {
  expect_rank(a, x, rank, "the first operand"), expect_rank(a, y, rank, "the second operand");
  expect_product(a, x, y);
  a.check(x.dim(-1) == y.dim(-2) && (rank == 2 || x.dim(0) == y.dim(0)), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(y.dims())));
  return product(b, x, y);
}
static Value vector(Builder& b, Args& a, const Value& mat, const Value& vec) {
  expect_rank(a, mat, 2, "the matrix"), expect_rank(a, vec, 1, "the vector");
  expect_product(a, mat, vec);
  a.check(mat.dim(1) == vec.dim(0), Code::shape_mismatch,
          str("shapes must multiply, got ", text(mat.dims()), " and ", text(vec.dims())));
  return b.dot_general(mat, vec, {}, {}, {1}, {0}, opmath(mat.dtype()));
}

// beta * self + alpha * product, rounded to self's dtype.
static Value combine(Builder& b, Args& a, const Value& self, const Value& product, Dtype factors) {
  a.check(self.dtype() == factors, Code::dtype_mismatch,
          str("self must have the dtype of the factors, ", name(factors), ", got ", text(self.type())));
  Value r = a.is("alpha", 1) ? product : b.mul(product, a.number("alpha", product.dtype()));
  const Value base = b.broadcast_to(b.cast(self, product.dtype()), product.dims());
  if (a.is("beta", 1))
    r = b.add(base, r);
  else if (!a.is("beta", 0))
    r = b.add(b.mul(base, a.number("beta", product.dtype())), r);
  return r;
}

OP("mm", .out = kOwnDtype) {
  const Value x = a.tensor("self");
  return b.cast(matrices(b, a, x, a.tensor("mat2"), 2), x.dtype());
}
OP("bmm", .out = kOwnDtype) {
  const Value x = a.tensor("self");
  return b.cast(matrices(b, a, x, a.tensor("mat2"), 3), x.dtype());
}
OP("mm.dtype") {
  const Value x = a.tensor("self");
  return b.cast(matrices(b, a, x, a.tensor("mat2"), 2), a.dtype("out_dtype", x.dtype()));
}
OP("bmm.dtype") {
  const Value x = a.tensor("self");
  return b.cast(matrices(b, a, x, a.tensor("mat2"), 3), a.dtype("out_dtype", x.dtype()));
}

OP("addmm", .marks = "beta~ alpha~", .out = kOwnDtype) {
  const Value x = a.tensor("mat1");
  return b.cast(combine(b, a, a.tensor("self"), matrices(b, a, x, a.tensor("mat2"), 2), x.dtype()), x.dtype());
}
OP("_addmm_activation", Promote::none, "beta~ alpha~") {
  const Value x = a.tensor("mat1");
  const Value r = combine(b, a, a.tensor("self"), matrices(b, a, x, a.tensor("mat2"), 2), x.dtype());
  if (!a.flag("use_gelu")) return b.cast(b.max(r, 0.0), x.dtype());
  // the tanh form of gelu
  const Value inner = b.mul(b.mul(r, b.add(b.mul(b.mul(r, r), 0.044715), 1.0)), 0.7978845608028654);
  return b.cast(b.mul(b.mul(r, 0.5), b.add(b.tanh(inner), 1.0)), x.dtype());
}
OP("baddbmm", .marks = "beta~ alpha~", .out = kOwnDtype) {
  const Value x = a.tensor("batch1");
  return b.cast(combine(b, a, a.tensor("self"), matrices(b, a, x, a.tensor("batch2"), 3), x.dtype()), x.dtype());
}
OP("addmm.dtype", Promote::none, "beta~ alpha~") {
  const Value x = a.tensor("mat1"), self = a.tensor("self");
  return b.cast(combine(b, a, self, matrices(b, a, x, a.tensor("mat2"), 2), self.dtype()),
                a.dtype("out_dtype", x.dtype()));
}
OP("baddbmm.dtype", Promote::none, "beta~ alpha~") {
  const Value x = a.tensor("batch1"), self = a.tensor("self");
  return b.cast(combine(b, a, self, matrices(b, a, x, a.tensor("batch2"), 3), self.dtype()),
                a.dtype("out_dtype", x.dtype()));
}
OP("addbmm", Promote::none, "beta~ alpha~") {
  const Value x = a.tensor("batch1"), y = a.tensor("batch2");
  expect_rank(a, x, 3, "batch1"), expect_rank(a, y, 3, "batch2");
  expect_product(a, x, y);
  a.check(x.dim(0) == y.dim(0) && x.dim(2) == y.dim(1), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(y.dims())));
  // one product that contracts the batch as well
  const Value sum = b.dot_general(x, y, {}, {}, {0, 2}, {0, 1}, opmath(x.dtype()));
  return b.cast(combine(b, a, a.tensor("self"), sum, x.dtype()), x.dtype());
}

OP("mv") {
  const Value m = a.tensor("self");
  return b.cast(vector(b, a, m, a.tensor("vec")), m.dtype());
}
OP("addmv", Promote::none, "beta~ alpha~") {
  const Value m = a.tensor("mat");
  return b.cast(combine(b, a, a.tensor("self"), vector(b, a, m, a.tensor("vec")), m.dtype()), m.dtype());
}

static Value inner(Builder& b, Args& a, const Value& x, const Value& y, bool conjugate) {
  expect_rank(a, x, 1, "the first operand"), expect_rank(a, y, 1, "the second operand");
  expect_product(a, x, y);
  a.check(x.dim(0) == y.dim(0), Code::shape_mismatch,
          str("must get two vectors of one length, got ", text(x.dims()), " and ", text(y.dims())));
  return b.cast(b.dot_general(conjugate ? conj(b, x) : x, y, {}, {}, {0}, {0}, opmath(x.dtype())), x.dtype());
}
OP("dot") { return inner(b, a, a.tensor("self"), a.tensor("tensor"), false); }
OP("vdot") { return inner(b, a, a.tensor("self"), a.tensor("other"), true); }

OP("addr", Promote::same, "beta~ alpha~", kOpmath) {
  const Value x = a.tensor("vec1"), y = a.tensor("vec2");
  expect_rank(a, x, 1, "vec1"), expect_rank(a, y, 1, "vec2");
  const Value outer = b.mul(b.reshape(x, {x.dim(0), 1}), b.reshape(y, {1, y.dim(0)}));
  if (is_bool(a.dtype())) {
    const Value r = a.is("alpha", 0) ? b.like(outer, 0) : outer;
    return a.is("beta", 0) ? r : b.add(b.broadcast_to(a.tensor("self"), outer.dims()), r);
  }
  return combine(b, a, a.tensor("self"), outer, outer.dtype());
}

OP("_int_mm") {
  const Value x = a.tensor("self"), y = a.tensor("mat2");
  a.check((x.dtype() == Dtype::i8 || x.dtype() == Dtype::u8) && y.dtype() == Dtype::i8, Code::dtype_mismatch,
          str("must get 8-bit integers, got ", text(x.type()), " and ", text(y.type())));
  const Value wide = b.cast(x, Dtype::i32);
  return matrices(b, a, wide, b.cast(y, Dtype::i32), 2);
}

}  // namespace torchport::ops
