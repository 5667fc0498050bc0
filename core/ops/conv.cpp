// Convolutions of 1 to 3 spatial dimensions, grouped, dilated, transposed, and their gradients. Each is one StableHLO
// convolution; kernels are reversed explicitly because CPU plugins run window reversal on a slow path.
#include "ops/product.h"

namespace torchport::ops {

namespace {

struct Conv {  // the arguments, one entry a spatial dimension
  Dims stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;
};

Conv arguments(Args& a, const Value& input, const Value& weight) {
  const int64_t n = input.rank() - 2;
  a.check(
      n >= 1 && weight.rank() == input.rank(), Code::shape_mismatch,
      str("input and weight must have one rank of at least 3, got ", text(input.type()), " and ", text(weight.type())));
  a.check(input.dtype() == weight.dtype(), Code::dtype_mismatch,
          str("input and weight must have one dtype, got ", text(input.type()), " and ", text(weight.type())));
  Conv c{a.expand_ints("stride", n, 1),
         a.expand_ints("padding", n, 0),
         a.expand_ints("dilation", n, 1),
         a.expand_ints("output_padding", n, 0),
         a.i("groups"),
         a.flag("transposed")};
  a.check(c.groups > 0, Code::bad_value, str("groups must be positive, got ", c.groups));
  for (int64_t i = 0; i < n; ++i) {
    a.check(c.stride[i] > 0, Code::bad_value, str("stride must be positive, got ", text(c.stride)));
    a.check(c.dilation[i] > 0, Code::bad_value, str("dilation must be positive, got ", text(c.dilation)));
    a.check(c.padding[i] >= 0, Code::bad_value, str("padding must not be negative, got ", text(c.padding)));
    a.check(c.output_padding[i] >= 0, Code::bad_value,
            str("output_padding must not be negative, got ", text(c.output_padding)));
    a.check(!c.transposed || c.output_padding[i] < std::max(c.stride[i], c.dilation[i]) || (c.output_padding[i] == 0),
            Code::bad_value,
            str("output_padding must be smaller than stride or dilation, got ", text(c.output_padding)));
  }
  const int64_t in = c.transposed ? weight.dim(0) : weight.dim(1) * c.groups;
  a.check(input.dim(1) == in, Code::shape_mismatch,
          str("input must have ", in, " channels for weight ", text(weight.dims()), " and groups ", c.groups, ", got ",
              text(input.dims())));
  a.check(weight.dim(0) % c.groups == 0, Code::shape_mismatch,
          str("weight's first size must be a multiple of groups ", c.groups, ", got ", text(weight.dims())));
  return c;
}

Dims spatial(const Value& x) { return Dims(x.dims().begin() + 2, x.dims().end()); }
Dims spatial_dims(const Value& x) {
  Dims d;
  for (int64_t i = 2; i < x.rank(); ++i) d.push_back(i);
  return d;
}
int64_t reach(int64_t kernel, int64_t dilation) { return (kernel - 1) * dilation + 1; }

// Padding above that makes the result `out` long.
int64_t high_for(int64_t out, int64_t stride, int64_t window, int64_t dilated_in, int64_t low) {
  return (out - 1) * stride + window - dilated_in - low;
}

// input with [O, C/groups, k...] -> output of the given spatial sizes.
Value forward(Builder& b, const Value& x, const Value& w, const Conv& c, const Dims& out) {
  hlo::ConvDims d;
  d.strides = c.stride, d.low = c.padding, d.rhs_dilation = c.dilation, d.groups = c.groups,
  d.result = opmath(x.dtype());
  for (size_t i = 0; i < out.size(); ++i)
    d.high.push_back(high_for(out[i], c.stride[i], reach(w.dim(i + 2), c.dilation[i]), x.dim(i + 2), c.padding[i]));
  return b.convolution(x, w, d);
}

// The adjoint of `forward` in its input: x has the O channels, w is [O, C/groups, k...], the result has C channels.
Value adjoint(Builder& b, const Value& x, const Value& w, const Conv& c, const Dims& out) {
  hlo::ConvDims d;
  d.lhs_dilation = c.stride, d.rhs_dilation = c.dilation, d.groups = c.groups, d.result = opmath(x.dtype());
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t window = reach(w.dim(i + 2), c.dilation[i]);
    d.low.push_back(window - 1 - c.padding[i]);
    d.high.push_back(high_for(out[i], 1, window, (x.dim(i + 2) - 1) * c.stride[i] + 1, d.low.back()));
  }
  Value k = b.reverse(w, spatial_dims(w));
  if (c.groups > 1) {  // [g * O/g, C/g, k] -> [O/g, g * C/g, k]: the groups move to the result's channels
    const Dims s = w.dims();
    Dims split{c.groups, s[0] / c.groups, s[1]}, merged{s[0] / c.groups, c.groups * s[1]}, perm{1, 0, 2};
    for (size_t i = 2; i < s.size(); ++i)
      split.push_back(s[i]), merged.push_back(s[i]), perm.push_back(static_cast<int64_t>(i) + 1);
    k = b.reshape(b.transpose(b.reshape(k, split), perm), merged);
  }
  d.k_in = 0, d.k_out = 1;
  return b.convolution(x, k, d);
}

// d forward / d w: x is forward's input, g the gradient of its output -> [O, C/groups, k...].
Value weight_gradient(Builder& b, const Value& x, const Value& g, const Conv& c, const Dims& kernel) {
  hlo::ConvDims d;
  d.strides = c.dilation, d.rhs_dilation = c.stride, d.low = c.padding, d.batch_groups = c.groups,
  d.result = opmath(x.dtype());
  for (size_t i = 0; i < kernel.size(); ++i)
    d.high.push_back(high_for(kernel[i], c.dilation[i], reach(g.dim(i + 2), c.stride[i]), x.dim(i + 2), c.padding[i]));
  d.in_batch = 1, d.in_feature = 0, d.k_in = 0, d.k_out = 1, d.out_batch = 1, d.out_feature = 0;
  return b.convolution(x, g, d);
}

}  // namespace

