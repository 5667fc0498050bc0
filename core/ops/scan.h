// Running reductions along a dimension.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// xs[..., i] becomes combine over all elements up to i; several values are scanned as one tuple. combine takes
// (earlier..., later...) of equal shapes and must be associative; identity holds a 0-d value each, neutral as the
// earlier one.
Values scan(Builder&, const Values& xs, int64_t dim, const Body& combine, const Values& identity);
Value running_sum(Builder&, const Value& x, int64_t dim);

}  // namespace torchport::ops
