// Elementwise ops of three operands, fills.
#include "ops/math.h"

namespace torchport::ops {

OP("where.self", .promote = Promote::same, .marks = "condition-", .out = kOwnDtype) {
  const Value c = a.tensor("condition");
  a.check(is_bool(c.dtype()) || c.dtype() == Dtype::u8, Code::bad_value,
          str("condition must be a bool tensor, got ", name(c.dtype())));
  return b.select(b.cast(c, Dtype::b1), a.tensor("self"), a.tensor("other"));
}

static void expect_real(Args& a) {
  a.check(!is_complex(a.dtype()), Code::dtype_unsupported, "must get real tensors, got complex ones");
}
OP("clamp clamp.Tensor", Promote::same) {
  expect_real(a);
  a.check(a.has("min") || a.has("max"), Code::bad_value, "must get min, max or both, got none");
  Value x = a.tensor("self");
  if (a.has("min")) x = b.max(x, a.tensor("min"));
  return a.has("max") ? b.min(x, a.tensor("max")) : x;
}
OP("clamp_min clamp_min.Tensor", Promote::same) { return expect_real(a), b.max(a.tensor("self"), a.tensor("min")); }
OP("clamp_max clamp_max.Tensor", Promote::same) { return expect_real(a), b.min(a.tensor("self"), a.tensor("max")); }

OP("lerp.Scalar lerp.Tensor", Promote::same, "end- weight-", kOpmath) {
  const Value x = a.tensor("self");
  auto same = [&](const char* arg) {  // torch does not promote here
    const Value v = a.tensor(arg);
    a.check(v.dtype() == a.dtype(), Code::dtype_mismatch,
            str(arg, " must have the dtype of self (expected dtype ", name(a.dtype()), "), got ", name(v.dtype())));
    return b.cast(v, x.dtype());
  };
  const Value end = same("end");
  a.check(!is_integral(x.dtype()), Code::dtype_unsupported,
          str("must get floating point tensors, got ", name(x.dtype())));
  const Value w = a.op_name() == "lerp.Scalar" ? a.number("weight", x.dtype()) : same("weight");
  // From the nearer end, as PyTorch, so that both ends are met exactly.
  const Value d = b.sub(end, x), near = b.compare(Cmp::lt, b.abs(w), 0.5);
  return b.select(near, b.add(x, b.mul(w, d)), b.sub(end, b.mul(d, b.rsub(1, w))));
}

static Value weighted(Builder& b, Args& a, const Value& v) {
  return a.is("value", 1) ? v : b.mul(a.number("value", v.dtype()), v);
}
OP("addcmul", Promote::same, "value~", kOpmath) {
  a.check(!is_bool(a.dtype()), Code::op_unsupported, "must get numbers (not implemented for bool), got bool tensors");
  return b.add(a.tensor("self"), b.mul(weighted(b, a, a.tensor("tensor1")), a.tensor("tensor2")));
}
OP("addcdiv", Promote::same, "value~", kOpmath) {
  a.check(!is_integral(a.dtype()), Code::bad_value,
          "must get floating point tensors: integer division with addcdiv is no longer supported");
  return b.add(a.tensor("self"), b.div(weighted(b, a, a.tensor("tensor1")), a.tensor("tensor2")));
}

// Matrices x[k] summed with each row of coefficients: a polynomial of a matrix (matrix_exp).
OP("_compute_linear_combination") {
  const Value x = a.tensor("input"), c = a.tensor("coefficients");
  a.check(x.rank() > 0 && c.rank() == 2 && c.dim(1) == x.dim(0), Code::bad_value,
          str("coefficients must be a matrix with ", x.rank() ? x.dim(0) : 0, " columns, got ", text(c.dims())));
  return b.dot_general(c, x, {}, {}, {1}, {0}, x.dtype());
}

OP("fill.Scalar") {
  const Value x = a.tensor("self");
  return b.full(a.number("value", x.dtype()), x.dims());
}
OP("fill.Tensor") {
  const Value x = a.tensor("self"), v = a.tensor("value");
  a.check(v.rank() == 0, Code::bad_value, str("value must be a 0-dimensional tensor, got ", v.rank(), " dimensions"));
  return b.full(b.cast(v, x.dtype()), x.dims());
}
OP("zero") { return b.zeros(a.tensor("self").type()); }

OP("masked_fill.Scalar masked_fill.Tensor") {
  const Value x = a.tensor("self"), mask = a.tensor("mask");
  a.check(is_bool(mask.dtype()), Code::bad_value, str("mask must be a bool tensor, got ", name(mask.dtype())));
  const bool number = a.op_name() == "masked_fill.Scalar";
  const bool complex =
      number ? a.raw("value").kind == graph::Number::Kind::complex : is_complex(a.tensor("value").dtype());
  a.check(!complex || is_complex(x.dtype()), Code::bad_value,
          str("value must be real for a real tensor (value cannot be converted to type ", name(x.dtype()),
              " without overflow), got a complex one"));
  if (number) return b.select(mask, a.number("value", x.dtype()), x);
  const Value v = a.tensor("value");
  a.check(v.rank() == 0, Code::bad_value, str("value must be a 0-dimensional tensor, got ", v.rank(), " dimensions"));
  return b.select(mask, b.cast(v, x.dtype()), x);
}

}  // namespace torchport::ops
