// Products of 64-bit integers for compilers whose dot_general and convolution do not take them (caps.s64_dot): written
// as multiplications and sums, which they do take and which wrap alike.
#include "base/error.h"
#include "hlo/builder.h"

namespace torchport::hlo {

namespace {

bool has(const Dims& dims, int64_t d) {
  for (int64_t k : dims)
    if (k == d) return true;
  return false;
}

// Dimensions of a product before its sum: batch, the free ones of x, those of y, the contracted ones. Each operand says
// which of them its own are.
Dims places(const Value& v, const Dims& batch, const Dims& contract, int64_t first_free, int64_t first_contract) {
  Dims at(v.rank());
  for (int64_t d = 0; d < v.rank(); ++d)
    if (!has(batch, d) && !has(contract, d)) at[d] = first_free++;
  for (size_t i = 0; i < batch.size(); ++i) at[batch[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < contract.size(); ++i) at[contract[i]] = first_contract + static_cast<int64_t>(i);
  return at;
}

Dims joined(const Dims& a, const Dims& b) {
  Dims all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Value Builder::wide_dot(const Value& x, const Value& y, const Dims& xb, const Dims& yb, const Dims& xc, const Dims& yc,
                        const Type& result) {
  const int64_t batch = static_cast<int64_t>(xb.size()), rank = result.rank();
  const int64_t free_of_x = x.rank() - batch - static_cast<int64_t>(xc.size());
  Dims full = result.dims, summed;
  for (int64_t d : xc) {
    summed.push_back(static_cast<int64_t>(full.size()));
    full.push_back(x.dims()[d]);
  }
  const Value l = broadcast_in_dim(x, full, places(x, xb, xc, batch, rank));
  const Value r = broadcast_in_dim(y, full, places(y, yb, yc, batch + free_of_x, rank));
  return reduce(Reduce::add, mul(l, r), summed);
}

// Each output element takes its window as one more contracted dimension: the input's slices, one a kernel position.
Value Builder::wide_convolution(const Value& input, const Value& kernel, const ConvDims& c, const Type& result) {
  expect(c.batch_groups == 1, str("a convolution of integers must have one batch group, got ", c.batch_groups));
  if (result.numel() == 0 || kernel.numel() == 0) return zeros(result);
  const int64_t spatial = input.rank() - 2;
  Value x = transpose(input, joined({c.in_batch, c.in_feature}, c.in_spatial));
  Value k = transpose(kernel, joined({c.k_out, c.k_in}, c.k_spatial));
  Dims low{0, 0}, high{0, 0}, interior{0, 0}, windows, out;
  for (int64_t i = 0; i < spatial; ++i) {
    low.push_back(c.low[i]), high.push_back(c.high[i]), interior.push_back(c.lhs_dilation[i] - 1);
    windows.push_back(i + 2);
    out.push_back(result.dims[c.out_spatial[i]]);
  }
  x = pad(x, constant_int(0, x.dtype()), low, high, interior);
  if (c.reverse_kernel) k = reverse(k, windows);
  const int64_t n = x.dim(0), channels = k.dim(1), features = k.dim(0), positions = k.numel() / (channels * features);
  Values slices;
  for (int64_t p = 0; p < positions; ++p) {
    Dims start{0, 0}, limit{n, x.dim(1)}, strides{1, 1};
    int64_t rest = p;
    for (int64_t i = spatial; i-- > 0; rest /= k.dim(i + 2)) {
      start.insert(start.begin() + 2, rest % k.dim(i + 2) * c.rhs_dilation[i]);
      limit.insert(limit.begin() + 2, start[2] + (out[i] - 1) * c.strides[i] + 1);
      strides.insert(strides.begin() + 2, c.strides[i]);
    }
    slices.push_back(reshape(slice(x, start, limit, strides), joined({n, c.groups, channels, 1}, out)));
  }
  const Value taken = concatenate(slices, 3);  // [n, groups, channels of a group, positions, spatial...]
  const Value weights = reshape(k, {c.groups, features / c.groups, channels, positions});
  const Type product{result.dtype, joined({c.groups, features / c.groups, n}, out)};
  Value y = wide_dot(weights, taken, {0}, {1}, {2, 3}, {2, 3}, product);
  Dims forth{2, 0, 1};
  for (int64_t i = 0; i < spatial; ++i) forth.push_back(i + 3);
  y = reshape(transpose(y, forth), joined({n, features}, out));
  Dims back(input.rank());
  back[c.out_batch] = 0, back[c.out_feature] = 1;
  for (int64_t i = 0; i < spatial; ++i) back[c.out_spatial[i]] = i + 2;
  return transpose(y, back);
}

}  // namespace torchport::hlo
