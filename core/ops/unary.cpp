// Elementwise ops of one tensor.
#include <cmath>
#include <numbers>

#include "ops/math.h"

namespace torchport::ops {

#define UNARY(NAME, PROMOTE, ...)  \
  OP(NAME, PROMOTE, "", kOpmath) { \
    Value x = a.tensor("self");    \
    return __VA_ARGS__;            \
  }

UNARY("exp", Promote::to_float, b.exp(x))
UNARY("exp2", Promote::to_float, exp2(b, x))
UNARY("expm1", Promote::to_float, b.expm1(x))
UNARY("log", Promote::to_float, b.log(x))
UNARY("log1p", Promote::to_float, b.log1p(x))
UNARY("log2", Promote::to_float, b.mul(b.log(x), 1 / std::numbers::ln2))
UNARY("log10", Promote::to_float, b.mul(b.log(x), 1 / std::numbers::ln10))
UNARY("sqrt", Promote::to_float, b.sqrt(x))
UNARY("rsqrt", Promote::to_float, b.rsqrt(x))
UNARY("sin", Promote::to_float, b.sin(x))
UNARY("cos", Promote::to_float, b.cos(x))
UNARY("tan", Promote::to_float, b.unary("chlo.tan", x))
UNARY("sinh", Promote::to_float, b.unary("chlo.sinh", x))
UNARY("cosh", Promote::to_float, b.unary("chlo.cosh", x))
UNARY("tanh", Promote::to_float, b.tanh(x))
UNARY("asin", Promote::to_float, b.unary("chlo.asin", x))
UNARY("acos", Promote::to_float, b.unary("chlo.acos", x))
UNARY("atan", Promote::to_float, b.unary("chlo.atan", x))
UNARY("asinh", Promote::to_float, b.unary("chlo.asinh", x))
UNARY("acosh", Promote::to_float, b.unary("chlo.acosh", x))
UNARY("atanh", Promote::to_float, b.unary("chlo.atanh", x))
UNARY("sigmoid", Promote::to_float, b.sigmoid(x))
UNARY("reciprocal", Promote::to_float, b.div(b.like(x, 1), x))
UNARY("erf", Promote::to_float, b.unary("chlo.erf", x))
UNARY("erfc", Promote::to_float, b.unary("chlo.erfc", x))
UNARY("erfinv", Promote::to_float, b.unary("chlo.erf_inv", x))
UNARY("lgamma", Promote::to_float, b.unary("chlo.lgamma", x))
UNARY("digamma", Promote::to_float, digamma(b, x))
UNARY("deg2rad", Promote::to_float, b.mul(x, std::numbers::pi / 180))
UNARY("rad2deg", Promote::to_float, b.mul(x, 180 / std::numbers::pi))

OP("sinc", Promote::to_float, "", kOpmath) {
  const Value x = a.tensor("self"), y = b.mul(x, std::numbers::pi);
  return b.select(b.compare(Cmp::eq, x, 0), b.like(x, 1), b.div(b.sin(y), y));
}

OP("neg", .promote = Promote::same, .opmath = true, .out = kOwnDtype) {
  a.check(!is_bool(a.dtype()), Code::bad_value, "must not get a bool tensor; use ~ or logical_not() instead");
  return b.neg(a.tensor("self"));
}
OP("abs") {
  const Value x = a.tensor("self");
  a.check(!is_bool(x.dtype()), Code::dtype_unsupported, "must get numbers, got bool");
  return b.abs(x);
}

// sign is for real numbers; sgn of a complex one is its direction.
OP("sign sgn", .promote = Promote::same, .opmath = true, .out = kOwnDtype) {
  const Value x = a.tensor("self");
  a.check(a.op_name() == "sgn" || !is_complex(x.dtype()), Code::bad_value,
          "must not get a complex tensor; use sgn() instead");
  if (is_bool(x.dtype())) return x;
  if (is_unsigned(x.dtype())) return b.cast(b.compare(Cmp::ne, x, 0), x.dtype());
  // 0 for NaN, as PyTorch's comparisons give.
  return is_float(x.dtype()) ? b.select(b.is_nan(x), b.like(x, 0), b.sign(x)) : b.sign(x);
}
OP("signbit") {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::bad_value, "must get a real tensor, got complex");
  return sign_bit(b, x);
}