OP("convolution convolution_overrideable") {
  const Value x = a.tensor("input"), w = a.tensor("weight"), bias = a.tensor("bias");
  const Conv c = arguments(a, x, w);
  const Dims in = spatial(x), kernel = spatial(w);
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t window = reach(kernel[i], c.dilation[i]);
    if (c.transposed) {
      out.push_back((in[i] - 1) * c.stride[i] - 2 * c.padding[i] + window + c.output_padding[i]);
    } else {
      a.check(in[i] + 2 * c.padding[i] >= window, Code::shape_mismatch,
              str("the kernel must not be larger than the padded input, got kernel ", text(kernel), " with dilation ",
                  text(c.dilation), " for input ", text(x.dims()), " with padding ", text(c.padding)));
      out.push_back((in[i] + 2 * c.padding[i] - window) / c.stride[i] + 1);
    }
    a.check(out.back() > 0 || (out.back() == 0 && c.transposed), Code::shape_mismatch,
            str("output sizes must be positive, got ", text(out), " for input ", text(x.dims())));
  }
  const int64_t channels = c.transposed ? w.dim(1) * c.groups : w.dim(0);
  Dims shape{x.dim(0), channels};
  shape.insert(shape.end(), out.begin(), out.end());
  Value y = x.numel() == 0 || w.numel() == 0 || numel(shape) == 0 ? b.zeros({opmath(x.dtype()), shape})
            : c.transposed                                        ? adjoint(b, x, w, c, out)
                                                                  : forward(b, x, w, c, out);
  if (!bias) return b.cast(y, x.dtype());
  a.check(bias.rank() == 1 && bias.dim(0) == channels, Code::shape_mismatch,
          str("bias must have ", channels, " elements, got ", text(bias.dims())));
  a.check(bias.dtype() == x.dtype(), Code::dtype_mismatch,
          str("input and bias must have one dtype, got ", text(x.type()), " and ", text(bias.type())));
  return b.cast(b.add(y, b.broadcast_in_dim(b.cast(bias, y.dtype()), y.dims(), {1})), x.dtype());
}

OP("convolution_backward convolution_backward_overrideable") {
  const Value g = a.tensor("grad_output"), x = a.tensor("input"), w = a.tensor("weight");
  const Conv c = arguments(a, x, w);
  const std::vector<bool> mask = a.flags("output_mask");
  const bool empty = g.numel() == 0 || x.numel() == 0 || w.numel() == 0;
  Value gx, gw, gb;
  if (mask[0]) {
    // a transposed convolution's input gradient is the plain convolution and the reverse
    gx = empty ? b.zeros(x.type())
               : b.cast(c.transposed ? forward(b, g, w, c, spatial(x)) : adjoint(b, g, w, c, spatial(x)), x.dtype());
  }
  if (mask[1])
    gw = empty
             ? b.zeros(w.type())
             : b.cast(c.transposed ? weight_gradient(b, g, x, c, spatial(w)) : weight_gradient(b, x, g, c, spatial(w)),
                      w.dtype());
  if (mask[2]) {
    Dims dims{0};
    for (int64_t i = 2; i < g.rank(); ++i) dims.push_back(i);
    gb = b.cast(b.reduce(Reduce::add, b.cast(g, opmath(g.dtype())), dims), g.dtype());
  }
  return {gx, gw, gb};
}

}  // namespace torchport::ops
