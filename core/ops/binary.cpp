// Arithmetic of two tensors, or of a tensor and a number.
#include <cmath>
#include <numbers>

#include "ops/math.h"

namespace torchport::ops {

// alpha * other, where alpha is nearly always 1.
static Value scaled(Builder& b, Args& a, const Value& other) {
  if (a.is("alpha", 1)) return other;
  using Kind = graph::Number::Kind;
  const Kind kind = a.raw("alpha").kind;
  a.check(kind != Kind::boolean || is_bool(a.dtype()), Code::bad_value,
          str("alpha must be a bool only for bool tensors, got one for ", name(a.dtype())));
  a.check(
      kind != Kind::real || !is_integral(a.dtype()), Code::bad_value,
      str("alpha must be an integer for integral tensors (argument alpha must not be a floating point number), got a "
          "real number for ",
          name(a.dtype())));
  a.check(kind != Kind::complex || is_complex(a.dtype()), Code::bad_value,
          str("alpha must be real for real tensors, got a complex number for ", name(a.dtype())));
  return b.mul(other, a.number("alpha", other.dtype()));
}
static void refuse_bool(Args& a, const char* instead) {
  a.check(
      !is_bool(a.given_dtype("self")) && !is_bool(a.given_dtype("other")), Code::bad_value,
      str("must not get bool tensors (subtraction with a bool tensor is not supported); use ", instead, " instead"));
}
static void refuse_complex(Args& a) {
  a.check(!is_complex(a.dtype()), Code::dtype_unsupported, "must get real tensors, got complex ones");
}

OP("add.Tensor add.Scalar", Promote::same, "alpha~", kOpmath) {
  return b.add(a.tensor("self"), scaled(b, a, a.tensor("other")));
}
OP("_add_relu.Tensor _add_relu.Scalar", Promote::same, "alpha~", kOpmath) {
  return b.max(b.add(a.tensor("self"), scaled(b, a, a.tensor("other"))), 0);
}
OP("sub.Tensor sub.Scalar", Promote::same, "alpha~", kOpmath) {
  refuse_bool(a, "^ or logical_xor()");
  return b.sub(a.tensor("self"), scaled(b, a, a.tensor("other")));
}
OP("rsub.Tensor rsub.Scalar", Promote::same, "alpha~", kOpmath) {
  refuse_bool(a, "^ or logical_xor()");
  return b.sub(a.tensor("other"), scaled(b, a, a.tensor("self")));
}
OP("mul.Tensor mul.Scalar", Promote::same, "", kOpmath) { return b.mul(a.tensor("self"), a.tensor("other")); }
OP("div.Tensor div.Scalar", Promote::to_float, "", kOpmath) { return b.div(a.tensor("self"), a.tensor("other")); }

// Integers have no value for a division by zero: PyTorch raises.
static void require_nonzero(Builder& b, Args& a, const Value& y) {
  if (is_int(y.dtype()))
    a.require(b.compare(Cmp::ne, y, 0), Code::zero_division, "must not divide by 0 (ZeroDivisionError)");
}
OP("div.Tensor_mode div.Scalar_mode", Promote::same, "", kOpmath) {
  const std::string mode = a.text("rounding_mode");
  Value x = a.tensor("self"), y = a.tensor("other");
  if (mode.empty()) {
    const Dtype d = is_integral(x.dtype()) ? a.default_dtype() : x.dtype();
    return b.div(b.cast(x, d), b.cast(y, d));
  }
  a.check(mode == "floor" || mode == "trunc", Code::bad_value,
          str("rounding_mode must be None, 'trunc' or 'floor', got '", mode, "'"));
  refuse_complex(a);
  require_nonzero(b, a, y);
  if (mode == "floor") return floor_div(b, x, y);
  return is_int(x.dtype()) ? b.div(x, y) : truncate(b, b.div(x, y));
}
OP("floor_divide floor_divide.Scalar", Promote::same, "", kOpmath) {
  refuse_complex(a);
  const Value y = a.tensor("other");
  require_nonzero(b, a, y);
  return floor_div(b, a.tensor("self"), y);
}
OP("remainder.Tensor remainder.Scalar remainder.Scalar_Tensor", Promote::same, "", kOpmath) {
  refuse_complex(a);
  const Value y = a.tensor("other");
  require_nonzero(b, a, y);
  return python_mod(b, a.tensor("self"), y);
}
OP("fmod.Tensor fmod.Scalar", Promote::same, "", kOpmath) {
  refuse_complex(a);
  const Value y = a.tensor("other");
  require_nonzero(b, a, y);
  return b.rem(a.tensor("self"), y);
}

// 0 for a negative exponent, except of the units 1 and -1.
static Value int_pow(Builder& b, const Value& x, const Value& e) {
  const Value p = b.pow(x, b.max(e, 0));
  if (is_unsigned(e.dtype())) return p;
  const Value odd = b.compare(Cmp::ne, b.bit_and(e, b.constant_int(1, e.dtype())), 0);
  const Value minus =
      b.select(b.compare(Cmp::eq, x, -1), b.select(odd, b.constant_int(-1, x.dtype()), b.constant_int(1, x.dtype())),
               b.constant_int(0, x.dtype()));
  const Value unit = b.select(b.compare(Cmp::eq, x, 1), b.constant_int(1, x.dtype()), minus);
  return b.select(b.compare(Cmp::lt, e, 0), unit, p);
}
OP("pow.Tensor_Tensor pow.Scalar", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), e = a.tensor("exponent");
  return is_int(x.dtype()) ? int_pow(b, x, e) : b.pow(x, e);
}
OP("pow.Tensor_Scalar", Promote::same, "exponent~", kOpmath) {
  const Value x = a.tensor("self");
  const bool whole = is_integral(x.dtype());
  if (whole) {
    const graph::Number n = a.raw("exponent");
    a.check(n.runtime >= 0 || n.i >= 0, Code::bad_value, "must not raise integers to a negative integer power");
    if (n.runtime >= 0) {
      a.require(b.compare(Cmp::ge, a.number("exponent", Dtype::i64), 0), Code::bad_value,
                "must not raise integers to a negative integer power");
    }
  }
  if (a.is("exponent", 0)) return b.like(x, 1);
  if (a.is("exponent", 1)) return x;
  if (a.is("exponent", 2)) return square(b, x);
  if (a.is("exponent", 3)) return b.mul(square(b, x), x);
  if (a.is("exponent", 0.5)) return b.sqrt(x);
  if (a.is("exponent", -0.5)) return b.rsqrt(x);
  if (a.is("exponent", -1)) return b.div(b.like(x, 1), x);
  if (a.is("exponent", -2)) return b.div(b.like(x, 1), square(b, x));
  const Value e = a.tensor("exponent");
  return is_int(x.dtype()) ? int_pow(b, x, e) : b.pow(x, e);
}