// Rounding leaves integers as they are.
#define ROUND(NAME, ...)                                                                     \
  OP(NAME, .promote = Promote::same, .opmath = true, .out = kOwnDtype) {                     \
    const Value x = a.tensor("self");                                                        \
    a.check(!is_complex(x.dtype()), Code::bad_value, "must get a real tensor, got complex"); \
    a.check(!is_bool(x.dtype()), Code::dtype_unsupported, "must get numbers, got bool");     \
    return is_integral(x.dtype()) ? x : __VA_ARGS__;                                         \
  }
ROUND("ceil", b.ceil(x))
ROUND("floor", b.floor(x))
ROUND("trunc", truncate(b, x))
ROUND("round", b.round_even(x))

OP("round.decimals", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  const int64_t decimals = a.i("decimals");
  a.check(is_float(x.dtype()) || (decimals == 0 && is_int(x.dtype())), Code::dtype_unsupported,
          "must get a floating point tensor");
  if (is_int(x.dtype())) return x;
  if (decimals == 0) return b.round_even(x);
  const double scale = std::pow(10.0, std::fabs(static_cast<double>(decimals)));
  return decimals > 0 ? b.div(b.round_even(b.mul(x, scale)), scale) : b.mul(b.round_even(b.div(x, scale)), scale);
}
OP("frac", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  a.check(is_float(x.dtype()), Code::dtype_unsupported, "must get a floating point tensor");
  return b.sub(x, truncate(b, x));
}

OP("isnan") { return b.is_nan(a.tensor("self")); }
OP("isinf") { return is_infinite(b, a.tensor("self")); }
OP("isposinf isneginf") {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::bad_value, "must get a real tensor, got complex");
  if (!is_float(x.dtype())) return b.constant(0, Dtype::b1, x.dims());
  return b.compare(Cmp::eq, x, a.op_name() == "isposinf" ? INFINITY : -INFINITY);
}

OP("logical_not") { return b.logical_not(b.cast(a.tensor("self"), Dtype::b1)); }
OP("bitwise_not", .out = kOwnDtype) {
  const Value x = a.tensor("self");
  a.check(is_integral(x.dtype()), Code::dtype_unsupported,
          str("must get an integer or bool tensor, got ", name(x.dtype())));
  return b.logical_not(x);
}

OP("angle") {
  const Value x = a.tensor("self");
  if (is_complex(x.dtype())) return b.atan2(b.imag(x), b.real(x));
  const Value f = is_float(x.dtype()) ? widen(b, x) : b.cast(x, a.default_dtype());
  const Value angle = b.select(b.compare(Cmp::lt, f, 0), b.like(f, std::numbers::pi), b.like(f, 0));
  return b.cast(b.select(b.is_nan(f), f, angle), is_float(x.dtype()) ? x.dtype() : f.dtype());
}
OP("conj_physical _conj_physical") {
  const Value x = a.tensor("self");
  return is_complex(x.dtype()) ? b.complex(b.real(x), b.neg(b.imag(x))) : x;
}

