// The inference paths of nn.MultiheadAttention and nn.TransformerEncoderLayer, which PyTorch calls as one op each.
#include <cmath>

#include "ops/product.h"
#include "ops/softmax.h"

namespace torchport::ops {

namespace {

// x [..., k] times the transpose of weight [m, k], plus bias, in f32 for halves.
Value linear(Builder& b, const Value& x, const Value& weight, const Value& bias) {
  const Value y = b.dot_general(x, weight, {}, {}, {x.rank() - 1}, {1}, opmath(x.dtype()));
  return b.add(y, b.cast(bias, y.dtype()));
}
Value layer_norm(Builder& b, const Value& x, const Value& weight, const Value& bias, double eps) {
  const int64_t last = x.rank() - 1;
  const double n = static_cast<double>(x.dim(last));
  const Value centred = b.sub(x, b.div(b.reduce_keep(Reduce::add, x, {last}, true), n));
  const Value var = b.div(b.reduce_keep(Reduce::add, b.mul(centred, centred), {last}, true), n);
  return b.add(b.mul(b.mul(centred, b.rsqrt(b.add(var, eps))), b.cast(weight, x.dtype())), b.cast(bias, x.dtype()));
}

struct Heads {
  Value out, weights;  // [B, L, D]; [B, H, L, S]
};
// mask_type: 0 = [L, S] for all, 1 = [B, S] padding, 2 = [B, H, L, S]; an element other than 0 leaves its place out.
Heads attend(Builder& b, Args& a, const Value& query, const Value& key, const Value& value, int64_t heads) {
  const Value w = a.tensor("qkv_weight"), bias = a.tensor("qkv_bias"), mask = a.tensor("mask");
  const int64_t d = a.i("embed_dim"), h = heads;
  a.check(query.rank() == 3 && key.rank() == 3 && value.rank() == 3 && query.dim(2) == d && key.dim(2) == d &&
              value.dim(2) == d,
          Code::shape_mismatch,
          str("query, key and value must be [batch, length, ", d, "], got ", text(query.dims()), ", ", text(key.dims()),
              " and ", text(value.dims())));
  a.check(w.rank() == 2 && w.dim(0) == 3 * d && w.dim(1) == d && bias.numel() == 3 * d && h > 0 && d % h == 0,
          Code::shape_mismatch,
          str("qkv_weight must be [", 3 * d, ", ", d, "] and the heads must divide ", d, ", got ", text(w.dims()),
              " and ", h, " heads"));
  const Dtype dtype = query.dtype();
  auto project = [&](const Value& x, int64_t part) {  // [B, L, D] -> [B, H, L, D / H]
    const Value y = b.cast(
        linear(b, x, b.slice_dim(w, 0, part * d, (part + 1) * d), b.slice_dim(bias, 0, part * d, (part + 1) * d)),
        dtype);
    return b.transpose(b.reshape(y, {x.dim(0), x.dim(1), h, d / h}), {0, 2, 1, 3});
  };
  const Value q = project(query, 0), k = project(key, 1), v = project(value, 2);
  Value scores = b.mul(product(b, q, false, k, true), 1 / std::sqrt(static_cast<double>(d / h)));
  if (mask) {
    const Value out = b.cast(mask, Dtype::b1);
    const int64_t type = a.i("mask_type", 2);
    const Value full = type == 1 && out.rank() == 2 ? b.broadcast_in_dim(out, scores.dims(), {0, 3})
                                                    : b.broadcast_to(out, scores.dims());
    scores = b.select(full, b.lowest(scores.dtype(), scores.dims()), scores);
  }
  const Value weights = softmax(b, scores, 3, false);
  const Value mixed = b.cast(product(b, b.cast(weights, dtype), v), dtype);
  const Value joined = b.reshape(b.transpose(mixed, {0, 2, 1, 3}), {query.dim(0), query.dim(1), d});
  return {b.cast(linear(b, joined, a.tensor("proj_weight"), a.tensor("proj_bias")), dtype), b.cast(weights, dtype)};
}

}  // namespace

OP("_native_multi_head_attention") {
  const Heads r = attend(b, a, a.tensor("query"), a.tensor("key"), a.tensor("value"), a.i("num_head"));
  if (!a.flag("need_weights")) return {r.out, Value{}};
  if (!a.flag("average_attn_weights")) return {r.out, r.weights};
  const Value wide = b.cast(r.weights, opmath(r.weights.dtype()));
  return {r.out, b.cast(b.div(b.reduce(Reduce::add, wide, {1}), static_cast<double>(wide.dim(1))), r.weights.dtype())};
}

OP("_transformer_encoder_layer_fwd") {
  const Value src = a.tensor("src");
  const Dtype d = src.dtype();
  const bool first = a.flag("norm_first");
  auto norm = [&](const Value& x, const char* weight, const char* bias) {
    return b.cast(layer_norm(b, b.cast(x, opmath(d)), a.tensor(weight), a.tensor(bias), a.f("eps")), d);
  };
  Value x = first ? norm(src, "norm_weight_1", "norm_bias_1") : src;
  x = b.add(attend(b, a, x, x, x, a.i("num_heads")).out, src);
  if (!first) x = norm(x, "norm_weight_1", "norm_bias_1");
  const Value kept = x;
  if (first) x = norm(x, "norm_weight_2", "norm_bias_2");
  Value y = linear(b, x, a.tensor("ffn_weight_1"), a.tensor("ffn_bias_1"));
  if (a.flag("use_gelu"))
    y = b.mul(b.mul(y, 0.5), b.add(b.unary("chlo.erf", b.mul(y, std::sqrt(0.5))), 1.0));
  else
    y = b.max(y, 0.0);
  x = b.add(b.cast(linear(b, b.cast(y, d), a.tensor("ffn_weight_2"), a.tensor("ffn_bias_2")), d), kept);
  return first ? x : norm(x, "norm_weight_2", "norm_bias_2");
}

// [B, T, 3 D] -> query (scaled), key and value of [B, heads, T, D / heads].
OP("_transform_bias_rescale_qkv") {
  const Value qkv = a.tensor("qkv"), bias = a.tensor("qkv_bias");
  const int64_t heads = a.i("num_heads");
  a.check(
      qkv.rank() == 3 && qkv.dim(2) % 3 == 0 && bias.numel() == qkv.dim(2) && heads > 0 && qkv.dim(2) / 3 % heads == 0,
      Code::shape_mismatch,
      str("qkv must be [batch, length, 3 * D] with heads that divide D, got ", text(qkv.dims()), " and ", heads));
  const int64_t width = qkv.dim(2) / 3 / heads;
  const Value sum = b.add(b.cast(qkv, opmath(qkv.dtype())), b.cast(b.flatten(bias), opmath(qkv.dtype())));
  const Value parts = b.transpose(b.reshape(sum, {qkv.dim(0), qkv.dim(1), 3, heads, width}), {2, 0, 3, 1, 4});
  auto part = [&](int64_t i, double scale) {
    const Value v = b.squeeze(b.slice_dim(parts, 0, i, i + 1), 0);
    return b.cast(scale == 1 ? v : b.mul(v, scale), qkv.dtype());
  };
  return {part(0, 1 / std::sqrt(static_cast<double>(width))), part(1, 1), part(2, 1)};
}

}  // namespace torchport::ops
