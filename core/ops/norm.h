// What the normalisation files share.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// The dtype of saved statistics: the parameters' where there are any, else the input's.
inline Dtype stat_dtype(const Value& x, const Values& params) {
  for (const Value& p : params)
    if (p) return p.dtype();
  return x.dtype();
}
// [C] or any value of the listed dims of x, spread to x's shape.
inline Value spread(Builder& b, const Value& v, const Value& x, const Dims& dims) {
  return b.broadcast_in_dim(b.cast(v, x.dtype()), x.dims(), dims);
}
inline Value mean_over(Builder& b, const Value& x, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(d);
  return b.div(b.reduce(Reduce::add, x, dims), static_cast<double>(n));
}
inline void expect_float(Args& a, const Value& x) {
  a.check(is_float(x.dtype()), Code::dtype_unsupported, str("must get floating point numbers, got ", text(x.type())));
}

}  // namespace torchport::ops