static Value replace_nonfinite(Builder& b, Args& a, const Value& x, Dtype limits) {
  // The largest finite numbers of the tensor's own dtype, not of the one it is computed in.
  const double top = limits == Dtype::f16    ? 65504.0
                     : limits == Dtype::bf16 ? 3.3895313892515355e38
                     : limits == Dtype::f32  ? 3.4028234663852886e38
                                             : 1.7976931348623157e308;
  Value y = b.select(b.is_nan(x), b.like(x, a.f("nan", 0)), x);
  y = b.select(b.compare(Cmp::eq, x, INFINITY), b.like(x, a.f("posinf", top)), y);
  return b.select(b.compare(Cmp::eq, x, -INFINITY), b.like(x, a.f("neginf", -top)), y);
}
OP("nan_to_num") {
  const Value x = a.tensor("self");
  if (is_integral(x.dtype())) return x;
  const Dtype limits = real_of(x.dtype());
  if (is_complex(x.dtype()))
    return b.complex(replace_nonfinite(b, a, b.real(x), limits), replace_nonfinite(b, a, b.imag(x), limits));
  return replace_nonfinite(b, a, x, limits);
}

OP("frexp.Tensor") {
  const Value x = a.tensor("self");
  a.check(is_float(x.dtype()), Code::bad_value, str("must get a floating point tensor, got ", name(x.dtype())));
  // The exponent by bits, in a type where the tensor's subnormals are normal numbers when there is one.
  const bool wide = x.dtype() == Dtype::f64;
  const Dtype f = wide ? Dtype::f64 : Dtype::f32, i = wide ? Dtype::i64 : Dtype::i32;
  const int mantissa = wide ? 52 : 23, bias = wide ? 1022 : 126;
  const int64_t field = wide ? 0x7ff : 0xff;
  const Value y = b.cast(x, f), special = b.bit_or(b.compare(Cmp::eq, y, 0), b.logical_not(b.is_finite(y)));
  const Value small = b.compare(Cmp::lt, b.abs(y), std::ldexp(1.0, wide ? -1022 : -126));
  const Value scaled = b.select(small, b.mul(y, std::ldexp(1.0, mantissa + 1)), y);
  const Value bits = b.bitcast(scaled, i);
  const Value e = b.sub(b.bit_and(b.shift_right(bits, b.constant_int(mantissa, i)), b.constant_int(field, i)), bias);
  const Value exponent = b.sub(e, b.select(small, b.like(e, mantissa + 1), b.like(e, 0)));
  const Value kept = b.bit_and(bits, b.constant_int(~(field << mantissa), i));
  const Value m = b.bitcast(b.bit_or(kept, b.constant_int(static_cast<int64_t>(bias) << mantissa, i)), f);
  return {b.cast(b.select(special, y, m), x.dtype()), b.cast(b.select(special, b.like(e, 0), exponent), Dtype::i32)};
}

OP("logit", Promote::to_float, "", kOpmath) {
  Value x = a.tensor("self");
  if (const double eps = a.f("eps", -1); eps >= 0)
    x = b.clamp(b.constant(eps, x.dtype()), x, b.constant(1 - eps, x.dtype()));
  return b.log(b.div(x, b.rsub(1, x)));
}
OP("logit_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  const double eps = a.f("eps", -1);
  const Value outside =
      b.bit_or(b.compare(Cmp::lt, x, eps < 0 ? 0 : eps), b.compare(Cmp::gt, x, eps < 0 ? 1 : 1 - eps));
  return b.select(outside, eps < 0 ? b.nan(x.dtype(), x.dims()) : b.like(x, 0), b.div(g, b.mul(x, b.rsub(1, x))));
}
OP("sigmoid_backward", Promote::same, "", kOpmath) {
  const Value y = a.tensor("output"), g = a.tensor("grad_output");
  if (!is_complex(y.dtype())) return b.mul(g, b.mul(b.rsub(1, y), y));
  const Value d = b.mul(b.rsub(1, y), y);
  return b.mul(g, b.complex(b.real(d), b.neg(b.imag(d))));
}
OP("tanh_backward", Promote::same, "", kOpmath) {
  const Value y = a.tensor("output"), g = a.tensor("grad_output"), d = b.rsub(1, square(b, y));
  return b.mul(g, is_complex(d.dtype()) ? b.complex(b.real(d), b.neg(b.imag(d))) : d);
}

}  // namespace torchport::ops
