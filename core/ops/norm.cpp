// Layer, group, RMS and weight normalisation. Statistics are computed in f32 for halves.
#include <limits>

#include "ops/norm.h"

namespace torchport::ops {

namespace {

// How normalized_shape splits the input's dimensions.
struct Split {
  Dims outer, inner;  // dimension numbers
  Dims kept;          // the statistics' shape: the outer sizes, then ones
};
Split split(Args& a, const Value& x) {
  const Dims shape = a.ints("normalized_shape");
  const int64_t first = x.rank() - static_cast<int64_t>(shape.size());
  a.check(!shape.empty() && first >= 0 && Dims(x.dims().begin() + first, x.dims().end()) == shape, Code::shape_mismatch,
          str("normalized_shape must be the last sizes of the input, got ", text(shape), " for ", text(x.dims())));
  Split s;
  for (int64_t i = 0; i < x.rank(); ++i) {
    (i < first ? s.outer : s.inner).push_back(i);
    s.kept.push_back(i < first ? x.dim(i) : 1);
  }
  return s;
}
void expect_parameter(Args& a, const Value& v, const char* which) {
  if (v)
    a.check(v.dims() == a.ints("normalized_shape"), Code::shape_mismatch,
            str(which, " must have the normalized shape ", text(a.ints("normalized_shape")), ", got ", text(v.dims())));
}
Value wide(Builder& b, const Value& x) { return b.cast(x, opmath(x.dtype())); }

}  // namespace

OP("native_layer_norm") {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), bias = a.tensor("bias");
  expect_float(a, x);
  const Split s = split(a, x);
  expect_parameter(a, weight, "weight"), expect_parameter(a, bias, "bias");
  const Dtype saved = stat_dtype(x, {weight, bias});
  const Value w = wide(b, x), mean = mean_over(b, w, s.inner), centred = b.sub(w, spread(b, mean, w, s.outer));
  const Value rstd = b.rsqrt(b.add(mean_over(b, b.mul(centred, centred), s.inner), a.f("eps")));
  Value y = b.mul(centred, spread(b, rstd, w, s.outer));
  if (weight) y = b.mul(y, spread(b, weight, w, s.inner));
  if (bias) y = b.add(y, spread(b, bias, w, s.inner));
  return {b.cast(y, x.dtype()), b.cast(b.reshape(mean, s.kept), saved), b.cast(b.reshape(rstd, s.kept), saved)};
}

OP("native_layer_norm_backward") {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), bias = a.tensor("bias");
  const Split s = split(a, x);
  const std::vector<bool> mask = a.flags("output_mask");
  Dims outer_sizes;
  for (int64_t d : s.outer) outer_sizes.push_back(x.dim(d));
  const Value w = wide(b, x), g = b.cast(a.tensor("grad_out"), w.dtype());
  const Value rstd = spread(b, b.reshape(a.tensor("rstd"), outer_sizes), w, s.outer);
  const Value normed = b.mul(b.sub(w, spread(b, b.reshape(a.tensor("mean"), outer_sizes), w, s.outer)), rstd);
  Value gx;
  if (mask[0]) {
    const Value gw = weight ? b.mul(g, spread(b, weight, w, s.inner)) : g;
    const Value m = spread(b, mean_over(b, gw, s.inner), w, s.outer),
                slope = spread(b, mean_over(b, b.mul(gw, normed), s.inner), w, s.outer);
    gx = b.cast(b.mul(b.sub(b.sub(gw, m), b.mul(normed, slope)), rstd), x.dtype());
  }
  Value dw, db;
  if (mask[1] && weight) dw = b.cast(b.reduce(Reduce::add, b.mul(g, normed), s.outer), weight.dtype());
  if (mask[2] && bias) db = b.cast(b.reduce(Reduce::add, g, s.outer), bias.dtype());
  return {gx, dw, db};
}

OP("native_group_norm") {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), bias = a.tensor("bias");
  expect_float(a, x);
  const int64_t n = a.i("N"), c = a.i("C"), hw = a.i("HxW"), groups = a.i("group");
  a.check(groups > 0 && c % groups == 0, Code::shape_mismatch,
          str("channels must be a multiple of groups, got ", c, " and ", groups));
  for (const Value& p : {weight, bias})
    if (p)
      a.check(p.numel() == c, Code::shape_mismatch, str("weight and bias must have ", c, " elements, got ", p.numel()));
  const Dtype saved = stat_dtype(x, {weight, bias});
  const Value w = b.reshape(wide(b, x), {n, groups, c / groups, hw}), mean = mean_over(b, w, {2, 3}),
              centred = b.sub(w, spread(b, mean, w, {0, 1}));
  const Value rstd = b.rsqrt(b.add(mean_over(b, b.mul(centred, centred), {2, 3}), a.f("eps")));
  Value y = b.mul(centred, spread(b, rstd, w, {0, 1}));
  if (weight) y = b.mul(y, spread(b, b.reshape(weight, {groups, c / groups}), w, {1, 2}));
  if (bias) y = b.add(y, spread(b, b.reshape(bias, {groups, c / groups}), w, {1, 2}));
  return {b.cast(b.reshape(y, x.dims()), x.dtype()), b.cast(mean, saved), b.cast(rstd, saved)};
}

