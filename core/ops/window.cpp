#include "ops/window.h"

#include <limits>

namespace torchport::ops {

Dims Pool::shape(const Dims& s) const {
  Dims d = lead;
  d.insert(d.end(), s.begin(), s.end());
  return d;
}
Dims Pool::folded(const Dims& s) const {
  Dims d{numel(lead)};
  d.insert(d.end(), s.begin(), s.end());
  return d;
}
int64_t Pool::volume() const { return numel(size); }

Pool read_lead(Args& a, const Value& x, int64_t n) {
  // avg_pool2d of PyTorch asks for a dimension before it looks at the rank.
  const bool asks = x.rank() <= n && a.where() == "avg_pool2d";
  a.check(x.rank() == n + 1 || x.rank() == n + 2, asks ? Code::dim_out_of_range : Code::shape_mismatch,
          str("input must be a ", n + 1, "-D or ", n + 2, "-D tensor, got ", text(x.type())));
  Pool p;
  p.n = n;
  p.lead = Dims(x.dims().begin(), x.dims().end() - n);
  p.in = Dims(x.dims().end() - n, x.dims().end());
  for (size_t i = x.rank() == n + 2 ? 1 : 0; i < x.dims().size(); ++i)  // only the batch may be empty
    a.check(x.dims()[i] > 0, Code::shape_mismatch,
            str("input must have no empty dimension but the batch, got ", text(x.type())));
  return p;
}

Pool read_pool(Args& a, const Value& x, int64_t n, bool dilated) {
  Pool p = read_lead(a, x, n);
  p.size = a.expand_ints("kernel_size", n, 1);
  p.stride = a.ints("stride").empty() ? p.size : a.expand_ints("stride", n, 1);
  p.padding = a.expand_ints("padding", n, 0);
  p.dilation = dilated ? a.expand_ints("dilation", n, 1) : Dims(n, 1);
  const bool ceil_mode = a.flag("ceil_mode");
  for (int64_t i = 0; i < n; ++i) {
    a.check(p.size[i] > 0, Code::bad_value, str("kernel_size must be positive, got ", text(p.size)));
    a.check(p.stride[i] > 0, Code::bad_value, str("stride must be positive, got ", text(p.stride)));
    a.check(p.dilation[i] > 0, Code::bad_value, str("dilation must be positive, got ", text(p.dilation)));
    a.check(p.padding[i] >= 0 && p.padding[i] <= ((p.size[i] - 1) * p.dilation[i] + 1) / 2, Code::bad_value,
            str("padding must be at most half of the kernel size, got padding ", text(p.padding), " for kernel ",
                text(p.size)));
    const int64_t slack =
        p.in[i] + 2 * p.padding[i] - p.dilation[i] * (p.size[i] - 1) - 1 + (ceil_mode ? p.stride[i] - 1 : 0);
    int64_t out = (slack >= 0 ? slack / p.stride[i] : -((-slack + p.stride[i] - 1) / p.stride[i])) + 1;
    // the last window must start inside the input or its left padding
    if (ceil_mode && (out - 1) * p.stride[i] >= p.in[i] + p.padding[i]) --out;
    a.check(
        out >= 1, Code::shape_mismatch,
        str("output sizes must be positive, got ", out, " for input ", text(x.dims()), " and kernel ", text(p.size)));
    p.out.push_back(out);
  }
  return p;
}

void each_tap(const Pool& p, const std::function<void(const Dims&)>& visit) {
  Dims tap(p.n, 0);
  for (int64_t k = 0; k < p.volume(); ++k) {
    visit(tap);
    for (int64_t i = p.n; i-- > 0;) {
      if (++tap[i] < p.size[i]) break;
      tap[i] = 0;
    }
  }
}

Value tap_positions(Builder& b, const Pool& p, const Dims& tap) {
  Value at;
  for (int64_t i = 0; i < p.n; ++i) {
    const Value along = b.add(b.mul(b.iota({Dtype::i64, p.out}, i), static_cast<double>(p.stride[i])),
                              static_cast<double>(tap[i] * p.dilation[i] - p.padding[i]));
    at = i == 0 ? along : b.add(b.mul(at, static_cast<double>(p.in[i])), along);
  }
  return at;
}

Value place(Builder& b, const Pool& p, const Value& values, const Value& indices, bool add) {
  const int64_t lead = numel(p.lead), plane = numel(p.in), count = values.numel() / std::max<int64_t>(lead, 1);
  const Value base = b.zeros({values.dtype(), {lead * plane}});
  if (values.numel() == 0) return b.reshape(base, p.shape(p.in));
  const Value row = b.mul(b.iota({Dtype::i64, {lead, count}}, 0), static_cast<double>(plane));
  const Value at = b.reshape(b.add(row, b.reshape(indices, {lead, count})), {lead * count, 1});
  hlo::ScatterDims s;
  s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0}, s.index_vector_dim = 1;
  hlo::Body sum;
  if (add) sum = [&b](const Values& v) { return Values{b.add(v[0], v[1])}; };
  return b.reshape(b.scatter(base, at, b.flatten(values), s, sum), p.shape(p.in));
}

hlo::Body max_position_body(Builder& b, Dtype d) {
  return [&b, d](const Values& v) {  // (value, position) of the accumulator, then of the element
    const Value &x = v[0], &i = v[1], &y = v[2], &j = v[3];
    const Value first = b.lt(j, i);
    Value take_y = b.bit_or(b.gt(y, x), b.bit_and(b.eq(y, x), first));
    if (is_float(d)) {  // of several NaN the last one counts, as in PyTorch's loop
      const Value xn = b.is_nan(x), yn = b.is_nan(y);
      take_y = b.select(yn, b.bit_or(b.logical_not(xn), b.logical_not(first)), b.bit_and(b.logical_not(xn), take_y));
    }
    return Values{b.select(take_y, y, x), b.select(take_y, j, i)};
  };
}
Values reduce_max_position(Builder& b, const Value& values, const Value& positions, const Dims& dims) {
  return b.reduce({values, positions},
                  {b.lowest(values.dtype()), b.constant_int(std::numeric_limits<int64_t>::max(), Dtype::i64)}, dims,
                  max_position_body(b, values.dtype()));
}

}  // namespace torchport::ops
