// Reductions that also tell where: the first element that holds the extreme value, NaN above all others.
#include <limits>

#include "ops/reduce.h"

namespace torchport::ops {

namespace {

struct Found {
  Value values, indices;
};
// Two plain reductions: the value, then the smallest index that holds it. Plain reductions vectorise, a reduction over
// pairs does not.
Found extreme_at(Builder& b, const Value& x, bool largest, int64_t dim, bool keep) {
  const Value best = b.reduce_keep(largest ? Reduce::max : Reduce::min, x, {dim}, true);
  Value hit = b.eq(x, best);
  if (is_float(x.dtype())) hit = b.bit_or(hit, b.is_nan(x));
  const Value place = b.iota({Dtype::i64, x.dims()}, dim);
  const Value first = b.reduce_keep(Reduce::min, b.select(hit, place, b.highest(Dtype::i64)), {dim}, true);
  if (keep) return {best, first};
  return {b.squeeze(best, dim), b.squeeze(first, dim)};
}
void expect_real(Args& a, const Value& x) {
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get a real tensor, got complex");
}
void expect_size(Args& a, const Value& x, int64_t dim) {
  a.check(x.dim(dim) > 0, Code::dim_out_of_range,
          str("must reduce over at least one element, got size 0 at dimension ", dim));
}

Result extreme_dim(Builder& b, Args& a, bool largest) {
  const Value x = a.tensor("self");
  expect_real(a, x);
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return {x, b.constant(0, Dtype::i64)};
  expect_size(a, x, dim);
  const Found f = extreme_at(b, x, largest, dim, keepdim(a));
  return {f.values, f.indices};
}
Value arg_extreme(Builder& b, Args& a, bool largest) {
  const Value x = a.tensor("self");
  expect_real(a, x);
  a.check(!is_bool(x.dtype()), Code::bad_value, "must get numbers, got bool");
  if (a.has("dim")) {
    const int64_t dim = a.dim("dim", x);
    if (x.rank() == 0) return b.constant(0, Dtype::i64);
    expect_size(a, x, dim);
    return extreme_at(b, x, largest, dim, keepdim(a)).indices;
  }
  a.check(x.numel() > 0, Code::dim_out_of_range, str("must get a tensor with elements, got ", text(x.type())));
  const Value at = extreme_at(b, b.flatten(x), largest, 0, false).indices;
  return keepdim(a) ? b.reshape(at, Dims(x.rank(), 1)) : at;
}

}  // namespace

OP("max.dim") { return extreme_dim(b, a, true); }
OP("min.dim") { return extreme_dim(b, a, false); }
OP("argmax") { return arg_extreme(b, a, true); }
OP("argmin") { return arg_extreme(b, a, false); }

}  // namespace torchport::ops
