// Batch normalisation in PyTorch's several spellings, and the pieces SyncBatchNorm is made of.
#include "ops/norm.h"

namespace torchport::ops {

namespace {

Dims all_but_channel(const Value& x) {
  Dims d{0};
  for (int64_t i = 2; i < x.rank(); ++i) d.push_back(i);
  return d;
}
int64_t per_channel(const Value& x) { return x.numel() / std::max<int64_t>(x.dim(1), 1); }
void expect_channels(Args& a, const Value& x, const Value& v, const char* which) {
  if (v)
    a.check(v.numel() == x.dim(1), Code::shape_mismatch,
            str(which, " must have ", x.dim(1), " elements, got ", v.numel()));
}

struct Stats {
  Value mean, var;  // biased, in the compute dtype
};
Stats batch_stats(Builder& b, const Value& x) {
  const Dims dims = all_but_channel(x);
  const Value mean = mean_over(b, x, dims), centred = b.sub(x, spread(b, mean, x, {1}));
  return {mean, mean_over(b, b.mul(centred, centred), dims)};
}
Value inverse_std(Builder& b, Args& a, const Value& var) { return b.rsqrt(b.add(var, a.f("eps"))); }

// (1 - momentum) * running + momentum * fresh, in running's dtype.
Value moved(Builder& b, Args& a, const Value& running, const Value& fresh) {
  const Value m = a.number("momentum", fresh.dtype());
  return b.cast(b.add(b.mul(b.cast(running, fresh.dtype()), b.rsub(1, m)), b.mul(fresh, m)), running.dtype());
}
Value unbiased(Builder& b, const Value& var, int64_t count) {
  return b.mul(var, static_cast<double>(count) / static_cast<double>(count - 1));
}

struct Normed {
  Value y, mean, invstd, running_mean, running_var;
};
Normed batch_norm(Builder& b, Args& a, const Value& running_mean, const Value& running_var, bool training) {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), bias = a.tensor("bias");
  expect_float(a, x);
  a.check(x.rank() >= 2, Code::shape_mismatch, str("input must have at least 2 dimensions, got ", text(x.type())));
  expect_channels(a, x, weight, "weight"), expect_channels(a, x, bias, "bias");
  expect_channels(a, x, running_mean, "running_mean"), expect_channels(a, x, running_var, "running_var");
  a.check(training || (running_mean && running_var), Code::bad_value,
          "running_mean and running_var must be given in evaluation mode");
  const Dtype saved = stat_dtype(x, {weight, bias, running_mean, running_var});
  const Value wide = b.cast(x, opmath(x.dtype()));
  Normed r;
  Value mean, invstd;
  if (training) {
    const Stats s = batch_stats(b, wide);
    mean = s.mean, invstd = inverse_std(b, a, s.var);
    r.mean = b.cast(mean, saved), r.invstd = b.cast(invstd, saved);
    if (running_mean) r.running_mean = moved(b, a, running_mean, mean);
    if (running_var) r.running_var = moved(b, a, running_var, unbiased(b, s.var, per_channel(x)));
  } else {
    mean = b.cast(running_mean, wide.dtype()), invstd = inverse_std(b, a, b.cast(running_var, wide.dtype()));
    r.mean = r.invstd = b.zeros({saved, {0}});
    r.running_mean = running_mean, r.running_var = running_var;
  }
  const Value scale = weight ? b.mul(invstd, b.cast(weight, wide.dtype())) : invstd;
  Value y = b.mul(b.sub(wide, spread(b, mean, wide, {1})), spread(b, scale, wide, {1}));
  if (bias) y = b.add(y, spread(b, bias, wide, {1}));
  r.y = b.cast(y, x.dtype());
  return r;
}
// Writes the moved statistics into the arguments.
Normed updating(Builder& b, Args& a, bool training) {
  const Normed r = batch_norm(b, a, a.tensor("running_mean"), a.tensor("running_var"), training);
  if (training && r.running_mean) a.assign("running_mean", r.running_mean);
  if (training && r.running_var) a.assign("running_var", r.running_var);
  return r;
}
Value reserve(Builder& b) { return b.zeros({Dtype::u8, {0}}); }

Values backward(Builder& b, Args& a, bool training, const Value& saved_mean, const Value& saved_invstd) {
  const Value g = a.tensor("grad_out"), x = a.tensor("input"), weight = a.tensor("weight");
  const Value running_mean = a.tensor("running_mean"), running_var = a.tensor("running_var");
  const std::vector<bool> mask = a.flags("output_mask");
  const Dtype out = stat_dtype(x, {weight, training ? saved_mean : running_mean});
  const Value wide = b.cast(x, opmath(x.dtype())), gw = b.cast(g, wide.dtype());
  const Value mean = b.cast(training ? saved_mean : running_mean, wide.dtype());
  const Value invstd =
      training ? b.cast(saved_invstd, wide.dtype()) : inverse_std(b, a, b.cast(running_var, wide.dtype()));
  const Dims dims = all_but_channel(x);
  const Value normed = b.mul(b.sub(wide, spread(b, mean, wide, {1})), spread(b, invstd, wide, {1}));
  const Value sum_g = b.reduce(Reduce::add, gw, dims), sum_gx = b.reduce(Reduce::add, b.mul(gw, normed), dims);
  Value gx;
  if (mask[0]) {
    const Value scale = weight ? b.mul(invstd, b.cast(weight, wide.dtype())) : invstd;
    Value inner = gw;
    if (training) {
      const double n = static_cast<double>(per_channel(x));
      inner = b.sub(b.sub(gw, spread(b, b.div(sum_g, n), wide, {1})),
                    b.mul(normed, spread(b, b.div(sum_gx, n), wide, {1})));
    }
    gx = b.cast(b.mul(inner, spread(b, scale, wide, {1})), x.dtype());
  }
  return {gx, mask[1] ? b.cast(sum_gx, out) : Value{}, mask[2] ? b.cast(sum_g, out) : Value{}};
}

}  // namespace

