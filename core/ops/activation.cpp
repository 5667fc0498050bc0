// Activations and what PyTorch's derivatives call for them.
#include <cmath>
#include <numbers>

#include "ops/math.h"

namespace torchport::ops {

static Value zero_where(Builder& b, const Value& pred, const Value& x) {
  return b.select(pred, b.constant(0, x.dtype()), x);
}
static void expect_float(Args& a) {
  a.check(!is_integral(a.dtype()), Code::dtype_unsupported,
          str("must get a floating point tensor, got ", name(a.dtype())));
}

OP("relu", Promote::same) {
  a.check(!is_bool(a.dtype()), Code::bad_value, "must get numbers, got bool");
  return b.max(a.tensor("self"), 0);
}
OP("threshold", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  return b.select(b.le(x, a.number("threshold", x.dtype())), a.number("value", x.dtype()), x);
}
OP("threshold_backward", Promote::same, "threshold~", kOpmath) {
  const Value x = a.tensor("self");
  return zero_where(b, b.le(x, a.number("threshold", x.dtype())), a.tensor("grad_output"));
}

// The normal distribution's density and cumulative function.
static Value normal_cdf(Builder& b, const Value& x) {
  return b.mul(b.add(b.unary("chlo.erf", b.mul(x, std::numbers::sqrt2 / 2)), 1), 0.5);
}
static Value gelu_inner(Builder& b, const Value& x) {
  const Value cube = b.mul(b.mul(x, x), x);
  return b.mul(b.add(x, b.mul(cube, 0.044715)), std::sqrt(2 / std::numbers::pi));
}
static bool tanh_gelu(Args& a) {
  const std::string how = a.text("approximate");
  a.check(how == "none" || how == "tanh", Code::bad_value,
          str("approximate must be 'none' or 'tanh', got '", how, "'"));
  return how == "tanh";
}
OP("gelu", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self");
  if (!tanh_gelu(a)) return b.mul(x, normal_cdf(b, x));
  return b.mul(b.mul(x, 0.5), b.add(b.tanh(gelu_inner(b, x)), 1));
}
OP("gelu_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  if (!tanh_gelu(a)) {
    const Value density = b.mul(b.exp(b.mul(square(b, x), -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
    return b.mul(g, b.add(normal_cdf(b, x), b.mul(x, density)));
  }
  const Value t = b.tanh(gelu_inner(b, x));
  const Value inner = b.mul(b.add(b.mul(square(b, x), 3 * 0.044715), 1), std::sqrt(2 / std::numbers::pi));
  const Value right = b.mul(b.mul(b.mul(x, 0.5), b.rsub(1, square(b, t))), inner);
  return b.mul(g, b.add(b.mul(b.add(t, 1), 0.5), right));
}

OP("silu", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self");
  return b.mul(x, b.sigmoid(x));
}
OP("silu_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), s = b.sigmoid(x);
  return b.mul(a.tensor("grad_output"), b.mul(s, b.add(b.mul(x, b.rsub(1, s)), 1)));
}
OP("mish", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self");
  return b.mul(x, b.tanh(softplus(b, x)));
}
OP("mish_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), t = b.tanh(softplus(b, x));
  return b.mul(a.tensor("grad_output"), b.add(t, b.mul(b.mul(x, b.sigmoid(x)), b.rsub(1, square(b, t)))));
}

// What elu's three numbers give: slope on the positive side, level and slope of the exponential.
struct Elu {
  Value positive, level, rate;
};
static Elu elu_numbers(Args& a, Builder& b, Dtype d) {
  const Value scale = a.number("scale", d);
  return {scale, b.mul(a.number("alpha", d), scale), a.number("input_scale", d)};
}
OP("elu", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self");
  const Elu e = elu_numbers(a, b, x.dtype());
  return b.select(b.compare(Cmp::le, x, 0), b.mul(b.expm1(b.mul(x, e.rate)), e.level), b.mul(x, e.positive));
}
OP("elu_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self_or_result"), g = a.tensor("grad_output");
  const Elu e = elu_numbers(a, b, x.dtype());
  const Value slope =
      a.flag("is_result") ? b.mul(e.rate, b.add(x, e.level)) : b.mul(b.mul(e.rate, e.level), b.exp(b.mul(x, e.rate)));
  return b.mul(g, b.select(b.compare(Cmp::le, x, 0), slope, e.positive));
}
OP("celu", Promote::same, "alpha!", kOpmath) {
  const Value x = a.tensor("self");
  const double alpha = a.f("alpha");
  a.check(alpha != 0, Code::bad_value, "alpha must not be 0 (ZeroDivisionError)");
  return b.select(b.compare(Cmp::le, x, 0), b.mul(b.expm1(b.mul(x, 1 / alpha)), alpha), x);
}

OP("hardtanh", Promote::same) {
  const Value x = a.tensor("self");
  return b.clamp(a.number("min_val", x.dtype()), x, a.number("max_val", x.dtype()));
}
OP("hardtanh_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  const Value low = b.le(x, a.number("min_val", x.dtype())), high = b.ge(x, a.number("max_val", x.dtype()));
  return zero_where(b, b.bit_or(low, high), a.tensor("grad_output"));
}
static Value hard_gate(Builder& b, const Value& x) { return b.div(b.min(b.max(b.add(x, 3), 0), 6), 6); }
OP("hardsigmoid", Promote::same, "", kOpmath) { return expect_float(a), hard_gate(b, a.tensor("self")); }
OP("hardsigmoid_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  const Value inside = b.bit_and(b.compare(Cmp::gt, x, -3), b.compare(Cmp::lt, x, 3));
  return b.select(inside, b.div(g, 6), b.like(g, 0));
}
OP("hardswish", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self");
  return b.mul(x, hard_gate(b, x));
}
OP("hardswish_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  const Value middle = b.mul(g, b.add(b.div(x, 3), 0.5));
  return zero_where(b, b.compare(Cmp::le, x, -3), b.select(b.compare(Cmp::lt, x, 3), middle, g));
}

static Value within(Builder& b, Args& a, const Value& x) {
  const Value l = a.number("lambd", x.dtype());
  return b.bit_and(b.ge(x, b.neg(l)), b.le(x, l));
}
OP("hardshrink", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  return zero_where(b, within(b, a, x), x);
}
OP("hardshrink_backward", Promote::same, "", kOpmath) {
  return zero_where(b, within(b, a, a.tensor("self")), a.tensor("grad_out"));
}
OP("softshrink", Promote::same, "lambd!", kOpmath) {
  const Value x = a.tensor("self");
  a.check(a.f("lambd") >= 0, Code::bad_value, str("lambd must be at least 0, got ", a.f("lambd")));
  const Value l = a.number("lambd", x.dtype());
  const Value outer = b.select(b.gt(x, l), b.sub(x, l), b.add(x, l));
  return zero_where(b, within(b, a, x), outer);
}
OP("softshrink_backward", Promote::same, "", kOpmath) {
  return zero_where(b, within(b, a, a.tensor("self")), a.tensor("grad_output"));
}

OP("softplus", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self"), beta = a.number("beta", x.dtype()), z = b.mul(x, beta);
  return b.select(b.gt(z, a.number("threshold", x.dtype())), x, b.div(b.log1p(b.exp(z)), beta));
}
OP("softplus_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output"), z = b.mul(x, a.number("beta", x.dtype()));
  return b.select(b.gt(z, a.number("threshold", x.dtype())), g, b.mul(g, b.sigmoid(z)));
}

OP("leaky_relu", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  return b.select(b.compare(Cmp::gt, x, 0), x, b.mul(x, a.number("negative_slope", x.dtype())));
}
OP("leaky_relu_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  return b.select(b.compare(Cmp::gt, x, 0), g, b.mul(g, a.number("negative_slope", x.dtype())));
}

// The buffer is what CPU PyTorch keeps, exp(-|x|); the derivative does without it.
OP("log_sigmoid_forward", Promote::same, "", kOpmath) {
  expect_float(a);
  const Value x = a.tensor("self"), e = b.exp(b.neg(b.abs(x)));
  return {b.sub(b.min(x, 0), b.log1p(e)), e};
}
OP("log_sigmoid_backward", Promote::same, "buffer-", kOpmath) {
  return b.mul(a.tensor("grad_output"), b.sigmoid(b.neg(a.tensor("self"))));
}

OP("_prelu_kernel", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self");
  return b.select(b.compare(Cmp::gt, x, 0), x, b.mul(x, a.tensor("weight")));
}
OP("_prelu_kernel_backward", Promote::same, "", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output"), on = b.compare(Cmp::gt, x, 0);
  return {b.select(on, g, b.mul(g, a.tensor("weight"))), zero_where(b, on, b.mul(x, g))};
}

// rrelu: negative elements get random slopes in training, which `noise` keeps for the derivative (1 elsewhere).
static Value mean_slope(Builder& b, Args& a, Dtype d) {
  return b.mul(b.add(a.number("lower", d), a.number("upper", d)), 0.5);
}
static Values rrelu(Builder& b, Args& a) {
  const Value x = a.tensor("self"), negative = b.compare(Cmp::le, x, 0);
  if (!a.flag("training")) return {b.select(negative, b.mul(x, mean_slope(b, a, x.dtype())), x), a.tensor("noise")};
  const Value low = a.number("lower", x.dtype()), high = a.number("upper", x.dtype());
  const Value slope = b.add(b.mul(a.uniform(x.dtype(), x.dims()), b.sub(high, low)), low);
  const Value noise = b.select(negative, slope, b.like(x, 1));
  return {b.mul(x, noise), noise};
}
OP("rrelu_with_noise_functional", Promote::same, "", kOpmath) { return rrelu(b, a); }
OP("rrelu_with_noise", Promote::same, "", kOpmath) {
  const Values r = rrelu(b, a);
  if (a.flag("training")) a.assign("noise", b.cast(r[1], a.dtype()));
  return r[0];
}
OP("rrelu_with_noise_", Promote::same, "", kOpmath) { return rrelu(b, a); }  // writes self and noise
OP("rrelu_with_noise_backward", Promote::same, "lower! upper!", kOpmath) {
  const Value x = a.tensor("self"), g = a.tensor("grad_output");
  // Below this spread the slopes are one number, and the noise may never have been filled.
  if (a.flag("training") && a.f("upper") - a.f("lower") > 1e-6) return b.mul(g, a.tensor("noise"));
  return b.select(b.compare(Cmp::gt, x, 0), g, b.mul(g, mean_slope(b, a, x.dtype())));
}

}  // namespace torchport::ops
