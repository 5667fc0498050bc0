// What the reductions share: which dims, in which dtype.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// The dims of argument `dim` (wrapped); all of them when it is absent, None or empty.
Dims reduced_dims(Args&, const Value& x);
// reduce_keep where an empty list of dims means none.
Value reduce_over(Builder&, Reduce, const Value&, const Dims&, bool keepdim);
// Elements that one result is made of.
double reduced_count(const Value& x, const Dims&);
// Reduced dims as 1, so that a result broadcasts against what it was made of.
Value keep_dims(Builder&, const Value& reduced, const Value& x, const Dims&);
// The dtype that sums and products of x have: argument `dtype`, else i64 for integers and x's own.
Dtype sum_dtype(Args&, const Value& x);
inline bool keepdim(Args& a) { return a.flag("keepdim", false); }

}  // namespace torchport::ops
