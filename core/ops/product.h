// Matrix products that other families share: attention, linalg, interpolation.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// x [batch..., n, k] times y [batch..., k, m] in f32 for halves, else in the operands' dtype.
Value product(Builder&, const Value& x, const Value& y);
// The same with x or y (or both) transposed in their last two dimensions; a conjugate is the caller's business.
Value product(Builder&, const Value& x, bool transpose_x, const Value& y, bool transpose_y);
// Replaces dimension `dim` (size k) of x by the columns of a [k, m] matrix: sum over k of x[..k..] * matrix[k, m].
Value contract_axis(Builder&, const Value& x, const Value& matrix, int64_t dim);
// x with `dim` replaced by indices of any rank: out[..., i..., ...] = x[..., indices[i...], ...]. Indices must be in
// range.
Value take(Builder&, const Value& x, const Value& indices, int64_t dim);
Value conj(Builder&, const Value& x);  // of a real value: itself

}  // namespace torchport::ops
