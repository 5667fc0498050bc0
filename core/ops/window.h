// Pooling windows over the last n dimensions of a tensor whose leading dimensions are folded into one.
#pragma once
#include "ops/op.h"

namespace torchport::ops {

struct Pool {
  int64_t n = 0;  // spatial dimensions
  Dims in, out;   // spatial sizes
  Dims size, stride, padding, dilation;
  Dims lead;                                     // the input's other dimensions
  Dims shape(const Dims& spatial_sizes) const;   // lead + sizes
  Dims folded(const Dims& spatial_sizes) const;  // [product of lead] + sizes
  int64_t volume() const;
};

// Reads kernel_size, stride, padding, (dilation,) ceil_mode of a pooling op and checks them against x.
Pool read_pool(Args&, const Value& x, int64_t n, bool dilated);
// lead and in from x alone (adaptive and fractional pooling).
Pool read_lead(Args&, const Value& x, int64_t n);

// Calls visit(tap) for each position in the window, row-major: tap has one entry a dimension.
void each_tap(const Pool&, const std::function<void(const Dims& tap)>& visit);

// Position in the flat spatial plane of input size `in` of each output's window tap: i64, shape out.
Value tap_positions(Builder&, const Pool&, const Dims& tap);
// Adds grad [.., out] to the zero tensor [.., in] at flat plane positions `indices`; combine with add or overwrite.
Value place(Builder&, const Pool&, const Value& values, const Value& indices, bool add);

// Pairs (value, position) reduced over dims to the largest value; ties take the first position, NaN wins.
Values reduce_max_position(Builder&, const Value& values, const Value& positions, const Dims& dims);
hlo::Body max_position_body(Builder&, Dtype);

}  // namespace torchport::ops
