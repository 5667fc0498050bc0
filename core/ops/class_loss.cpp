// Losses over classes: negative log likelihood and the margin losses.
#include <cmath>

#include "ops/math.h"

namespace torchport::ops {

namespace {

// Scores as [N, C, S] and targets as [N, S] i64, whatever the layout: [C], [N, C] or [N, C, d1, ...].
struct Classes {
  Value scores, target, valid;  // valid: i1[N, S], false where the target is ignore_index
  int64_t n, c, s;
};
Value class_iota(Builder& b, const Classes& k) { return b.iota({Dtype::i64, {k.n, k.c, k.s}}, 1); }
Value hits(Builder& b, const Classes& k) { return b.eq(class_iota(b, k), b.unsqueeze(k.target, 1)); }

// A derivative's targets have been checked by the loss itself.
Classes classes(Builder& b, Args& a) {
  const Value self = widen(b, a.tensor("self")), t = a.tensor("target");
  // multi_margin_loss takes one score for one class
  const Value x = self.rank() == 0 && a.where().starts_with("multi_margin_loss") ? b.reshape(self, {1}) : self;
  a.check(t.dtype() == Dtype::i64 || t.dtype() == Dtype::u8, Code::bad_value,
          str("target must hold int64 class numbers, got ", name(t.dtype())));
  a.check(x.rank() > 0, Code::bad_value, "must get an input of at least 1 dimension, got 0");
  Dims expected = x.dims();
  expected.erase(expected.begin() + (x.rank() == 1 ? 0 : 1));
  const bool single = x.rank() == 1 && t.numel() == 1 && t.rank() <= 1;
  a.check(single || t.dims() == expected, Code::bad_value,
          str("target must have shape ", text(expected), " for input ", text(x.dims()), ", got ", text(t.dims())));
  Classes k;
  k.n = x.rank() == 1 ? 1 : x.dim(0), k.c = x.dim(x.rank() == 1 ? 0 : 1);
  k.s = torchport::numel(expected) / (x.rank() == 1 || k.n == 0 ? 1 : k.n);
  if (k.n == 0) k.s = 1;
  k.scores = b.reshape(x, {k.n, k.c, k.s});
  const Value index = b.reshape(b.cast(t, Dtype::i64), {k.n, k.s});
  k.valid = b.ne(index, b.constant_int(a.i("ignore_index", -100), Dtype::i64));
  const Value inside = b.bit_and(b.compare(Cmp::ge, index, 0), b.compare(Cmp::lt, index, static_cast<double>(k.c)));
  if (!a.find_attr("grad_output"))
    a.require(b.bit_or(inside, b.logical_not(k.valid)), Code::index_out_of_range,
              str("target must be in [0, ", k.c, ") (Target is out of bounds)"));
  k.target = b.select(k.valid, index, b.like(index, 0));
  return k;
}

// scores[n, target[n, s], s]
Value pick(Builder& b, const Classes& k) {
  const Type t{Dtype::i64, {k.n, k.s, 1}};
  const Value where = b.concatenate({b.iota(t, 0), b.unsqueeze(k.target, 2), b.iota(t, 1)}, 2);
  GatherDims g;
  g.collapsed_slice_dims = {0, 1, 2}, g.start_index_map = {0, 1, 2}, g.index_vector_dim = 2;
  if (k.n * k.s * k.c == 0) return b.constant(0, k.scores.dtype(), {k.n, k.s});
  return b.gather(k.scores, where, g, {1, 1, 1});
}
// weight[target], 0 where ignored.
Value class_weight(Builder& b, Args& a, const Classes& k) {
  const Dtype d = k.scores.dtype();
  Value w = b.constant(1, d, {k.n, k.s});
  if (a.has("weight")) {
    const Value table = b.cast(a.tensor("weight"), d);
    a.check(table.rank() == 1 && table.dim(0) == k.c, Code::bad_value,
            str("weight must have one entry a class (", k.c, "), got ", text(table.dims())));
    GatherDims g;
    g.collapsed_slice_dims = {0}, g.start_index_map = {0}, g.index_vector_dim = 2;
    if (k.c > 0) w = b.gather(table, b.unsqueeze(k.target, 2), g, {1});
  }
  return b.select(k.valid, w, b.like(w, 0));
}
Value total(Builder& b, const Value& x) { return b.reduce_keep(Reduce::add, x, {}, false); }

}  // namespace

OP("nll_loss_forward nll_loss2d_forward") {
  const Classes k = classes(b, a);
  const Dtype d = a.tensor("self").dtype();
  const Value w = class_weight(b, a, k),
              loss = b.select(k.valid, b.neg(b.mul(pick(b, k), w)), b.constant(0, k.scores.dtype()));
  const int64_t reduction = a.i("reduction");
  if (reduction == 0) return {b.cast(b.reshape(loss, a.tensor("target").dims()), d), b.constant(0, d)};
  const Value sum = total(b, loss), weights = total(b, w);
  return {b.cast(reduction == 1 ? b.div(sum, weights) : sum, d), b.cast(weights, d)};
}
OP("nll_loss_backward nll_loss2d_backward") {
  const Classes k = classes(b, a);
  const Dtype d = k.scores.dtype();
  Value g = b.cast(a.tensor("grad_output"), d), w = b.neg(class_weight(b, a, k));
  if (a.i("reduction") == 0)
    g = b.reshape(g, {k.n, k.s});
  else
    g = b.reshape(g, {1, 1});
  if (a.i("reduction") == 1) g = b.div(g, b.reshape(b.cast(a.tensor("total_weight"), d), {1, 1}));
  const Value one = b.unsqueeze(b.select(k.valid, b.mul(g, w), b.constant(0, d)), 1);
  const Value grad = b.select(hits(b, k), one, b.constant(0, d));
  return b.cast(b.reshape(grad, a.tensor("self").dims()), a.tensor("self").dtype());
}

namespace {

// margin - x[target] + x[j] for j other than the target, where above 0.
struct Margins {
  Classes k;
  Value hit, z, over, weight;
};
Margins margins(Builder& b, Args& a) {
  const int64_t p = a.i("p");
  a.check(p == 1 || p == 2, Code::bad_value, str("p must be 1 or 2, got ", p));
  Margins m;
  m.k = classes(b, a);
  m.hit = hits(b, m.k);
  const Dtype d = m.k.scores.dtype();
  m.z = b.add(b.sub(m.k.scores, b.unsqueeze(pick(b, m.k), 1)), a.number("margin", d));
  m.over = b.bit_and(b.logical_not(m.hit), b.compare(Cmp::gt, m.z, 0));
  m.weight = b.unsqueeze(b.div(class_weight(b, a, m.k), static_cast<double>(m.k.c)), 1);
  return m;
}

}  // namespace

OP("multi_margin_loss", Promote::none, "p!") {
  const Margins m = margins(b, a);
  const Value x = a.tensor("self"), cost = b.mul(a.i("p") == 1 ? m.z : square(b, m.z), m.weight);
  const Value each = b.reduce(Reduce::add, b.select(m.over, cost, b.constant(0, cost.dtype())), {1});
  return b.cast(reduce_loss(b, a, b.reshape(each, a.tensor("target").dims())), x.dtype());
}
OP("multi_margin_loss_backward", Promote::none, "p!") {
  const Margins m = margins(b, a);
  const Value x = a.tensor("self");
  const Dtype d = m.z.dtype();
  Value slope = b.mul(a.i("p") == 1 ? b.like(m.z, 1) : b.mul(m.z, 2), m.weight);
  slope = b.select(m.over, slope, b.constant(0, d));
  const Value back = b.unsqueeze(b.neg(b.reduce(Reduce::add, slope, {1})), 1);
  Value g = b.cast(a.tensor("grad_output"), d);
  g = a.i("reduction") == 0 ? b.reshape(g, {m.k.n, 1, 1}) : b.reshape(g, {1, 1, 1});
  if (a.i("reduction") == 1) g = b.div(g, static_cast<double>(m.k.n));
  return b.cast(b.reshape(b.mul(g, b.select(m.hit, back, slope)), x.dims()), x.dtype());
}

namespace {

// Each row lists its classes, ended by -1. pair[n, j, c]: the j-th listed class against class c, which is not listed.
struct Labels {
  Value x, target, live, is_target, gap, over;
  int64_t n, c;
};
Labels labels(Builder& b, Args& a) {
  const Value self = widen(b, a.tensor("self")), t = a.tensor("target");
  a.check(self.rank() <= 2 && self.dims() == t.dims() && (self.rank() == 0 || self.dim(-1) > 0), Code::bad_value,
          str("must get input and target of one shape, 1 or 2 dimensions with classes, got ", text(self.dims()),
              " and ", text(t.dims())));
  Labels l;
  l.n = self.rank() == 2 ? self.dim(0) : 1, l.c = self.rank() == 0 ? 1 : self.dim(-1);
  l.x = b.reshape(self, {l.n, l.c});
  const Value index = b.reshape(b.cast(t, Dtype::i64), {l.n, l.c}), place = b.iota({Dtype::i64, {l.n, l.c}}, 1);
  if (!a.find_attr("grad_output"))
    a.require(b.bit_and(b.compare(Cmp::ge, index, -1), b.compare(Cmp::lt, index, static_cast<double>(l.c))),
              Code::bad_value, str("target must be in [-1, ", l.c, ")"));
  const Value end = b.reduce(
      Reduce::min, b.select(b.compare(Cmp::lt, index, 0), place, b.like(place, static_cast<double>(l.c))), {1});
  l.live = b.lt(place, b.unsqueeze(end, 1));
  l.target = b.select(l.live, index, b.like(index, 0));
  const Value same = b.eq(b.unsqueeze(l.target, 2), b.iota({Dtype::i64, {l.n, l.c, l.c}}, 2));
  const Value listed = b.bit_and(same, b.unsqueeze(l.live, 2));
  l.is_target = b.reduce(Reduce::any, listed, {1});
  const Value own = b.reduce(Reduce::add, b.select(listed, b.unsqueeze(l.x, 1), b.constant(0, self.dtype())), {2});
  l.gap = b.add(b.sub(b.unsqueeze(l.x, 1), b.unsqueeze(own, 2)), 1);
  const Value pair = b.bit_and(b.unsqueeze(l.live, 2), b.unsqueeze(b.logical_not(l.is_target), 1));
  l.over = b.bit_and(pair, b.compare(Cmp::gt, l.gap, 0));
  return l;
}

}  // namespace

OP("multilabel_margin_loss_forward") {
  const Labels l = labels(b, a);
  const Value x = a.tensor("self");
  const Value cost = b.reduce(Reduce::add, b.select(l.over, l.gap, b.constant(0, l.gap.dtype())), {1, 2});
  const Value each = b.div(cost, static_cast<double>(l.c));
  const Value loss = reduce_loss(b, a, x.rank() == 2 ? each : b.reshape(each, {}));
  return {b.cast(loss, x.dtype()), b.reshape(b.cast(l.is_target, x.dtype()), x.dims())};
}
OP("multilabel_margin_loss_backward") {
  const Labels l = labels(b, a);
  const Value x = a.tensor("self");
  const Dtype d = l.gap.dtype();
  const Value ones = b.cast(l.over, d);  // [n, j, c]: +1 to class c, -1 to the j-th listed class
  const Value plus = b.reduce(Reduce::add, ones, {1}), minus = b.reduce(Reduce::add, ones, {2});
  const Value place =
      b.bit_and(b.eq(b.unsqueeze(l.target, 2), b.iota({Dtype::i64, {l.n, l.c, l.c}}, 2)), b.unsqueeze(l.live, 2));
  const Value taken = b.reduce(Reduce::add, b.select(place, b.unsqueeze(minus, 2), b.constant(0, d)), {1});
  Value g = b.cast(a.tensor("grad_output"), d);
  g = a.i("reduction") == 0 ? b.reshape(g, {l.n, 1}) : b.reshape(g, {1, 1});
  const double scale = (a.i("reduction") == 1 ? 1.0 / static_cast<double>(l.n) : 1.0) / static_cast<double>(l.c);
  return b.cast(b.reshape(b.mul(b.mul(b.sub(plus, taken), g), scale), x.dims()), x.dtype());
}

}  // namespace torchport::ops