OP("maximum", Promote::same) { return refuse_complex(a), b.max(a.tensor("self"), a.tensor("other")); }
OP("minimum", Promote::same) { return refuse_complex(a), b.min(a.tensor("self"), a.tensor("other")); }
// Here a number outranks NaN.
OP("fmax fmin", Promote::same) {
  refuse_complex(a);
  const Value x = a.tensor("self"), y = a.tensor("other");
  const Value best = a.op_name() == "fmax" ? b.max(x, y) : b.min(x, y);
  return is_float(x.dtype()) ? b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, best)) : best;
}

OP("atan2", Promote::to_float, "", kOpmath) { return b.atan2(a.tensor("self"), a.tensor("other")); }
OP("hypot", Promote::same, "", kOpmath) {
  const Value x = b.abs(a.tensor("self")), y = b.abs(a.tensor("other"));
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point tensors, got ", name(x.dtype())));
  // Divided by the longer side first, so that no square overflows; an infinite side wins over NaN.
  const Value big = b.max(x, y), small = b.min(x, y);
  const Value r = b.mul(big, b.sqrt(b.add(square(b, b.div(small, big)), 1)));
  const Value edge = b.bit_or(b.compare(Cmp::eq, big, 0), b.compare(Cmp::eq, small, INFINITY));
  const Value infinite = b.bit_or(b.compare(Cmp::eq, x, INFINITY), b.compare(Cmp::eq, y, INFINITY));
  return b.select(infinite, b.like(big, INFINITY), b.select(edge, big, r));
}
OP("copysign.Tensor copysign.Scalar", Promote::to_float) {
  const Value x = b.abs(a.tensor("self")), y = a.tensor("other");
  return b.select(sign_bit(b, y), b.neg(x), x);
}
OP("nextafter", Promote::same) {
  const Value x = a.tensor("self"), y = a.tensor("other");
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point tensors, got ", name(x.dtype())));
  const Dims dims = broadcast(x.dims(), y.dims(), a.where());
  return b.binary("chlo.next_after", b.broadcast_to(x, dims), b.broadcast_to(y, dims));
}
OP("heaviside") {
  const Value x = a.tensor("self"), v = a.tensor("values");
  a.check(x.dtype() == v.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", name(x.dtype()), " and ", name(v.dtype())));
  a.check(!is_complex(x.dtype()), Code::bad_value, "must get real tensors, got complex ones");
  return b.select(b.compare(Cmp::eq, x, 0), v, b.cast(b.gt(x, b.constant(0, x.dtype())), x.dtype()));
}

OP("logaddexp", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), y = a.tensor("other");
  a.check(!is_integral(x.dtype()), Code::dtype_unsupported,
          str("must get floating point tensors, got ", name(x.dtype())));
  if (is_complex(x.dtype())) {
    const Value first = b.ge(b.real(x), b.real(y));
    const Value big = b.select(first, x, y), small = b.select(first, y, x);
    return b.add(big, b.log1p(b.exp(b.sub(small, big))));
  }
  const Value big = b.max(x, y), both = b.bit_and(b.eq(x, y), is_infinite(b, x));
  return b.select(both, x, b.add(big, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y)))))));
}
OP("logaddexp2", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), y = a.tensor("other");
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point tensors, got ", name(x.dtype())));
  const Value big = b.max(x, y), both = b.bit_and(b.eq(x, y), is_infinite(b, x));
  const Value log2 = b.mul(b.log1p(exp2(b, b.neg(b.abs(b.sub(x, y))))), 1 / std::numbers::ln2);
  return b.select(both, x, b.add(big, log2));
}

