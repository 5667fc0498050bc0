// Scaled dot product attention as one program: softmax(q k^T * scale + bias) v and its gradients, for equal head counts
// and for grouped queries. The dropout mask is not kept; the backward pass draws it again from the stored random state.
#include <cmath>

#include "ops/product.h"
#include "ops/softmax.h"

namespace torchport::ops {

namespace {

struct Attention {
  Value q, k, v;  // [B, H, L, E]; k and v may have fewer heads, each shared by a group of queries
  double scale;
  Dims scores;   // [B, H, L, S]
  Dims grouped;  // the same with the group folded into the rows: [B, Hk, H / Hk * L, S]
};

Attention read(Args& a) {
  Attention t{a.tensor("query"), a.tensor("key"), a.tensor("value"), 0, {}, {}};
  const Value &q = t.q, &k = t.k, &v = t.v;
  a.check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, Code::shape_mismatch,
          str("query, key and value must be 4-D, got ", text(q.type()), ", ", text(k.type()), " and ", text(v.type())));
  a.check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), Code::dtype_mismatch,
          str("query, key and value must have one dtype, got ", text(q.type()), ", ", text(k.type()), " and ",
              text(v.type())));
  a.check(q.dim(0) == k.dim(0) && q.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) && k.dim(2) == v.dim(2) &&
              q.dim(3) == k.dim(3) && k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
          Code::shape_mismatch,
          str("query, key and value must fit, got ", text(q.dims()), ", ", text(k.dims()), " and ", text(v.dims())));
  t.scale = a.f("scale", 1.0 / std::sqrt(static_cast<double>(q.dim(3))));
  t.scores = {q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
  t.grouped = {q.dim(0), k.dim(1), q.dim(1) / k.dim(1) * q.dim(2), k.dim(2)};
  return t;
}
// [B, H, L, E] -> [B, Hk, H / Hk * L, E]
Value group(Builder& b, const Attention& t, const Value& x) {
  return b.reshape(x, {t.grouped[0], t.grouped[1], t.grouped[2], x.dim(3)});
}
Value ungroup(Builder& b, const Attention& t, const Value& x) {
  return b.reshape(x, {t.scores[0], t.scores[1], t.scores[2], x.dim(3)});
}

Value logits(Builder& b, Args& a, const Attention& t, const Value& bias) {
  Value s = b.mul(b.reshape(product(b, group(b, t, t.q), false, t.k, true), t.scores), t.scale);
  const Value low = b.lowest(s.dtype(), s.dims());
  if (bias) s = is_bool(bias.dtype()) ? b.select(bias, s, low) : b.add(s, b.cast(bias, s.dtype()));
  if (a.flag("is_causal")) {
    const Type grid{Dtype::i32, {t.scores[2], t.scores[3]}};
    s = b.select(b.broadcast_to(b.ge(b.iota(grid, 0), b.iota(grid, 1)), s.dims()), s, low);
  }
  return s;
}
// keep / (1 - p), drawn from a state
Value dropout_factor(Builder& b, const Attention& t, const Value& state, double p, Dtype d) {
  if (p >= 1) return b.constant(0, d, t.scores);
  const Value bits = b.rng_bits(state, Dtype::u32, t.scores).second;
  const Value keep = b.ge(bits, b.constant_int(static_cast<int64_t>(std::ldexp(p, 32)), Dtype::u32, t.scores));
  return b.select(keep, b.constant(1 / (1 - p), d, t.scores), b.constant(0, d, t.scores));
}

}  // namespace

OP("_scaled_dot_product_fused_attention_overrideable") {
  const Attention t = read(a);
  const double p = a.f("dropout_p");
  const Value s = logits(b, a, t, a.tensor("attn_bias"));
  const Value top = b.reduce(Reduce::max, s, {3});
  const Value weights = softmax(b, s, 3, true);
  Value used = weights, seed = b.zeros({Dtype::i64, {}}), offset = seed;
  if (p > 0) {
    const Value drawn = a.random_state(numel(t.scores)), state = b.bitcast(drawn, Dtype::i64);
    seed = b.reshape(b.slice_dim(state, 0, 0, 1), {});
    offset = b.reshape(b.slice_dim(state, 0, 1, 2), {});
    used = b.mul(weights, dropout_factor(b, t, drawn, p, weights.dtype()));
  }
  const Value out = ungroup(b, t, product(b, b.reshape(b.cast(used, t.q.dtype()), t.grouped), t.v));
  const Value base = b.select(b.eq(top, b.lowest(top.dtype(), top.dims())), b.like(top, 0), top);
  const Value lse = b.add(top, b.log(b.reduce(Reduce::add, b.exp(b.sub(s, spread_over(b, base, s, 3))), {3})));
  const Value none = b.zeros({t.q.dtype(), {0}});
  // the two integers of the schema (max_q, max_k) carry nothing
  return {b.cast(out, t.q.dtype()), b.cast(lse, Dtype::f32), none, none, Value{}, Value{}, seed, offset, none};
}

OP("_scaled_dot_product_fused_attention_overrideable_backward") {
  const Attention t = read(a);
  const double p = a.f("dropout_p");
  const std::vector<bool> mask = a.flags("grad_input_mask");
  const Value bias = a.tensor("attn_bias"), g = group(b, t, a.tensor("grad_out"));
  const Value weights = softmax(b, logits(b, a, t, bias), 3, true);
  Value factor;
  if (p > 0) {
    const Value state =
        b.concatenate({b.reshape(a.tensor("philox_seed"), {1}), b.reshape(a.tensor("philox_offset"), {1})}, 0);
    factor = dropout_factor(b, t, b.bitcast(state, Dtype::u64), p, weights.dtype());
  }
  const Value used = factor ? b.mul(weights, factor) : weights;
  Value gq, gk, gv, gbias;
  if (mask[2]) gv = b.cast(product(b, b.reshape(b.cast(used, t.q.dtype()), t.grouped), true, g, false), t.v.dtype());
  if (mask[0] || mask[1] || (mask[3] && bias)) {
    Value gw = b.reshape(product(b, g, false, t.v, true), t.scores);
    if (factor) gw = b.mul(gw, factor);
    const Value gs = softmax_backward(b, gw, weights, 3);
    const Value scaled = b.reshape(b.cast(b.mul(gs, t.scale), t.q.dtype()), t.grouped);
    if (mask[0]) gq = b.cast(ungroup(b, t, product(b, scaled, t.k)), t.q.dtype());
    if (mask[1]) gk = b.cast(product(b, scaled, true, group(b, t, t.q), false), t.k.dtype());
    if (mask[3] && bias) {
      Dims summed;
      const int64_t lead = gs.rank() - bias.rank();
      for (int64_t i = 0; i < gs.rank(); ++i)
        if (i < lead || (bias.dim(i - lead) == 1 && gs.dim(i) != 1)) summed.push_back(i);
      gbias = b.cast(b.reshape(b.reduce(Reduce::add, gs, summed), bias.dims()), bias.dtype());
    }
  }
  return {gq, gk, gv, gbias};
}

}  // namespace torchport::ops
