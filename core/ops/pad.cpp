// Padding: constant, reflection, replication, with gradients.
#include "ops/op.h"

namespace torchport::ops {

namespace {

struct Sides {
  int64_t dim, low, high;
};

// padding = [last dimension low, high, the one before low, high, ...]
std::vector<Sides> sides_of(const Dims& padding, int64_t rank) {
  std::vector<Sides> out;
  for (size_t k = 0; k + 1 < padding.size(); k += 2)
    out.push_back({rank - 1 - static_cast<int64_t>(k / 2), padding[k], padding[k + 1]});
  return out;
}

// Negative padding crops: after the positive part forward, before it backward.
Value crop(Builder& b, const Value& x, const Sides& s) {
  return b.slice_dim(x, s.dim, std::max<int64_t>(-s.low, 0), x.dim(s.dim) - std::max<int64_t>(-s.high, 0));
}
Value uncrop(Builder& b, const Value& grad, const Sides& s) {
  Dims low(grad.rank(), 0), high(grad.rank(), 0);
  low[s.dim] = std::max<int64_t>(-s.low, 0), high[s.dim] = std::max<int64_t>(-s.high, 0);
  return b.pad(grad, b.constant(0, grad.dtype()), low, high);
}
Value place(Builder& b, const Value& part, int64_t dim, int64_t at, int64_t size) {  // part within zeros
  Dims low(part.rank(), 0), high(part.rank(), 0);
  low[dim] = at, high[dim] = size - at - part.dim(dim);
  return b.pad(part, b.constant(0, part.dtype()), low, high);
}

Value reflect(Builder& b, const Value& x, const Sides& s) {
  const int64_t n = x.dim(s.dim), low = std::max<int64_t>(s.low, 0), high = std::max<int64_t>(s.high, 0);
  Values parts;
  if (low) parts.push_back(b.reverse(b.slice_dim(x, s.dim, 1, low + 1), {s.dim}));
  parts.push_back(x);
  if (high) parts.push_back(b.reverse(b.slice_dim(x, s.dim, n - 1 - high, n - 1), {s.dim}));
  return crop(b, b.concatenate(parts, s.dim), s);
}
Value reflect_backward(Builder& b, Value grad, const Sides& s) {
  grad = uncrop(b, grad, s);
  const int64_t low = std::max<int64_t>(s.low, 0), high = std::max<int64_t>(s.high, 0),
                n = grad.dim(s.dim) - low - high;
  Value out = b.slice_dim(grad, s.dim, low, low + n);
  if (low) out = b.add(out, place(b, b.reverse(b.slice_dim(grad, s.dim, 0, low), {s.dim}), s.dim, 1, n));
  if (high)
    out = b.add(
        out, place(b, b.reverse(b.slice_dim(grad, s.dim, low + n, low + n + high), {s.dim}), s.dim, n - 1 - high, n));
  return out;
}

Value replicate(Builder& b, const Value& x, const Sides& s) {
  const int64_t n = x.dim(s.dim), low = std::max<int64_t>(s.low, 0), high = std::max<int64_t>(s.high, 0);
  auto edge = [&](int64_t at, int64_t count) {
    Dims dims = x.dims();
    dims[s.dim] = count;
    return b.broadcast_to(b.slice_dim(x, s.dim, at, at + 1), dims);
  };
  Values parts;
  if (low) parts.push_back(edge(0, low));
  parts.push_back(x);
  if (high) parts.push_back(edge(n - 1, high));
  return crop(b, b.concatenate(parts, s.dim), s);
}
Value replicate_backward(Builder& b, Value grad, const Sides& s) {
  grad = uncrop(b, grad, s);
  const int64_t low = std::max<int64_t>(s.low, 0), high = std::max<int64_t>(s.high, 0),
                n = grad.dim(s.dim) - low - high;
  Value out = b.slice_dim(grad, s.dim, low, low + n);
  auto sum = [&](int64_t from, int64_t to) {
    return b.reduce_keep(Reduce::add, b.slice_dim(grad, s.dim, from, to), {s.dim}, true);
  };
  if (low) out = b.add(out, place(b, sum(0, low), s.dim, 0, n));
  if (high) out = b.add(out, place(b, sum(low + n, low + n + high), s.dim, n - 1, n));
  return out;
}

using Step = Value (*)(Builder&, const Value&, const Sides&);
using BackStep = Value (*)(Builder&, Value, const Sides&);

std::vector<Sides> checked(Args& a, const Value& x, bool reflects) {
  const Dims padding = a.ints("padding");
  const int64_t spatial = static_cast<int64_t>(padding.size()) / 2;
  const int64_t expected = a.where()[a.where().find("_pad") + 4] - '0';
  a.check(padding.size() % 2 == 0 && spatial == expected, Code::bad_value,
          str("padding must have ", 2 * expected, " entries, got ", text(padding)));
  a.check(x.rank() == spatial + 1 || x.rank() == spatial + 2, Code::bad_value,
          str("self must have ", spatial + 1, " or ", spatial + 2, " dimensions, got ", text(x.type())));
  for (int64_t k = x.rank() == spatial + 2 ? 1 : 0; k < x.rank(); ++k)
    a.check(x.dim(k) > 0, Code::bad_value,
            str("self must have no empty dimension but the batch, got ", text(x.type())));
  const std::vector<Sides> sides = sides_of(padding, x.rank());
  for (const Sides& s : sides) {
    const int64_t n = x.dim(s.dim);
    a.check(!reflects || (s.low < n && s.high < n), Code::bad_value,
            str("padding must be less than the dimension it reflects, got ", text(padding), " for ", text(x.type())));
    a.check(n + s.low + s.high >= 1, Code::bad_value,
            str("padding must leave at least one element in dimension ", s.dim, ", got ", text(padding), " for ",
                text(x.type())));
  }
  return sides;
}
Value forward(Builder& b, Args& a, bool reflects, Step step) {
  Value x = a.tensor("self");
  for (const Sides& s : checked(a, x, reflects)) x = step(b, x, s);
  return x;
}
Value backward(Builder& b, Args& a, bool reflects, BackStep step) {
  const Value x = a.tensor("self"), grad = a.tensor("grad_output");
  const std::vector<Sides> sides = checked(a, x, reflects);
  Dims want = x.dims();
  for (const Sides& s : sides) want[s.dim] += s.low + s.high;
  a.check(grad.dims() == want, Code::shape_mismatch,
          str("grad_output must be of shape ", text(want), ", got ", text(grad.dims())));
  Value out = b.cast(grad, opmath(grad.dtype()));
  for (auto s = sides.rbegin(); s != sides.rend(); ++s) out = step(b, out, *s);
  return b.cast(out, grad.dtype());
}

}  // namespace

OP("constant_pad_nd") {
  const Value x = a.tensor("self");
  const Dims padding = a.ints("pad");
  a.check(padding.size() % 2 == 0, Code::bad_value,
          str("pad must have an even number of entries, got ", text(padding)));
  a.check(static_cast<int64_t>(padding.size()) / 2 <= x.rank(), Code::bad_value,
          str("pad must have at most ", 2 * x.rank(), " entries, got ", text(padding)));
  Dims low(x.rank(), 0), high(x.rank(), 0);
  for (const Sides& s : sides_of(padding, x.rank())) {
    const int64_t size = x.dim(s.dim) + s.low + s.high;
    a.check(size >= 0 && x.dim(s.dim) + std::min<int64_t>(s.low, 0) + std::min<int64_t>(s.high, 0) >= 0,
            Code::bad_value, str("pad must leave a size of at least 0, got ", text(padding), " for ", text(x.type())));
    low[s.dim] = s.low, high[s.dim] = s.high;
  }
  return b.pad(x, a.number("value", x.dtype()), low, high);
}

OP("reflection_pad1d reflection_pad2d reflection_pad3d") { return forward(b, a, true, reflect); }
OP("replication_pad1d replication_pad2d replication_pad3d") { return forward(b, a, false, replicate); }
OP("reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward") {
  return backward(b, a, true, reflect_backward);
}
OP("replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward") {
  return backward(b, a, false, replicate_backward);
}

}  // namespace torchport::ops
