// One step of an LSTM or a GRU after its two matrix products: what nn.LSTM, nn.GRU and their cells reach on a device.
#include "ops/op.h"

namespace torchport::ops {

namespace {

Value wide(Builder& b, const Value& x) { return b.cast(x, opmath(x.dtype())); }
// The k-th of n equal parts of the last dimension.
Value part(Builder& b, const Value& x, int64_t k, int64_t n) {
  const int64_t h = x.dim(-1) / n;
  return b.slice_dim(x, -1, k * h, (k + 1) * h);
}
Value sigmoid_slope(Builder& b, const Value& y) { return b.mul(y, b.rsub(1, y)); }
Value tanh_slope(Builder& b, const Value& y) { return b.rsub(1, b.mul(y, y)); }
Value with_bias(Builder& b, Args& a, const Value& gates, const char* bias) {
  const Value v = a.tensor(bias);
  return v ? b.add(gates, b.cast(v, gates.dtype())) : gates;
}
Value over_batch(Builder& b, const Value& grad, Dtype d) {
  Dims dims;
  for (int64_t i = 0; i + 1 < grad.rank(); ++i) dims.push_back(i);
  return b.cast(b.reduce(Reduce::add, grad, dims), d);
}
void expect_gates(Args& a, const Value& in, const Value& hidden, const Value& state, int64_t n) {
  a.check(in.dims() == hidden.dims() && in.rank() >= 1 && state.rank() == in.rank() && in.dim(-1) == n * state.dim(-1),
          Code::shape_mismatch,
          str("gates must be ", n, " times as wide as the state, got ", text(in.dims()), ", ", text(hidden.dims()),
              " and ", text(state.dims())));
}

}  // namespace

OP("_thnn_fused_lstm_cell") {
  const Value in = a.tensor("input_gates"), hidden = a.tensor("hidden_gates"), cx = a.tensor("cx");
  expect_gates(a, in, hidden, cx, 4);
  const Value gates =
      b.add(with_bias(b, a, wide(b, in), "input_bias"), with_bias(b, a, wide(b, hidden), "hidden_bias"));
  const Value i = b.sigmoid(part(b, gates, 0, 4)), f = b.sigmoid(part(b, gates, 1, 4)),
              g = b.tanh(part(b, gates, 2, 4)), o = b.sigmoid(part(b, gates, 3, 4));
  const Value cy = b.add(b.mul(f, wide(b, cx)), b.mul(i, g)), hy = b.mul(o, b.tanh(cy));
  return {b.cast(hy, in.dtype()), b.cast(cy, in.dtype()),
          b.cast(b.concatenate({i, f, g, o}, gates.rank() - 1), in.dtype())};
}

OP("_thnn_fused_lstm_cell_backward_impl") {
  const Value workspace = a.tensor("workspace"), cx = wide(b, a.tensor("cx")), cy = wide(b, a.tensor("cy"));
  const Value gates = wide(b, workspace);
  const Value ghy = a.tensor("grad_hy"), gcy = a.tensor("grad_cy");
  if (!ghy && !gcy) return {Value{}, Value{}, Value{}};
  const Value i = part(b, gates, 0, 4), f = part(b, gates, 1, 4), g = part(b, gates, 2, 4), o = part(b, gates, 3, 4);
  const Value gh = ghy ? wide(b, ghy) : b.like(cy, 0), t = b.tanh(cy);
  Value gc = b.mul(b.mul(gh, o), tanh_slope(b, t));
  if (gcy) gc = b.add(gc, wide(b, gcy));
  const Value grad = b.concatenate({b.mul(b.mul(gc, g), sigmoid_slope(b, i)), b.mul(b.mul(gc, cx), sigmoid_slope(b, f)),
                                    b.mul(b.mul(gc, i), tanh_slope(b, g)), b.mul(b.mul(gh, t), sigmoid_slope(b, o))},
                                   gates.rank() - 1);
  const Dtype d = workspace.dtype();
  return {b.cast(grad, d), b.cast(b.mul(gc, f), d), a.flag("has_bias") ? over_batch(b, grad, d) : Value{}};
}

OP("_thnn_fused_gru_cell") {
  const Value in = a.tensor("input_gates"), hidden = a.tensor("hidden_gates"), state = a.tensor("hx");
  expect_gates(a, in, hidden, state, 3);
  const Value x = with_bias(b, a, wide(b, in), "input_bias"), h = with_bias(b, a, wide(b, hidden), "hidden_bias"),
              hx = wide(b, state);
  const Value reset = b.sigmoid(b.add(part(b, x, 0, 3), part(b, h, 0, 3))),
              update = b.sigmoid(b.add(part(b, x, 1, 3), part(b, h, 1, 3)));
  const Value inner = part(b, h, 2, 3), fresh = b.tanh(b.add(part(b, x, 2, 3), b.mul(reset, inner)));
  const Value hy = b.add(fresh, b.mul(update, b.sub(hx, fresh)));
  return {b.cast(hy, in.dtype()), b.cast(b.concatenate({reset, update, fresh, hx, inner}, hx.rank() - 1), in.dtype())};
}

OP("_thnn_fused_gru_cell_backward") {
  const Value workspace = a.tensor("workspace"), w = wide(b, workspace), g = wide(b, a.tensor("grad_hy"));
  const Value reset = part(b, w, 0, 5), update = part(b, w, 1, 5), fresh = part(b, w, 2, 5), hx = part(b, w, 3, 5),
              inner = part(b, w, 4, 5);
  const Value gupdate = b.mul(b.mul(g, b.sub(hx, fresh)), sigmoid_slope(b, update));
  const Value gfresh = b.mul(b.mul(g, b.rsub(1, update)), tanh_slope(b, fresh));
  const Value greset = b.mul(b.mul(gfresh, inner), sigmoid_slope(b, reset));
  const int64_t last = w.rank() - 1;
  const Value gin = b.concatenate({greset, gupdate, gfresh}, last),
              ghidden = b.concatenate({greset, gupdate, b.mul(gfresh, reset)}, last);
  const Dtype d = workspace.dtype();
  const bool bias = a.flag("has_bias");
  return {b.cast(gin, d), b.cast(ghidden, d), b.cast(b.mul(g, update), d), bias ? over_batch(b, gin, d) : Value{},
          bias ? over_batch(b, ghidden, d) : Value{}};
}

}  // namespace torchport::ops