OP("native_batch_norm _native_batch_norm_legit", Promote::none, "momentum?") {
  const Normed r = updating(b, a, a.flag("training"));
  return {r.y, r.mean, r.invstd};
}
OP("_native_batch_norm_legit.no_stats", Promote::none, "momentum?") {
  const Normed r = batch_norm(b, a, {}, {}, a.flag("training"));
  return {r.y, r.mean, r.invstd};
}
OP("_native_batch_norm_legit_no_training", Promote::none, "momentum?") {
  const Normed r = batch_norm(b, a, a.tensor("running_mean"), a.tensor("running_var"), false);
  return {r.y, r.mean, r.invstd};
}
OP("_native_batch_norm_legit_functional", Promote::none, "momentum?") {
  const Normed r = batch_norm(b, a, a.tensor("running_mean"), a.tensor("running_var"), a.flag("training"));
  return {r.y, r.mean, r.invstd, r.running_mean, r.running_var};
}
OP("_batch_norm_with_update", Promote::none, "momentum?") {
  const Normed r = updating(b, a, true);
  return {r.y, r.mean, r.invstd, reserve(b)};
}
OP("_batch_norm_with_update_functional", Promote::none, "momentum?") {
  const Normed r = batch_norm(b, a, a.tensor("running_mean"), a.tensor("running_var"), true);
  return {r.y, r.mean, r.invstd, reserve(b), r.running_mean, r.running_var};
}
OP("_batch_norm_no_update", Promote::none, "momentum?") {
  const Value mean = a.tensor("running_mean"), var = a.tensor("running_var");
  const Normed r = batch_norm(b, a, mean, var, !mean || !var);
  return {r.y, r.mean, r.invstd, reserve(b)};
}
OP("native_batch_norm_backward") {
  return backward(b, a, a.flag("train"), a.tensor("save_mean"), a.tensor("save_invstd"));
}
OP("batch_norm_backward") { return backward(b, a, a.flag("update"), a.tensor("save_mean"), a.tensor("save_var")); }

// ---- SyncBatchNorm's pieces

OP("batch_norm_stats") {
  const Value x = a.tensor("input");
  const Stats s = batch_stats(b, b.cast(x, opmath(x.dtype())));
  return {s.mean, inverse_std(b, a, s.var)};
}
OP("batch_norm_elemt") {
  const Value x = a.tensor("input"), weight = a.tensor("weight"), bias = a.tensor("bias");
  const Value wide = b.cast(x, opmath(x.dtype()));
  Value y = b.mul(b.sub(wide, spread(b, a.tensor("mean"), wide, {1})), spread(b, a.tensor("invstd"), wide, {1}));
  if (weight) y = b.mul(y, spread(b, weight, wide, {1}));
  if (bias) y = b.add(y, spread(b, bias, wide, {1}));
  return b.cast(y, x.dtype());
}
OP("batch_norm_update_stats", Promote::none, "momentum?") {
  const Value x = a.tensor("input"), running_mean = a.tensor("running_mean"), running_var = a.tensor("running_var");
  const Stats s = batch_stats(b, b.cast(x, opmath(x.dtype())));
  if (running_mean) a.assign("running_mean", moved(b, a, running_mean, s.mean));
  if (running_var) a.assign("running_var", moved(b, a, running_var, unbiased(b, s.var, per_channel(x))));
  const Dtype out = stat_dtype(x, {running_mean, running_var});
  return {b.cast(s.mean, out), b.cast(s.var, out)};
}

