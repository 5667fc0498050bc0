// Discrete Fourier transforms. StableHLO transforms up to three trailing dimensions at once, so the wanted ones move to
// the end.
#include <algorithm>
#include <cmath>

#include "ops/op.h"

namespace torchport::ops {

namespace {

// The permutation that moves dims to the end in their order, and its inverse.
struct Order {
  Dims there, back;
};
Order to_end(int64_t rank, const Dims& dims) {
  Order o;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) o.there.push_back(i);
  o.there.insert(o.there.end(), dims.begin(), dims.end());
  o.back.resize(rank);
  for (int64_t i = 0; i < rank; ++i) o.back[o.there[i]] = i;
  return o;
}

// One transform over at most three dims; lengths are those of the real side.
Value transform(Builder& b, const Value& x, const char* kind, const Dims& dims, const Dims& lengths) {
  const Order o = to_end(x.rank(), dims);
  return b.transpose(b.fft(b.transpose(x, o.there), kind, lengths), o.back);
}
// Complex to complex over any number of dims.
Value complex_transform(Builder& b, Value x, const char* kind, const Dims& dims) {
  for (size_t at = 0; at < dims.size(); at += 3) {
    const Dims some(dims.begin() + static_cast<int64_t>(at),
                    dims.begin() + static_cast<int64_t>(std::min(at + 3, dims.size())));
    Dims lengths;
    for (int64_t d : some) lengths.push_back(x.dim(d));
    x = transform(b, x, kind, some, lengths);
  }
  return x;
}
// normalization: 0 none, 1 by the root of n, 2 by n. The inverse kinds of StableHLO divide by n already.
Value normalise(Builder& b, Args& a, const Value& x, double n, bool inverse) {
  const int64_t mode = a.i("normalization");
  const double factor = (mode == 0 ? 1.0 : mode == 1 ? 1 / std::sqrt(n) : 1 / n) * (inverse ? n : 1.0);
  return factor == 1.0 ? x : b.mul(x, factor);
}
Dims wrapped(Args& a, const Value& x) {
  Dims dims = a.ints("dim");
  for (int64_t& d : dims) d = wrap_dim(d, x.rank(), a.where());
  return dims;
}
void expect_precision(Args& a, const Value& x) {
  const Dtype d = real_of(x.dtype());
  a.check(d == Dtype::f32 || d == Dtype::f64, Code::dtype_unsupported,
          str("must get single or double precision, got ", text(x.type())));
}
double size_over(const Value& x, const Dims& dims) {
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(x.dim(d));
  return n;
}

}  // namespace

OP("_fft_c2c", .own_order = true) {
  const Value x = a.tensor("self");
  expect_precision(a, x);
  const Dims dims = wrapped(a, x);
  if (dims.empty() || x.numel() == 0) return x;
  const bool forward = a.flag("forward");
  return normalise(b, a, complex_transform(b, x, forward ? "FFT" : "IFFT", dims), size_over(x, dims), !forward);
}

OP("_fft_r2c", .own_order = true) {
  const Value x = a.tensor("self");
  expect_precision(a, x);
  const Dims dims = wrapped(a, x);
  const double n = size_over(x, dims);
  const bool half = a.flag("onesided");
  if (x.numel() == 0) {
    Dims shape = x.dims();
    if (half) shape[dims.back()] = shape[dims.back()] / 2 + 1;
    return b.zeros({complex_of(x.dtype()), shape});
  }
  if (!half) return normalise(b, a, complex_transform(b, b.cast(x, complex_of(x.dtype())), "FFT", dims), n, false);
  const Value y = transform(b, x, "RFFT", {dims.back()}, {x.dim(dims.back())});
  return normalise(b, a, complex_transform(b, y, "FFT", Dims(dims.begin(), dims.end() - 1)), n, false);
}

OP("_fft_c2r", .own_order = true) {
  const Value x = a.tensor("self");
  expect_precision(a, x);
  const Dims dims = wrapped(a, x);
  const int64_t last = dims.back(), length = a.i("last_dim_size");
  a.check(length >= 1, Code::bad_value, str("must get at least one data point, got ", length));
  Dims shape = x.dims();
  shape[last] = length;
  if (x.numel() == 0) return b.zeros({real_of(x.dtype()), shape});
  double n = static_cast<double>(length);
  for (int64_t d : dims)
    if (d != last) n *= static_cast<double>(x.dim(d));
  Value y = complex_transform(b, x, "IFFT", Dims(dims.begin(), dims.end() - 1));
  const int64_t wanted = length / 2 + 1;
  if (y.dim(last) > wanted) y = b.slice_dim(y, last, 0, wanted);
  if (y.dim(last) < wanted) {
    Dims low(y.dims().size(), 0), high = low;
    high[last] = wanted - y.dim(last);
    y = b.pad(y, b.constant_complex(0, 0, y.dtype()), low, high);
  }
  return normalise(b, a, transform(b, y, "IRFFT", {last}, {length}), n, true);
}

}  // namespace torchport::ops
