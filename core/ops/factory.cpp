// Tensors made of numbers: full, arange, linspace, logspace, and their likes.
#include <cmath>

#include "ops/op.h"

namespace torchport::ops {

namespace {

using Kind = graph::Number::Kind;

Dtype dtype_of(Args& a, Kind kind) {
  switch (kind) {
    case Kind::boolean: return Dtype::b1;
    case Kind::integer: return Dtype::i64;
    case Kind::real: return a.default_dtype();
    default: return complex_of(a.default_dtype());
  }
}
Dims size_of_result(Args& a) {
  const Dims size = a.ints("size");
  for (int64_t n : size) a.check(n >= 0, Code::bad_value, str("size must not be negative, got ", text(size)));
  return size;
}
Value fill(Builder& b, const Value& number, const Dims& dims) { return b.full(number, dims); }
Value fill(Builder& b, double v, Dtype d, const Dims& dims) { return b.constant(v, d, dims); }
bool is_tensor(Args& a, std::string_view name) { return std::holds_alternative<graph::Ref>(*a.find_attr(name)); }

}  // namespace

OP("full", Promote::none, "fill_value~") {
  return fill(b, a.number("fill_value", a.dtype("dtype", dtype_of(a, a.raw("fill_value").kind))), size_of_result(a));
}
OP("zeros") { return fill(b, 0, a.dtype("dtype", a.default_dtype()), size_of_result(a)); }
OP("ones") { return fill(b, 1, a.dtype("dtype", a.default_dtype()), size_of_result(a)); }
OP("scalar_tensor") { return a.number("s", a.dtype("dtype", a.default_dtype())); }
OP("full_like", Promote::none, "fill_value~") {
  const Value x = a.tensor("self");
  return fill(b, a.number("fill_value", a.dtype("dtype", x.dtype())), x.dims());
}
OP("zeros_like") {
  const Value x = a.tensor("self");
  return fill(b, 0, a.dtype("dtype", x.dtype()), x.dims());
}
OP("ones_like") {
  const Value x = a.tensor("self");
  return fill(b, 1, a.dtype("dtype", x.dtype()), x.dims());
}
OP("new_full", Promote::none, "fill_value~") {
  return fill(b, a.number("fill_value", a.dtype("dtype", a.tensor("self").dtype())), size_of_result(a));
}
OP("new_zeros") { return fill(b, 0, a.dtype("dtype", a.tensor("self").dtype()), size_of_result(a)); }
OP("new_ones") { return fill(b, 1, a.dtype("dtype", a.tensor("self").dtype()), size_of_result(a)); }

// ---- arange: the size follows from the numbers, so they are static

OP("arange arange.start arange.start_step", Promote::none, "start! end! step!") {
  auto given = [&](const char* n, int64_t otherwise) {
    return a.find_attr(n) ? a.raw(n) : graph::Number{Kind::integer, otherwise, static_cast<double>(otherwise), -1};
  };
  const graph::Number start = given("start", 0), end = given("end", 0), step = given("step", 1);
  const bool integers = start.kind <= Kind::integer && end.kind <= Kind::integer && step.kind <= Kind::integer;
  const Dtype d = a.dtype("dtype", integers ? Dtype::i64 : a.default_dtype());
  a.check(!is_complex(d) && !is_bool(d), Code::dtype_unsupported,
          str("dtype must be an integer or float type, got ", name(d)));
  const double first = start.real(), last = end.real(), by = step.real();
  a.check(by != 0, Code::bad_value, "step must be nonzero, got 0");
  a.check(std::isfinite(first) && std::isfinite(last), Code::bad_value,
          str("start and end must be finite, got ", first, " and ", last));
  a.check(by > 0 ? last >= first : last <= first, Code::bad_value,
          str("end must lie on step's side of start, got start ", first, ", end ", last, " and step ", by));
  auto whole = [](const graph::Number& n) { return n.kind <= Kind::integer ? n.i : static_cast<int64_t>(n.c.real()); };
  double count = std::ceil((last - first) / by);
  if (d == Dtype::i64) {  // in integers: a double does not hold them all
    const int64_t s = whole(step);
    a.check(s != 0, Code::bad_value, str("step must be nonzero, got ", by));
    count = static_cast<double>((whole(end) - whole(start) + s - (s > 0 ? 1 : -1)) / s);
  }
  a.check(count >= 0 && count <= 9.0e18, Code::bad_value, str("size must be in range, got ", count));
  const Dims dims{static_cast<int64_t>(count)};
  const Dtype w = is_int(d) ? Dtype::i64 : is_half(d) ? Dtype::f32 : a.platform_has_f64() ? Dtype::f64 : Dtype::f32;
  if (is_int(w)) {
    const Value i = b.iota({w, dims}, 0);
    const Value scaled = whole(step) == 1 ? i : b.mul(i, b.constant_int(whole(step), w));
    return b.cast(whole(start) == 0 ? scaled : b.add(scaled, b.constant_int(whole(start), w)), d);
  }
  return b.cast(b.add(b.mul(b.iota({w, dims}, 0), by), first), d);
}

// ---- linspace, logspace

// From both ends towards the middle, as PyTorch computes it: both ends are exact.
static Value spaced(Builder& b, Args& a, Dtype d, Dtype w) {
  const int64_t steps = a.i("steps");
  a.check(steps >= 0, Code::bad_value, str("steps must not be negative, got ", steps));
  for (const char* n : {"start", "end"})
    if (is_tensor(a, n))
      a.check(a.tensor(n).rank() == 0, Code::bad_value, str(n, " must be 0-d, got ", text(a.tensor(n).type())));
  // An integer result starts and ends at whole numbers.
  auto number = [&](const char* n) {
    return is_int(d) ? b.cast(a.number(n, Dtype::i64), w) : b.cast(a.number(n, d), w);
  };
  const Value start = number("start"), end = number("end");
  if (steps < 2) return b.full(start, {steps});
  const Value step = b.div(b.sub(end, start), b.constant(static_cast<double>(steps - 1), w));
  const Value i = b.iota({Dtype::i32, {steps}}, 0), up = b.cast(i, w),
              down = b.cast(b.rsub(static_cast<double>(steps - 1), i), w);
  return b.select(b.compare(Cmp::lt, i, static_cast<double>(steps / 2)), b.add(start, b.mul(step, up)),
                  b.sub(end, b.mul(step, down)));
}
static Dtype spaced_dtype(Args& a) {
  bool complex = false;
  for (const char* n : {"start", "end"})
    complex |= is_tensor(a, n) ? is_complex(a.tensor(n).dtype()) : a.raw(n).kind == Kind::complex;
  const Dtype d = a.dtype("dtype", complex ? complex_of(a.default_dtype()) : a.default_dtype());
  a.check(!complex || is_complex(d), Code::bad_value, str("dtype must be complex for complex ends, got ", name(d)));
  return d;
}
static Dtype spaced_wide(Args& a, Dtype d) {
  return is_integral(d) ? (a.platform_has_f64() ? Dtype::f64 : Dtype::f32) : opmath(d);
}

OP("linspace linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor") {
  const Dtype d = spaced_dtype(a);
  return b.cast(spaced(b, a, d, spaced_wide(a, d)), d);
}
OP("logspace logspace.Tensor_Tensor logspace.Tensor_Scalar logspace.Scalar_Tensor") {
  const Dtype d = spaced_dtype(a), w = spaced_wide(a, d);
  const Value exponent = spaced(b, a, d, w);
  return b.cast(b.pow(b.constant(a.f("base"), w), exponent), d);
}

}  // namespace torchport::ops
