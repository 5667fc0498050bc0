// Comparisons, logic and bits: ops whose values are exact.
#include "ops/math.h"

namespace torchport::ops {

static Value ordered(Builder& b, Args& a, Cmp c) {
  const Value x = a.tensor("self"), y = a.tensor("other");
  const bool order = c != Cmp::eq && c != Cmp::ne;
  a.check(!order || !is_complex(x.dtype()), Code::dtype_unsupported, "must get real tensors, got complex ones");
  return b.compare(c, x, y);
}
OP("eq.Tensor eq.Scalar", Promote::compare) { return ordered(b, a, Cmp::eq); }
OP("ne.Tensor ne.Scalar", Promote::compare) { return ordered(b, a, Cmp::ne); }
OP("lt.Tensor lt.Scalar", Promote::compare) { return ordered(b, a, Cmp::lt); }
OP("le.Tensor le.Scalar", Promote::compare) { return ordered(b, a, Cmp::le); }
OP("gt.Tensor gt.Scalar", Promote::compare) { return ordered(b, a, Cmp::gt); }
OP("ge.Tensor ge.Scalar", Promote::compare) { return ordered(b, a, Cmp::ge); }

static Value truth(Builder& b, Args& a, const char* name) { return b.cast(a.tensor(name), Dtype::b1); }
OP("logical_and") { return b.bit_and(truth(b, a, "self"), truth(b, a, "other")); }
OP("logical_or") { return b.bit_or(truth(b, a, "self"), truth(b, a, "other")); }
OP("logical_xor") { return b.bit_xor(truth(b, a, "self"), truth(b, a, "other")); }

static void expect_integral(Args& a) {
  a.check(is_integral(a.dtype()), Code::dtype_unsupported,
          str("must get integer or bool tensors, got ", name(a.dtype())));
}
#define BITS(NAME, METHOD)                                                   \
  OP(NAME ".Tensor " NAME ".Scalar " NAME ".Scalar_Tensor", Promote::same) { \
    expect_integral(a);                                                      \
    return b.METHOD(a.tensor("self"), a.tensor("other"));                    \
  }
BITS("bitwise_and", bit_and)
BITS("bitwise_or", bit_or)
BITS("bitwise_xor", bit_xor)

// StableHLO takes the distance as unsigned and gives 0 or the sign from the width on, which is what PyTorch does with
// distances that are too large or negative.
#define SHIFT(NAME, METHOD)                                                                                      \
  OP(NAME ".Tensor " NAME ".Tensor_Scalar " NAME ".Scalar_Tensor", Promote::same) {                              \
    a.check(is_int(a.dtype()), Code::dtype_unsupported, str("must get integer tensors, got ", name(a.dtype()))); \
    return b.METHOD(a.tensor("self"), a.tensor("other"));                                                        \
  }
SHIFT("bitwise_left_shift", shift_left)
SHIFT("bitwise_right_shift", shift_right)
// The operators << and >>.
OP("__lshift__.Tensor __lshift__.Scalar __rshift__.Tensor __rshift__.Scalar", Promote::same, "", kOpmath) {
  const bool left = a.op_name()[2] == 'l';
  const Value x = a.tensor("self"), y = a.tensor("other");
  if (is_int(x.dtype())) return left ? b.shift_left(x, y) : b.shift_right(x, y);
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get numbers, got ", name(x.dtype())));
  return left ? b.mul(x, exp2(b, y)) : b.div(x, exp2(b, y));
}

// Euclid's algorithm on every element until all remainders are 0.
static Value gcd(Builder& b, const Value& x, const Value& y) {
  const Dims dims = broadcast(x.dims(), y.dims(), b.where);
  const Value zero = b.constant(0, x.dtype(), dims);
  auto more = [&](const Values& v) {
    const Value left = b.compare(Cmp::ne, v[1], 0);
    return Values{b.reduce_keep(Reduce::any, left, {}, false)};
  };
  auto step = [&](const Values& v) {
    const Value done = b.compare(Cmp::eq, v[1], 0), divisor = b.select(done, b.like(v[1], 1), v[1]);
    return Values{b.select(done, v[0], v[1]), b.select(done, b.like(v[1], 0), b.rem(v[0], divisor))};
  };
  if (zero.numel() == 0) return zero;
  return b.while_loop({b.abs(b.broadcast_to(x, dims)), b.abs(b.broadcast_to(y, dims))}, more, step)[0];
}
OP("gcd", Promote::same) {
  a.check(is_int(a.dtype()), Code::dtype_unsupported, str("must get integer tensors, got ", name(a.dtype())));
  return b.abs(gcd(b, a.tensor("self"), a.tensor("other")));
}
OP("lcm", Promote::same) {
  a.check(is_int(a.dtype()), Code::dtype_unsupported, str("must get integer tensors, got ", name(a.dtype())));
  const Value x = a.tensor("self"), y = a.tensor("other"), g = gcd(b, x, y);
  const Value zero = b.compare(Cmp::eq, g, 0);
  return b.select(zero, b.like(g, 0), b.abs(b.mul(b.div(x, b.select(zero, b.like(g, 1), g)), y)));
}

}  // namespace torchport::ops