OP("native_group_norm_backward") {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), mean = a.tensor("mean");
  const int64_t n = a.i("N"), c = a.i("C"), hw = a.i("HxW"), groups = a.i("group");
  const std::vector<bool> mask = a.flags("output_mask");
  const Dims grid{n, groups, c / groups, hw};
  const Value w = b.reshape(wide(b, x), grid), g = b.reshape(b.cast(a.tensor("grad_out"), w.dtype()), grid);
  const Value rstd = spread(b, a.tensor("rstd"), w, {0, 1}), normed = b.mul(b.sub(w, spread(b, mean, w, {0, 1})), rstd);
  Value gx;
  if (mask[0]) {
    const Value gw = weight ? b.mul(g, spread(b, b.reshape(weight, {groups, c / groups}), w, {1, 2})) : g;
    const Value m = spread(b, mean_over(b, gw, {2, 3}), w, {0, 1}),
                slope = spread(b, mean_over(b, b.mul(gw, normed), {2, 3}), w, {0, 1});
    gx = b.cast(b.reshape(b.mul(b.sub(b.sub(gw, m), b.mul(normed, slope)), rstd), x.dims()), x.dtype());
  }
  const Dtype out = stat_dtype(x, {weight, mean});
  Value dw, db;
  if (mask[1]) dw = b.cast(b.reshape(b.reduce(Reduce::add, b.mul(g, normed), {0, 3}), {c}), out);
  if (mask[2]) db = b.cast(b.reshape(b.reduce(Reduce::add, g, {0, 3}), {c}), out);
  return {gx, dw, db};
}

static double epsilon(Dtype d) {
  switch (d) {
    case Dtype::f64: return std::numeric_limits<double>::epsilon();
    case Dtype::f16: return 0.0009765625;
    case Dtype::bf16: return 0.0078125;
    default: return std::numeric_limits<float>::epsilon();
  }
}
OP("_fused_rms_norm") {
  const Value x = a.tensor("input"), weight = a.tensor("weight");
  const Split s = split(a, x);
  expect_parameter(a, weight, "weight");
  const Value w = wide(b, x);
  const Value square = is_complex(w.dtype()) ? b.mul(b.abs(w), b.abs(w)) : b.mul(w, w);
  const Value rstd = b.rsqrt(b.add(mean_over(b, square, s.inner), a.f("eps", epsilon(real_of(x.dtype())))));
  Value y = b.mul(w, spread(b, rstd, w, s.outer));
  if (weight) y = b.mul(y, spread(b, weight, w, s.inner));
  return {b.cast(y, x.dtype()), b.reshape(rstd, s.kept)};
}
OP("_fused_rms_norm_backward") {
  const Value x = a.tensor("input"), weight = a.tensor("weight");
  const Split s = split(a, x);
  const std::vector<bool> mask = a.flags("output_mask");
  Dims outer_sizes;
  for (int64_t d : s.outer) outer_sizes.push_back(x.dim(d));
  const Value w = wide(b, x), g = b.cast(a.tensor("grad_out"), w.dtype());
  const Value rstd = spread(b, b.reshape(a.tensor("rstd"), outer_sizes), w, s.outer), normed = b.mul(w, rstd);
  Value gx, dw;
  if (mask[0]) {
    const Value gw = weight ? b.mul(g, spread(b, weight, w, s.inner)) : g;
    const Value slope = spread(b, mean_over(b, b.mul(gw, normed), s.inner), w, s.outer);
    gx = b.cast(b.mul(b.sub(gw, b.mul(normed, slope)), rstd), x.dtype());
  }
  if (mask[1] && weight) dw = b.cast(b.reduce(Reduce::add, b.mul(g, normed), s.outer), weight.dtype());
  return {gx, dw};
}

static Dims all_but(const Value& x, int64_t dim) {
  Dims d;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) d.push_back(i);
  return d;
}
OP("_weight_norm_interface") {
  const Value v = a.tensor("v"), g = a.tensor("g");
  const int64_t dim = a.dim("dim", v);
  const Value w = wide(b, v);
  const Value norm = b.sqrt(b.reduce(Reduce::add, b.mul(w, w), all_but(v, dim)));
  const Value scale = b.div(b.flatten(b.cast(g, w.dtype())), norm);
  return {b.cast(b.mul(w, spread(b, scale, w, {dim})), v.dtype()), b.reshape(norm, g.dims())};
}
OP("_weight_norm_interface_backward") {
  const Value v = a.tensor("saved_v"), g = a.tensor("saved_g");
  const int64_t dim = a.dim("dim", v);
  const Value w = wide(b, v), gw = b.cast(a.tensor("grad_w"), w.dtype()),
              norm = b.flatten(b.cast(a.tensor("saved_norms"), w.dtype()));
  const Value along = b.reduce(Reduce::add, b.mul(gw, w), all_but(v, dim));
  const Value scale = b.div(b.flatten(b.cast(g, w.dtype())), norm);
  const Value inward = b.div(along, b.mul(norm, norm));
  const Value gv = b.mul(spread(b, scale, w, {dim}), b.sub(gw, b.mul(w, spread(b, inward, w, {dim}))));
  return {b.cast(gv, v.dtype()), b.cast(b.reshape(b.div(along, norm), g.dims()), g.dtype())};
}

}  // namespace torchport::ops
