// Connectionist temporal classification (Graves et al., 2006): the forward and backward recursions over the target with
// a blank between and around its labels. Lengths are data, so that a new batch runs the same program.
#include <limits>

#include "ops/index.h"
#include "ops/math.h"
#include "ops/scan.h"

namespace torchport::ops {

namespace {

struct Ctc {
  Value lp;                           // [T, N, C]
  Value label;                        // i64 [N, L]: blank, first label, blank, ...; L = 2 S + 1
  Value skip;                         // i1 [N, L]: reachable from two states back
  Value input_length, target_length;  // i64 [N]
  Value at;                           // [T, N, L]: log probability of each state's label
  int64_t t, n, c, l;
};

// int[] in the key, or a tensor.
Value lengths(Builder& b, Args& a, const char* name, int64_t n) {
  const graph::Attr* given = a.find_attr(name);
  Value v;
  if (const Dims* ints = std::get_if<Dims>(given))
    v = b.constants(std::vector<int64_t>(ints->begin(), ints->end()));
  else
    v = b.cast(a.tensor(name), Dtype::i64);
  a.check(v.rank() == 1 && v.dim(0) == n, Code::bad_value,
          str(name, " must have one entry a batch element, ", n, ", got ", text(v.dims())));
  return v;
}
Value lowest_log(Builder& b, Dtype d, const Dims& dims) {
  return b.constant(-std::numeric_limits<double>::infinity(), d, dims);
}
Value over_states(Builder& b, const Value& v, const Dims& dims) { return b.broadcast_in_dim(v, dims, {0}); }

Ctc read(Builder& b, Args& a) {
  Ctc k;
  k.lp = a.tensor("log_probs");
  a.check(k.lp.rank() == 3, Code::bad_value, str("log_probs must be [T, N, C], got ", text(k.lp.type())));
  a.check(k.lp.dtype() == Dtype::f32 || k.lp.dtype() == Dtype::f64, Code::op_unsupported,
          str("log_probs must be float32 or float64 (not implemented for others), got ", name(k.lp.dtype())));
  k.t = k.lp.dim(0), k.n = k.lp.dim(1), k.c = k.lp.dim(2);
  a.check(k.t > 0, Code::bad_value, "log_probs must have at least one step, got none");
  const Value targets = a.tensor("targets");
  a.check(is_int(targets.dtype()), Code::bad_value, str("targets must be integers, got ", name(targets.dtype())));
  const int64_t blank = a.i("blank");
  a.check(blank >= 0 && blank < k.c, Code::bad_value, str("blank must be in [0, ", k.c, "), got ", blank));
  k.input_length = lengths(b, a, "input_lengths", k.n), k.target_length = lengths(b, a, "target_lengths", k.n);
  a.require(
      b.bit_and(b.compare(Cmp::ge, k.input_length, 0), b.compare(Cmp::le, k.input_length, static_cast<double>(k.t))),
      Code::bad_value, str("input_lengths must be in [0, ", k.t, "]"));
  Value rows;                 // [N, S]
  if (targets.rank() == 1) {  // one after the other
    const Dims* ints = std::get_if<Dims>(a.find_attr("target_lengths"));
    int64_t s = targets.dim(0);
    if (ints) {
      s = 0;
      for (int64_t v : *ints) s = std::max(s, v);
    }
    const Value start = b.sub(running_sum(b, k.target_length, 0), k.target_length);
    const Value place = b.add(over_states(b, start, {k.n, s}), b.iota({Dtype::i64, {k.n, s}}, 1));
    rows = targets.dim(0) == 0
               ? b.constant(0, Dtype::i64, {k.n, s})
               : take_flat(b, b.cast(targets, Dtype::i64), b.min(place, static_cast<double>(targets.dim(0) - 1)));
  } else {
    a.check(targets.rank() == 2 && targets.dim(0) == k.n, Code::bad_value,
            str("targets must be a vector or [", k.n, ", S], got ", text(targets.type())));
    rows = b.cast(targets, Dtype::i64);
  }
  const int64_t s = rows.dim(1);
  a.require(
      b.bit_and(b.compare(Cmp::ge, k.target_length, 0), b.compare(Cmp::le, k.target_length, static_cast<double>(s))),
      Code::bad_value, str("target_lengths must be in [0, ", s, "]"));
  // What lies beyond a target is never read; keep it addressable.
  rows = b.clamp(b.constant(0, Dtype::i64), rows, b.constant(static_cast<double>(k.c - 1), Dtype::i64));
  k.l = 2 * s + 1;
  k.label = b.pad(rows, b.constant_int(blank, Dtype::i64), {0, 1}, {0, 1}, {0, 1});
  const Value before = b.pad(k.label, b.constant_int(blank, Dtype::i64), {0, 2}, {0, -2});
  k.skip = b.bit_and(b.ne(k.label, b.constant_int(blank, Dtype::i64)), b.ne(k.label, before));
  const Dims grid{k.t, k.n, k.l};
  const Value index =
      b.concatenate({b.iota({Dtype::i64, {k.t, k.n, k.l, 1}}, 0), b.iota({Dtype::i64, {k.t, k.n, k.l, 1}}, 1),
                     b.reshape(b.broadcast_in_dim(k.label, grid, {1, 2}), {k.t, k.n, k.l, 1})},
                    3);
  GatherDims g;
  g.collapsed_slice_dims = {0, 1, 2}, g.start_index_map = {0, 1, 2}, g.index_vector_dim = 3;
  k.at = k.n == 0 ? b.constant(0, k.lp.dtype(), grid) : b.gather(k.lp, index, g, {1, 1, 1});
  return k;
}

// log(exp(x) + exp(y) + exp(z)), -inf when all are.
Value log_sum(Builder& b, const Value& x, const Value& y, const Value& z) {
  const Value top = b.max(b.max(x, y), z);
  const Value safe = b.select(b.is_finite(top), top, b.like(top, 0));
  const Value sum = b.add(b.add(b.exp(b.sub(x, safe)), b.exp(b.sub(y, safe))), b.exp(b.sub(z, safe)));
  return b.add(b.log(sum), safe);
}
// x moved by k states towards the end (or the beginning), -inf coming in.
Value moved(Builder& b, const Value& x, int64_t k) {
  return b.pad(x, b.reshape(lowest_log(b, x.dtype(), {}), {}), {0, k}, {0, -k});
}
Value step_of(Builder& b, const Ctc& k, const Value& all, const Value& t) {  // all[t]: [N, L]
  const Value zero = b.constant(0, Dtype::i64);
  return b.reshape(b.dynamic_slice(all, {t, zero, zero}, {1, k.n, k.l}), {k.n, k.l});
}
Value with_step(Builder& b, const Ctc& k, const Value& all, const Value& t, const Value& step) {
  const Value zero = b.constant(0, Dtype::i64);
  return b.dynamic_update_slice(all, b.reshape(step, {1, k.n, k.l}), {t, zero, zero});
}
Value state(Builder& b, const Ctc& k) { return b.iota({Dtype::i64, {k.n, k.l}}, 1); }
// States past the end of a batch element's own target.
Value inside(Builder& b, const Ctc& k) {
  return b.le(state(b, k), over_states(b, b.mul(k.target_length, 2.0), {k.n, k.l}));
}

// log alpha [T, N, L]: paths that are in state s after step t.
Value forward(Builder& b, const Ctc& k) {
  const Dtype d = k.lp.dtype();
  const Value none = lowest_log(b, d, {k.n, k.l}), reach = inside(b, k);
  const Value start = b.bit_and(b.compare(Cmp::lt, state(b, k), 2), reach);
  const Value zero = b.constant(0, Dtype::i64);
  const Value first = b.select(start, step_of(b, k, k.at, zero), none);
  const Value all = with_step(b, k, lowest_log(b, d, {k.t, k.n, k.l}), zero, first);
  return b.while_loop(
      {b.constant(1, Dtype::i64), all, first, k.at, k.skip, reach},
      [&](const Values& v) { return Values{b.compare(Cmp::lt, v[0], static_cast<double>(k.t))}; },
      [&](const Values& v) {
        const Value& past = v[2];
        const Value two = b.select(v[4], moved(b, past, 2), lowest_log(b, d, past.dims()));
        const Value sum = b.add(log_sum(b, past, moved(b, past, 1), two), step_of(b, k, v[3], v[0]));
        const Value now = b.select(v[5], sum, lowest_log(b, d, past.dims()));
        return Values{b.add(v[0], 1.0), with_step(b, k, v[1], v[0], now), now, v[3], v[4], v[5]};
      })[1];
}

// log beta [T, N, L]: ways to finish from state s at step t, that step's own probability included.
Value backward(Builder& b, const Ctc& k) {
  const Dtype d = k.lp.dtype();
  const Dims dims{k.n, k.l};
  const Value none = lowest_log(b, d, dims), end = over_states(b, b.mul(k.target_length, 2.0), dims);
  const Value goal = b.bit_or(b.eq(state(b, k), end), b.eq(state(b, k), b.sub(end, 1.0)));
  const Value last = over_states(b, b.sub(k.input_length, 1.0), dims);
  const Value skip_ahead = b.pad(k.skip, b.constant(0, Dtype::b1), {0, -2}, {0, 2});
  return b.while_loop(
      {b.constant(static_cast<double>(k.t - 1), Dtype::i64), lowest_log(b, d, {k.t, k.n, k.l}), none, k.at, skip_ahead,
       goal, last},
      [&](const Values& v) { return Values{b.compare(Cmp::ge, v[0], 0)}; },
      [&](const Values& v) {
        const Value &later = v[2], own = step_of(b, k, v[3], v[0]), t = b.full(v[0], dims);
        const Value two = b.select(v[4], moved(b, later, -2), lowest_log(b, d, dims));
        const Value on = b.add(log_sum(b, later, moved(b, later, -1), two), own);
        const Value now = b.select(b.eq(t, v[6]), b.select(v[5], own, lowest_log(b, d, dims)), on);
        return Values{b.sub(v[0], 1.0), with_step(b, k, v[1], v[0], now), now, v[3], v[4], v[5], v[6]};
      })[1];
}

}  // namespace

OP("_ctc_loss _ctc_loss.Tensor") {
  const Ctc k = read(b, a);
  const Dtype d = k.lp.dtype();
  if (k.n == 0) return {b.zeros({d, {0}}), b.zeros({d, {0, k.t, k.l}})};
  const Value alpha = forward(b, k);
  // the sum over the two final states of the step before input_length
  const Dims grid{k.t, k.n, k.l};
  const Value step = b.iota({Dtype::i64, grid}, 0);
  const Value last = b.eq(step, b.broadcast_in_dim(b.sub(k.input_length, 1.0), grid, {1}));
  const Value final_step = b.reduce(Reduce::max, b.select(last, alpha, lowest_log(b, d, grid)), {0});
  auto at = [&](int64_t back) {
    const Value s = b.sub(b.mul(k.target_length, 2.0), static_cast<double>(back));
    const Value hit = b.eq(state(b, k), over_states(b, s, {k.n, k.l}));
    return b.reduce(Reduce::max, b.select(hit, final_step, lowest_log(b, d, final_step.dims())), {1});
  };
  Value loss = b.neg(log_sum(b, at(0), at(1), lowest_log(b, d, {k.n})));
  // nothing to read: certain when there is nothing to say
  const Value silent = b.compare(Cmp::eq, k.input_length, 0);
  const Value empty = b.compare(Cmp::eq, k.target_length, 0);
  const Value impossible = b.constant(std::numeric_limits<double>::infinity(), d, {k.n});
  loss = b.select(silent, b.select(empty, b.like(loss, 0), impossible), loss);
  return {loss, b.transpose(alpha, {1, 0, 2})};
}

// d loss / d log_probs[t, n, c] = p - (posterior of label c at step t), as for logits under log_softmax; see PyTorch's
// note on ctc_loss.
OP("_ctc_loss_backward _ctc_loss_backward.Tensor") {
  const Ctc k = read(b, a);
  const Dtype d = k.lp.dtype();
  if (k.n == 0) return b.zeros(k.lp.type());
  const Dims grid{k.t, k.n, k.l}, wide{k.t, k.n, k.c};
  const Value loss = a.tensor("neg_log_likelihood"), alpha = b.transpose(a.tensor("log_alpha"), {1, 0, 2});
  const Value joint = b.sub(b.add(alpha, backward(b, k)), k.at);
  const Value open = b.compare(Cmp::gt, k.at, -std::numeric_limits<double>::infinity());  // else -inf - -inf
  const Value posterior =
      b.select(open, b.exp(b.add(joint, b.broadcast_in_dim(loss, grid, {1}))), b.like(joint, 0));  // [T, N, L]
  const Value labels =
      b.cast(b.eq(b.iota({Dtype::i64, {k.n, k.l, k.c}}, 2), b.broadcast_in_dim(k.label, {k.n, k.l, k.c}, {0, 1})), d);
  const Value share = b.transpose(b.dot_general(posterior, labels, {1}, {0}, {2}, {1}, d), {1, 0, 2});
  const Value incoming = b.broadcast_in_dim(a.tensor("grad"), wide, {1});
  Value grad = b.mul(b.sub(b.exp(k.lp), share), incoming);
  const Value unread = b.ge(b.iota({Dtype::i64, wide}, 0), b.broadcast_in_dim(k.input_length, wide, {1}));
  grad = b.select(unread, b.like(grad, 0), grad);
  if (a.flag("zero_infinity")) {
    const Value infinite = b.bit_and(b.logical_not(b.is_finite(loss)), b.compare(Cmp::gt, loss, 0));
    grad = b.select(b.broadcast_in_dim(infinite, wide, {1}), b.like(grad, 0), grad);
  }
  return grad;
}

}  // namespace torchport::ops
