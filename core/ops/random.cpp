// Random tensors from the device's counter-based generator. The numbers differ from the CPU's, the distributions do
// not.
#include "ops/random.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/index.h"

namespace torchport::ops {

namespace {

Dtype float_of(Dtype d) { return d == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
void check_float(Args& a, Dtype d) {
  a.check(is_float(d), Code::dtype_unsupported, str("must get a floating point tensor, got ", name(d)));
}

// uniform and normal for real and complex types; a complex one has two independent parts.
Value uniform_of(Builder& b, Args& a, Dtype d, const Dims& dims, double from, double to) {
  if (is_complex(d))
    return b.complex(uniform_of(b, a, real_of(d), dims, from, to), uniform_of(b, a, real_of(d), dims, from, to));
  check_float(a, d);
  if (from == 0 && to == 1) return a.uniform(d, dims);
  const Dtype w = float_of(d);
  return b.cast(b.add(b.mul(a.uniform(w, dims), to - from), from), d);
}
Value normal_of(Builder& b, Args& a, Dtype d, const Dims& dims, double mean, double std) {
  if (is_complex(d)) {
    const double part = std / std::numbers::sqrt2;  // the parts' variances add up
    return b.complex(normal_of(b, a, real_of(d), dims, mean, part), normal_of(b, a, real_of(d), dims, 0, part));
  }
  check_float(a, d);
  const Dtype w = float_of(d);
  Value x = a.normal(w, dims);
  if (std != 1) x = b.mul(x, std);
  if (mean != 0) x = b.add(x, mean);
  return b.cast(x, d);
}

Value bernoulli(Builder& b, Args& a, const Value& p, Dtype d, const Dims& dims) {
  const Dtype w = float_of(p.dtype());
  return b.cast(b.lt(a.uniform(w, dims), b.broadcast_to(b.cast(p, w), dims)), d);
}
void check_probability(Args& a, double p) {
  a.check(p >= 0 && p <= 1, Code::bad_value, str("p must be in [0, 1], got ", p));
}
void require_probability(Builder& b, Args& a, const Value& p) {
  a.require(b.bit_and(b.compare(Cmp::ge, p, 0), b.compare(Cmp::le, p, 1)), Code::bad_value,
            "p must be in [0, 1] everywhere");
}

// Whole numbers from `from` on, `range` of them (0 = 2^64), as PyTorch draws them: bits modulo range.
Value integers(Builder& b, Args& a, Dtype d, const Dims& dims, int64_t from, uint64_t range) {
  if (is_bool(d) && range > 2) range = 2;
  Value drawn;
  if (range != 0 && range <= (uint64_t{1} << 32)) {
    drawn = a.random_bits(Dtype::u32, dims);
    if (range < (uint64_t{1} << 32)) drawn = b.rem(drawn, b.constant_int(static_cast<int64_t>(range), Dtype::u32));
    drawn = b.convert(drawn, Dtype::i64);
  } else {
    drawn = a.random_bits(Dtype::u64, dims);
    if (range != 0) drawn = b.rem(drawn, b.constant_int(static_cast<int64_t>(range), Dtype::u64));
    drawn = b.convert(drawn, Dtype::i64);
  }
  return b.cast(from == 0 ? drawn : b.add(drawn, b.constant_int(from, Dtype::i64)), d);
}
int mantissa(Dtype d) { return d == Dtype::f64 ? 53 : d == Dtype::f32 ? 24 : d == Dtype::f16 ? 11 : 8; }
int64_t largest(Dtype d) {  // that random_() draws
  if (is_float(d)) return int64_t{1} << mantissa(d);
  if (is_bool(d)) return 1;
  if (d == Dtype::u64 || d == Dtype::i64) return std::numeric_limits<int64_t>::max();
  return (int64_t{1} << (8 * size_of(d) - (is_unsigned(d) ? 0 : 1))) - 1;
}
int64_t smallest(Dtype d) {
  if (is_float(d)) return -(int64_t{1} << mantissa(d));
  if (is_bool(d) || is_unsigned(d)) return 0;
  return d == Dtype::i64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (8 * size_of(d) - 1));
}
Value integers_between(Builder& b, Args& a, Dtype d, const Dims& dims, int64_t from, int64_t to) {
  a.check(!is_complex(d), Code::dtype_unsupported, str("must not get a complex tensor, got ", name(d)));
  a.check(from < to, Code::bad_value, str("from must be less than to, got ", from, " and ", to));
  if (!is_float(d))
    a.check(from >= smallest(d) && to - 1 <= largest(d), Code::bad_value,
            str("[from, to) must fit ", name(d), ", got [", from, ", ", to, ")"));
  return integers(b, a, d, dims, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}

}  // namespace

// ---- in-place fills and their functional forms: self gives shape and dtype

OP("uniform uniform_", Promote::none, "from? to?") {
  const Value x = a.tensor("self");
  if (a.is("from", 0) && a.is("to", 1)) return uniform_of(b, a, x.dtype(), x.dims(), 0, 1);
  const Dtype w = float_of(real_of(x.dtype()));
  const Value from = a.number("from", w), to = a.number("to", w);
  a.require(b.le(from, to), Code::bad_value, "from must be at most to");
  auto part = [&] { return b.add(b.mul(a.uniform(w, x.dims()), b.sub(to, from)), from); };
  if (is_complex(x.dtype())) {
    const Value re = part();
    return b.complex(re, part());
  }
  check_float(a, x.dtype());
  return b.cast(part(), x.dtype());
}
OP("normal_functional normal_") {
  const Value x = a.tensor("self");
  a.check(a.f("std") >= 0, Code::bad_value, str("std must not be negative, got ", a.f("std")));
  return normal_of(b, a, x.dtype(), x.dims(), a.f("mean"), a.f("std"));
}
OP("bernoulli") {
  const Value p = a.tensor("self");
  check_float(a, p.dtype());
  require_probability(b, a, p);
  return bernoulli(b, a, p, p.dtype(), p.dims());
}
OP("bernoulli.p bernoulli_.float") {
  const Value x = a.tensor("self");
  check_probability(a, a.f("p"));
  return bernoulli(b, a, b.constant(a.f("p"), Dtype::f32), x.dtype(), x.dims());
}
OP("bernoulli.Tensor bernoulli_.Tensor") {
  const Value x = a.tensor("self"), p = a.tensor("p");
  require_probability(b, a, p);
  return bernoulli(b, a, is_float(p.dtype()) ? p : b.cast(p, Dtype::f32), x.dtype(), x.dims());
}
OP("random random_") {
  const Value x = a.tensor("self");
  return integers(b, a, x.dtype(), x.dims(), 0, static_cast<uint64_t>(largest(x.dtype())) + 1);
}
OP("random.to random_.to") {
  const Value x = a.tensor("self");
  return integers_between(b, a, x.dtype(), x.dims(), 0, a.i("to"));
}
OP("random.from random_.from") {
  const Value x = a.tensor("self");
  const int64_t from = a.i("from");
  if (a.has("to")) return integers_between(b, a, x.dtype(), x.dims(), from, a.i("to"));
  const int64_t last = largest(x.dtype());  // drawn too
  a.check(from <= last, Code::bad_value, str("from must be at most ", last, " for ", name(x.dtype()), ", got ", from));
  return integers(b, a, x.dtype(), x.dims(), from, static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1);
}
OP("exponential exponential_") {
  const Value x = a.tensor("self");
  check_float(a, x.dtype());
  const double rate = a.f("lambd");
  a.check(rate > 0, Code::bad_value, str("lambd must be positive, got ", rate));
  return b.cast(b.div(exponential(b, a, float_of(x.dtype()), x.dims()), rate), x.dtype());
}
OP("geometric geometric_") {
  const Value x = a.tensor("self");
  const double p = a.f("p");
  a.check(p > 0 && p < 1, Code::bad_value, str("p must be in (0, 1), got ", p));
  const Value u = b.rsub(1, a.uniform(float_of(x.dtype()), x.dims()));
  return b.cast(b.max(b.ceil(b.div(b.log(u), std::log1p(-p))), 1), x.dtype());
}
OP("cauchy cauchy_") {
  const Value x = a.tensor("self");
  check_float(a, x.dtype());
  a.check(a.f("sigma") > 0, Code::bad_value, str("sigma must be positive, got ", a.f("sigma")));
  const Value u = b.sub(a.uniform(float_of(x.dtype()), x.dims()), 0.5);
  const Value angle = b.mul(u, std::numbers::pi);
  return b.cast(b.add(b.mul(b.div(b.sin(angle), b.cos(angle)), a.f("sigma")), a.f("median")), x.dtype());
}
OP("log_normal log_normal_") {
  const Value x = a.tensor("self");
  check_float(a, x.dtype());
  a.check(a.f("std") > 0, Code::bad_value, str("std must be positive, got ", a.f("std")));
  return b.cast(b.exp(normal_of(b, a, float_of(x.dtype()), x.dims(), a.f("mean"), a.f("std"))), x.dtype());
}

// ---- factories

OP("rand rand.generator") { return uniform_of(b, a, a.dtype("dtype", a.default_dtype()), a.ints("size"), 0, 1); }
OP("randn randn.generator") { return normal_of(b, a, a.dtype("dtype", a.default_dtype()), a.ints("size"), 0, 1); }
OP("rand_like rand_like.generator") {
  const Value x = a.tensor("self");
  return uniform_of(b, a, a.dtype("dtype", x.dtype()), x.dims(), 0, 1);
}
OP("randn_like randn_like.generator") {
  const Value x = a.tensor("self");
  return normal_of(b, a, a.dtype("dtype", x.dtype()), x.dims(), 0, 1);
}
OP("randint randint.generator randint.low randint.low_generator") {
  return integers_between(b, a, a.dtype("dtype", Dtype::i64), a.ints("size"), a.find_attr("low") ? a.i("low") : 0,
                          a.i("high"));
}
OP("randint_like randint_like.generator randint_like.low_dtype randint_like.low_generator_dtype") {
  const Value x = a.tensor("self");
  return integers_between(b, a, a.dtype("dtype", x.dtype()), x.dims(), a.find_attr("low") ? a.i("low") : 0,
                          a.i("high"));
}
OP("randperm randperm.generator") {
  const int64_t n = a.i("n");
  a.check(n >= 0, Code::bad_value, str("n must not be negative, got ", n));
  const Value keys = a.random_bits(Dtype::u64, {n});
  const Values sorted = b.sort({keys, b.iota({index_dtype(n), {n}}, 0)}, 0, true,
                               [&](const Values& v) { return Values{b.lt(v[0], v[1])}; });
  return b.cast(sorted[1], a.dtype("dtype", Dtype::i64));
}

OP("normal.float_float") {
  a.check(a.f("std") >= 0, Code::bad_value, str("std must not be negative, got ", a.f("std")));
  return normal_of(b, a, a.dtype("dtype", a.default_dtype()), a.ints("size"), a.f("mean"), a.f("std"));
}
OP("normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor") {
  auto part = [&](const char* n) {
    return std::holds_alternative<graph::Ref>(*a.find_attr(n)) ? a.tensor(n) : Value{};
  };
  Value mean = part("mean"), std = part("std");
  const Dtype d = (mean ? mean : std).dtype();
  const Dims dims = broadcast(mean ? mean.dims() : Dims{}, std ? std.dims() : Dims{}, a.where());
  if (!std) a.check(a.f("std") >= 0, Code::bad_value, str("std must not be negative, got ", a.f("std")));
  if (std && !is_complex(std.dtype()))
    a.require(b.compare(Cmp::ge, std, 0), Code::bad_value, "std must not be negative anywhere");
  const Dtype w = is_complex(d) ? d : float_of(d);
  if (!mean) mean = b.constant(a.f("mean"), w);
  if (!std) std = b.constant(a.f("std"), w);
  return b.cast(b.add(b.mul(normal_of(b, a, w, dims, 0, 1), b.cast(std, w)), b.cast(mean, w)), d);
}

// ---- dropout

OP("native_dropout") {
  const Value x = a.tensor("input");
  const double p = a.f("p"), keep = 1 - p;
  check_probability(a, p);
  if (!a.flag("train", true)) return {x, b.constant(1, Dtype::b1, x.dims())};
  const Value mask = bernoulli(b, a, b.constant(keep, Dtype::f32), Dtype::b1, x.dims());
  const Value scaled = b.cast(b.mul(b.cast(x, opmath(x.dtype())), keep == 0 ? 0 : 1 / keep), x.dtype());
  return {b.mul(scaled, b.cast(mask, x.dtype())), mask};
}
OP("native_dropout_backward") {
  const Value given = a.tensor("grad_output"), mask = a.tensor("mask");
  const Value grad = is_integral(given.dtype()) ? b.cast(given, a.default_dtype()) : given;
  const Value scaled =
      b.cast(b.mul(b.cast(grad, opmath(grad.dtype())), a.number("scale", opmath(grad.dtype()))), grad.dtype());
  return b.mul(scaled, b.cast(mask, grad.dtype()));
}

}  // namespace torchport::ops
