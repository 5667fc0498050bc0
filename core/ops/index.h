// Shared by the ops that read or write at index tensors: index.cpp, scatter.cpp, embedding.cpp.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

// How an op combines what it writes with what is there; overwrite has a null body.
Body combine_add(Builder&);
Body combine_mul(Builder&);
Body combine_max(Builder&);
Body combine_min(Builder&);

// Index values ready for gather and scatter: checked against [0, size), or [-size, size) when negative ones count from
// the end, and in the narrowest type that addresses `extent` elements (a device has no fast 64-bit integers).
Value checked_index(Builder&, Args&, const Value& index, int64_t size, bool negative,
                    Code code = Code::index_out_of_range);
Dtype index_dtype(int64_t extent);

// Rows of x along dim: result dims = x's with dim replaced by index's dims. Writing is the same in reverse; an index
// outside the dimension writes nothing.
Value take_rows(Builder&, const Value& x, int64_t dim, const Value& index);
Value put_rows(Builder&, const Value& x, int64_t dim, const Value& index, const Value& rows, const Body& combine);
// Elements of a flat value.
Value take_flat(Builder&, const Value& flat, const Value& index);
Value put_flat(Builder&, const Value& flat, const Value& index, const Value& values, const Body& combine);

// Sums in f16 and bf16 run in f32 and round once: with `wide`, x and the updates come in that type.
inline Dtype sum_dtype(Dtype d) { return opmath(d); }

}  // namespace torchport::ops