// Joins the statistics of several ranks: mean and invstd are [ranks, C], counts [ranks] of the compute dtype.
static Values gathered(Builder& b, Args& a, const Value& counts) {
  const Value mean = b.cast(a.tensor("mean"), counts.dtype()), invstd = b.cast(a.tensor("invstd"), counts.dtype());
  const Value n = b.broadcast_in_dim(counts, mean.dims(), {0}), total = b.reduce(Reduce::add, counts, {0});
  const Value joint = b.div(b.reduce(Reduce::add, b.mul(mean, n), {0}), total);
  const Value var = b.sub(b.div(b.constant(1, counts.dtype(), mean.dims()), b.mul(invstd, invstd)), a.f("eps"));
  const Value apart = b.sub(mean, b.unsqueeze(joint, 0));
  const Value sum = b.reduce(Reduce::add, b.mul(n, b.add(var, b.mul(apart, apart))), {0});
  if (const Value r = a.tensor("running_mean")) a.assign("running_mean", moved(b, a, r, joint));
  if (const Value r = a.tensor("running_var")) a.assign("running_var", moved(b, a, r, b.div(sum, b.sub(total, 1.0))));
  return {joint, inverse_std(b, a, b.div(sum, total))};
}
OP("batch_norm_gather_stats", Promote::none, "momentum?") {
  const Value mean = a.tensor("mean");
  return gathered(b, a, b.constant(static_cast<double>(a.i("count")), opmath(mean.dtype()), {mean.dim(0)}));
}
OP("batch_norm_gather_stats_with_counts", Promote::none, "momentum?") {
  return gathered(b, a, b.flatten(b.cast(a.tensor("counts"), opmath(a.tensor("mean").dtype()))));
}
OP("batch_norm_backward_reduce") {
  const Value g = a.tensor("grad_out"), x = a.tensor("input"), weight = a.tensor("weight");
  const Value wide = b.cast(x, opmath(x.dtype())), gw = b.cast(g, wide.dtype()), invstd = a.tensor("invstd");
  const Dims dims = all_but_channel(x);
  const Value sum_dy = b.reduce(Reduce::add, gw, dims);
  const Value sum_dy_xmu = b.reduce(Reduce::add, b.mul(gw, b.sub(wide, spread(b, a.tensor("mean"), wide, {1}))), dims);
  const Dtype out = stat_dtype(x, {weight, invstd});
  return {a.flag("input_g") ? sum_dy : Value{}, a.flag("input_g") ? sum_dy_xmu : Value{},
          a.flag("weight_g") ? b.cast(b.mul(sum_dy_xmu, b.cast(invstd, wide.dtype())), out) : Value{},
          a.flag("bias_g") ? b.cast(sum_dy, out) : Value{}};
}
OP("batch_norm_backward_elemt") {
  const Value x = a.tensor("input"), weight = a.tensor("weight");
  const Value wide = b.cast(x, opmath(x.dtype())), g = b.cast(a.tensor("grad_out"), wide.dtype());
  const Value invstd = b.cast(a.tensor("invstd"), wide.dtype());
  const Value count = b.reduce(Reduce::add, b.flatten(b.cast(a.tensor("count"), wide.dtype())), {0});
  const Value mean_dy = b.div(b.cast(a.tensor("sum_dy"), wide.dtype()), count);
  const Value slope = b.mul(b.mul(invstd, invstd), b.div(b.cast(a.tensor("sum_dy_xmu"), wide.dtype()), count));
  const Value centred = b.sub(wide, spread(b, a.tensor("mean"), wide, {1}));
  const Value inner = b.sub(b.sub(g, spread(b, mean_dy, wide, {1})), b.mul(centred, spread(b, slope, wide, {1})));
  return b.cast(b.mul(inner, spread(b, weight ? b.mul(invstd, b.cast(weight, wide.dtype())) : invstd, wide, {1})),
                x.dtype());
}

}  // namespace torchport::ops
