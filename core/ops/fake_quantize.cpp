// Rounding to the grid of a quantised type in floating point, with the straight-through derivatives: what training for
// quantisation runs. A number's place on the grid is round(x / scale) + zero_point.
#include <cmath>

#include "ops/math.h"

namespace torchport::ops {

namespace {

struct Grid {
  Value scale, zero;  // 0-d, or broadcastable to x
  double low, high;
};
Grid limits(Args& a) {
  Grid g;
  g.low = static_cast<double>(a.i("quant_min")), g.high = static_cast<double>(a.i("quant_max"));
  a.check(g.low <= g.high, Code::bad_value, str("quant_min must be at most quant_max, got ", g.low, " and ", g.high));
  return g;
}
struct Placed {
  Value x, place, mask, rounded;  // place before clamping; mask: within the limits; rounded: back in x's numbers
};
// `inside`: a zero point that is no whole number takes part in the rounding.
Placed place(Builder& b, const Value& self, const Grid& g, bool inside = false) {
  Placed p;
  p.x = b.cast(self, Dtype::f32);
  const Value steps = b.mul(p.x, b.div(b.like(g.scale, 1), g.scale));
  p.place = inside ? b.round_even(b.add(steps, g.zero)) : b.add(b.round_even(steps), g.zero);
  const Value clamped = b.min(b.max(p.place, g.low), g.high);
  p.mask = b.bit_and(b.compare(Cmp::ge, p.place, g.low), b.compare(Cmp::le, p.place, g.high));
  p.rounded = b.cast(b.mul(b.sub(clamped, g.zero), g.scale), self.dtype());
  return p;
}
Value one_number(Builder& b, const Value& v) { return b.reshape(b.slice(b.flatten(v), {0}, {1}), {}); }
// One entry a channel along `axis`.
Value along(Builder& b, Args& a, const Value& v, const Value& x, int64_t axis, const char* what) {
  a.check(v.rank() == 1 && v.dim(0) == x.dim(axis), Code::bad_value,
          str(what, " must have one entry for each of the ", x.dim(axis), " channels, got ", text(v.type())));
  Dims d(x.rank(), 1);
  d[axis] = v.dim(0);
  return b.reshape(b.cast(v, Dtype::f32), d);
}
int64_t channel_axis(Args& a, const Value& x, const char* arg) { return wrap_dim(a.i(arg), x.rank(), a.where()); }

// Learnt zero points are real numbers: the nearest whole one within the limits. PyTorch adds a half and cuts on the way
// back, where there is one number, and to even everywhere else.
Value whole_zero(Builder& b, const Value& zero, const Grid& g, bool forward, bool one) {
  const Value near = !forward && one ? truncate(b, b.add(zero, 0.5)) : b.round_even(zero);
  return b.min(b.max(near, g.low), g.high);
}
Grid learnable(Builder& b, Args& a, const Value& x, bool forward) {
  Grid g = limits(a);
  const bool one = !a.find_attr("axis");
  if (one) {
    g.scale = b.cast(one_number(b, a.tensor("scale")), Dtype::f32);
    g.zero = b.cast(one_number(b, a.tensor("zero_point")), Dtype::f32);
  } else {
    const int64_t axis = channel_axis(a, x, "axis");
    g.scale = along(b, a, a.tensor("scale"), x, axis, "scale");
    g.zero = along(b, a, a.tensor("zero_point"), x, axis, "zero_point");
  }
  g.zero = whole_zero(b, g.zero, g, forward, one);
  return g;
}

}  // namespace

OP("fake_quantize_per_tensor_affine_cachemask", Promote::none, "scale? zero_point?") {
  const Value x = a.tensor("self");
  Grid g = limits(a);
  g.scale = a.number("scale", Dtype::f32), g.zero = a.number("zero_point", Dtype::f32);
  const Placed p = place(b, x, g);
  return {p.rounded, p.mask};
}
OP("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams") {
  const Value x = a.tensor("self");
  Grid g = limits(a);
  g.scale = b.cast(one_number(b, a.tensor("scale")), Dtype::f32);
  g.zero = b.cast(one_number(b, a.tensor("zero_point")), Dtype::f32);
  const Placed p = place(b, x, g);
  const Value on = b.full(b.cast(one_number(b, a.tensor("fake_quant_enabled")), Dtype::b1), x.dims());
  return {b.select(on, p.rounded, x), b.bit_or(b.logical_not(on), p.mask)};
}
OP("fake_quantize_per_channel_affine_cachemask") {
  const Value x = a.tensor("self"), zero = a.tensor("zero_point");
  Grid g = limits(a);
  const int64_t axis = channel_axis(a, x, "axis");
  g.scale = along(b, a, a.tensor("scale"), x, axis, "scale"), g.zero = along(b, a, zero, x, axis, "zero_point");
  const Placed p = place(b, x, g, is_float(zero.dtype()));
  return {p.rounded, p.mask};
}
OP("_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine") {
  const Value x = a.tensor("self");
  return place(b, x, learnable(b, a, x, true)).rounded;
}
OP("_fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_learnable_per_channel_affine_backward") {
  const Value x = a.tensor("self"), grad = b.cast(a.tensor("grad"), Dtype::f32);
  const Grid g = learnable(b, a, x, false);
  const Placed p = place(b, x, g);
  const double factor = a.f("grad_factor");
  const Value under = b.compare(Cmp::lt, p.place, g.low), over = b.compare(Cmp::gt, p.place, g.high);
  const Value zero = b.like(grad, 0);
  const Value error = b.div(b.sub(b.mul(b.sub(p.place, g.zero), g.scale), p.x), g.scale);
  auto wide = [&](const Value& v) { return b.broadcast_to(v, x.dims()); };
  const Value slope = b.select(under, wide(b.rsub(g.low, g.zero)), b.select(over, wide(b.rsub(g.high, g.zero)), error));
  const Value for_scale = b.mul(b.mul(grad, slope), factor);
  const Value for_zero = b.select(p.mask, zero, b.mul(b.mul(b.neg(grad), wide(g.scale)), factor));
  Dims others;
  const bool one = !a.find_attr("axis");
  for (int64_t k = 0; k < x.rank(); ++k)
    if (one || k != channel_axis(a, x, "axis")) others.push_back(k);
  auto sum = [&](const Value& v, const char* like) {
    const Value given = a.tensor(like);
    return b.cast(b.reshape(b.reduce(Reduce::add, v, others), given.dims()), given.dtype());
  };
  return {b.cast(b.select(p.mask, grad, zero), x.dtype()), sum(for_scale, "scale"), sum(for_zero, "zero_point")};
}

// An observer and the rounding it asks for: moves the running ends, derives scale and zero point from them.
OP("_fused_moving_avg_obs_fq_helper", Promote::none, "averaging_const!") {
  const Value x = a.tensor("self"), wide = b.cast(x, Dtype::f32);
  Grid g = limits(a);
  const bool rows = a.flag("per_row_fake_quant"), symmetric = a.flag("symmetric_quant");
  const int64_t axis = rows ? channel_axis(a, x, "ch_axis") : 0;
  Dims others;
  for (int64_t k = 0; k < x.rank(); ++k)
    if (!rows || k != axis) others.push_back(k);
  const Value old_low = a.tensor("running_min"), old_high = a.tensor("running_max");
  const Value old_scale = a.tensor("scale"), old_zero = a.tensor("zero_point");
  const Dims dims{rows ? x.dim(axis) : 1};
  for (const char* name : {"running_min", "running_max", "scale", "zero_point"})
    a.check(a.tensor(name).numel() == dims[0], Code::bad_value,
            str(name, " must have ", dims[0], " entries, got ", text(a.tensor(name).type())));
  auto shaped = [&](const Value& v) { return b.reshape(b.cast(v, Dtype::f32), dims); };
  const Value low = b.reshape(b.reduce(Reduce::min, wide, others), dims),
              high = b.reshape(b.reduce(Reduce::max, wide, others), dims);
  const Value before_low = shaped(old_low), before_high = shaped(old_high);
  auto moved = [&](const Value& before, const Value& now) {
    return b.select(b.is_finite(before), b.add(before, b.mul(b.sub(now, before), a.f("averaging_const"))), now);
  };
  const Value on = b.full(b.cast(one_number(b, a.tensor("observer_on")), Dtype::b1), dims);
  const Value new_low = b.select(on, moved(before_low, low), before_low),
              new_high = b.select(on, moved(before_high, high), before_high);
  // the range must hold 0, so that 0 is on the grid; a symmetric one has it in the middle
  const double span = g.high - g.low, half = std::floor(span / 2);
  const Value both = b.bit_and(b.compare(Cmp::lt, new_low, 0), b.compare(Cmp::gt, new_high, 0));
  const Value middle = symmetric ? both : b.like(both, 0);
  const Value reach = b.max(b.abs(b.div(new_low, half + 1)), b.abs(b.div(new_high, half)));
  const Value bottom = b.select(middle, b.mul(reach, -(half + 1)), b.min(new_low, 0.0)),
              top = b.select(middle, b.mul(reach, half), b.max(new_high, 0.0));
  Value scale = b.div(b.sub(top, bottom), span);
  const Value none = b.bit_or(b.compare(Cmp::eq, scale, 0), b.logical_not(b.is_finite(b.div(b.like(scale, 1), scale))));
  scale = b.max(b.select(none, b.like(scale, 0.1), scale), 6.1e-5);  // below, half precision would lose it
  const Value from_bottom = b.rsub(g.low, b.div(bottom, scale));
  const Value zero =
      b.min(b.max(b.round_even(b.select(middle, b.like(scale, (g.low + g.high) / 2), from_bottom)), g.low), g.high);
  const Value kept_scale = b.select(on, scale, shaped(old_scale)), kept_zero = b.select(on, zero, shaped(old_zero));
  a.assign("running_min", b.cast(b.reshape(new_low, old_low.dims()), old_low.dtype()));
  a.assign("running_max", b.cast(b.reshape(new_high, old_high.dims()), old_high.dtype()));
  a.assign("scale", b.cast(b.reshape(kept_scale, old_scale.dims()), old_scale.dtype()));
  a.assign("zero_point", b.cast(b.reshape(kept_zero, old_zero.dims()), old_zero.dtype()));
  Dims spread(x.rank(), 1);
  if (rows) spread[axis] = dims[0];
  g.scale = b.reshape(kept_scale, spread), g.zero = b.reshape(kept_zero, spread);
  const Placed p = place(b, x, g);
  const Value fake = b.full(b.cast(one_number(b, a.tensor("fake_quant_on")), Dtype::b1), x.dims());
  return {b.select(fake, p.rounded, x), b.bit_or(b.logical_not(fake), p.mask)};
}

}  // namespace torchport::ops