// x * log(y) that is 0 for x = 0, whatever y, but for NaN.
static Value times_log(Builder& b, const Value& x, const Value& y, const Value& log) {
  const Value zero = b.select(b.compare(Cmp::eq, x, 0), b.constant(0, x.dtype()), b.mul(x, log));
  return b.select(b.is_nan(y), y, zero);
}
OP("xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self", Promote::to_float, "", kOpmath) {
  const Value y = a.tensor("other");
  return times_log(b, a.tensor("self"), y, b.log(y));
}
OP("special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar", Promote::to_float, "", kOpmath) {
  const Value y = a.tensor("other");
  return times_log(b, a.tensor("self"), y, b.log1p(y));
}

OP("complex", .out = kOwnDtype) {
  const Value re = a.tensor("real"), im = a.tensor("imag");
  a.check(re.dtype() == im.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", name(re.dtype()), " and ", name(im.dtype())));
  a.check(is_float(re.dtype()) && !is_half(re.dtype()), Code::bad_value,
          str("must get float or double tensors, got ", name(re.dtype())));
  const Dims dims = broadcast(re.dims(), im.dims(), a.where());
  return b.complex(b.broadcast_to(re, dims), b.broadcast_to(im, dims));
}
OP("polar") {
  const Value r = a.tensor("abs"), t = a.tensor("angle");
  a.check(r.dtype() == t.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", name(r.dtype()), " and ", name(t.dtype())));
  a.check(is_float(r.dtype()) && !is_half(r.dtype()), Code::bad_value,
          str("must get float or double tensors, got ", name(r.dtype())));
  return b.complex(b.mul(r, b.cos(t)), b.mul(r, b.sin(t)));
}

}  // namespace torchport::ops
