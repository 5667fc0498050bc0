// Reductions to values; those that also give an index are in arg_reduce.cpp.
#include "ops/reduce.h"

#include <cmath>

#include "ops/math.h"

namespace torchport::ops {

Dims reduced_dims(Args& a, const Value& x) {
  if (a.find_attr("dim")) return a.dims("dim", x);
  Dims all;
  for (int64_t d = 0; d < x.rank(); ++d) all.push_back(d);
  return all;
}
Value reduce_over(Builder& b, Reduce kind, const Value& x, const Dims& dims, bool keep) {
  return dims.empty() ? x : b.reduce_keep(kind, x, dims, keep);
}
double reduced_count(const Value& x, const Dims& dims) {
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(x.dims()[d]);
  return n;
}
Value keep_dims(Builder& b, const Value& reduced, const Value& x, const Dims& dims) {
  Dims kept = x.dims();
  for (int64_t d : dims) kept[d] = 1;
  return b.reshape(reduced, kept);
}
Dtype sum_dtype(Args& a, const Value& x) { return a.dtype("dtype", is_integral(x.dtype()) ? Dtype::i64 : x.dtype()); }

static Value total(Builder& b, Args& a, const Value& x) {
  return reduce_over(b, Reduce::add, x, reduced_dims(a, x), keepdim(a));
}

OP("sum sum.dim_IntList") {
  const Value x = a.tensor("self");
  const Dtype d = sum_dtype(a, x);
  return b.cast(total(b, a, b.cast(x, opmath(d))), d);
}
OP("nansum") {
  const Value x = a.tensor("self");
  const Dtype d = sum_dtype(a, x);
  a.check(!is_complex(x.dtype()), Code::bad_value, "must get a real tensor, got complex");
  const Value y = is_float(x.dtype()) ? b.select(b.is_nan(x), b.like(x, 0), x) : x;
  return b.cast(total(b, a, b.cast(y, opmath(d))), d);
}
OP("mean mean.dim") {
  const Value x = a.tensor("self");
  const Dtype d = a.dtype("dtype", x.dtype());
  a.check(!is_integral(d), Code::bad_value,
          str("must get a floating point or complex dtype (could not infer output dtype), got ", name(d)));
  const Value y = b.cast(x, opmath(d));
  return b.cast(b.div(total(b, a, y), reduced_count(y, reduced_dims(a, y))), d);
}
OP("prod prod.dim_int") {
  const Value x = a.tensor("self");
  const Dtype d = sum_dtype(a, x);
  const Value y = b.cast(x, opmath(d));
  return b.cast(reduce_over(b, Reduce::mul, y, reduced_dims(a, y), keepdim(a)), d);
}

static void expect_elements(Args& a, const Value& x, const Dims& dims) {
  for (int64_t d : dims)
    a.check(x.dims()[d] > 0, Code::dim_out_of_range,
            str("must reduce over at least one element, got size 0 at dimension ", d));
}
static Value extreme(Builder& b, Args& a, Reduce kind) {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get a real tensor, got complex");
  a.check(x.rank() <= 64 || !a.find_attr("dim"), Code::bad_value,
          str("must get at most 64 dimensions (only tensors with up to 64 dims are supported), got ", x.rank()));
  const Dims dims = reduced_dims(a, x);
  const bool all = !a.find_attr("dim") || !a.has("dim") ||
                   (a.op_name().starts_with("am") && a.op_name() != "aminmax" && a.ints("dim").empty());
  a.check(!all || x.numel() > 0, Code::bad_value,
          str("must get dim for a tensor without elements, got ", text(x.type())));
  expect_elements(a, x, dims);
  return reduce_over(b, kind, x, dims, keepdim(a));
}
OP("amax") { return extreme(b, a, Reduce::max); }
OP("amin") { return extreme(b, a, Reduce::min); }
OP("max") { return extreme(b, a, Reduce::max); }
OP("min") { return extreme(b, a, Reduce::min); }
OP("aminmax _aminmax _aminmax.dim", .out = kOwnDtype) {
  return {extreme(b, a, Reduce::min), extreme(b, a, Reduce::max)};
}

// uint8 answers in uint8, everything else in bool. An empty list of dims reduces nothing, None everything.
static Value logical(Builder& b, Args& a, Reduce kind) {
  const Value x = a.tensor("self");
  const Value truth = b.cast(x, Dtype::b1);
  const bool none = a.find_attr("dim") && a.has("dim") && a.op_name().ends_with(".dims") && a.ints("dim").empty();
  const Value r = none ? truth : reduce_over(b, kind, truth, reduced_dims(a, x), keepdim(a));
  return x.dtype() == Dtype::u8 ? b.cast(r, Dtype::u8) : r;
}
OP("all all.dim all.dims _is_all_true") { return logical(b, a, Reduce::all); }
OP("any any.dim any.dims _is_any_true") { return logical(b, a, Reduce::any); }

OP("count_nonzero count_nonzero.dim_IntList") {
  const Value x = a.tensor("self");
  return reduce_over(b, Reduce::add, b.cast(b.cast(x, Dtype::b1), Dtype::i64), reduced_dims(a, x), false);
}

OP("logsumexp", Promote::to_float, "", kOpmath) {
  const Value x = a.tensor("self");
  const Dims dims = reduced_dims(a, x);
  if (x.numel() == 0) return b.log(reduce_over(b, Reduce::add, b.exp(x), dims, keepdim(a)));
  const Value top = reduce_over(b, Reduce::max, b.real(x), dims, false);
  const Value shift = b.cast(b.select(b.is_finite(top), top, b.like(top, 0)), x.dtype());
  const Value sum = reduce_over(b, Reduce::add, b.exp(b.sub(x, keep_dims(b, shift, x, dims))), dims, false);
  const Value r = b.add(b.log(sum), shift);
  return keepdim(a) ? keep_dims(b, r, x, dims) : r;
}

OP("trace") {
  const Value x = a.tensor("self");
  a.check(x.rank() == 2, Code::bad_value, str("must get a matrix, got ", text(x.type())));
  const Dtype d = sum_dtype(a, x);
  const Value on = b.eq(b.iota({Dtype::i32, x.dims()}, 0), b.iota({Dtype::i32, x.dims()}, 1));
  const Value y = b.cast(x, opmath(d));
  return b.cast(b.reduce(Reduce::add, b.select(on, y, b.like(y, 0)), {0, 1}), d);
}

// Exclusive or of all elements' 64 bits: of the double for floating point, of the integer itself otherwise.
OP("hash_tensor") {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get a real tensor, got complex");
  a.check(a.i("mode") == 0, Code::bad_value, str("mode must be 0, got ", a.i("mode")));
  const Dims dims = reduced_dims(a, x);
  a.check(x.numel() > 0 || !a.ints("dim").empty(), Code::bad_value, "must get dim for a tensor without elements");
  const Value bits = is_float(x.dtype()) ? b.bitcast(b.cast(x, Dtype::f64), Dtype::u64) : b.cast(x, Dtype::u64);
  if (dims.empty()) return bits;
  auto body = [&](const Values& v) { return Values{b.bit_xor(v[0], v[1])}; };
  const Value r = b.reduce({bits}, {b.constant(0, Dtype::u64)}, dims, body)[0];
  return keepdim(a) ? keep_dims(b, r, x, dims) : r;
}

}  // namespace torchport::ops
