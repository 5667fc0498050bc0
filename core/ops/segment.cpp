// Reductions over consecutive segments of one dimension, and ragged rows to and from padded ones.
#include <limits>

#include "ops/index.h"
#include "ops/math.h"
#include "ops/scan.h"

namespace torchport::ops {

namespace {

// data as [B, N, I]: the dimensions before the axis, the axis, those after. Elements of batch row r belong to segments
// r * S ... r * S + S - 1; what lies in none belongs to B * S.
struct Segments {
  Value data, id, length;  // [B * N, I], i64 [B * N], i64 [B * S]
  int64_t batch, n, inner, count;
  Dims out;
};
Segments segments(Builder& b, Args& a) {
  const Value data = a.tensor("data");
  Value lengths = a.tensor("lengths");
  const Value offsets = a.tensor("offsets");
  a.check(!a.find_attr("indices") || !a.has("indices"), Code::op_unsupported,
          "must not get indices, which PyTorch does not implement either");
  a.check(lengths || offsets, Code::bad_value, "must get lengths or offsets, got neither");
  a.check(data.rank() > 0, Code::bad_value, "must get data of at least 1 dimension, got 0");
  a.check(is_float(data.dtype()), Code::op_unsupported,
          str("must get floating point data (not implemented for others), got ", name(data.dtype())));
  const Value& given = offsets ? offsets : lengths;
  const int64_t axis = a.dim("axis", data);
  a.check(given.rank() == axis + 1, Code::bad_value,
          str("axis must be the last dimension of ", offsets ? "offsets" : "lengths", ", ", given.rank() - 1, ", got ",
              axis));
  a.check(given.dtype() == Dtype::i32 || given.dtype() == Dtype::i64, Code::op_unsupported,
          str("must get int32 or int64 lengths or offsets, got ", name(given.dtype())));
  Segments s;
  s.n = data.dim(axis);
  s.batch = numel(Dims(data.dims().begin(), data.dims().begin() + axis));
  s.inner = numel(Dims(data.dims().begin() + axis + 1, data.dims().end()));
  s.count = given.dim(axis) - (offsets ? 1 : 0);
  s.out = data.dims();
  s.out[axis] = s.count;
  const Value marks = b.reshape(b.cast(given, Dtype::i64), {s.batch, given.dim(axis)});
  Value start, end;
  if (offsets) {
    start = b.slice_dim(marks, 1, 0, s.count), end = b.slice_dim(marks, 1, 1, s.count + 1);
  } else {
    end = s.count > 0 ? running_sum(b, marks, 1) : marks, start = b.sub(end, marks);
    if (a.find_attr("unsafe") && !a.flag("unsafe")) {
      a.require(b.compare(Cmp::ge, marks, 0), Code::bad_value, "lengths must not be negative");
      if (s.count > 0)
        a.require(b.compare(Cmp::eq, b.slice_dim(end, 1, s.count - 1, s.count), static_cast<double>(s.n)),
                  Code::bad_value, str("lengths must sum to the size of the axis, ", s.n));
    }
  }
  s.length = b.flatten(b.sub(end, start));
  // element j lies in the segment that as many ends as precede it have passed
  const Dims grid{s.batch, s.n, s.count};
  const Value j = b.iota({Dtype::i64, grid}, 1);
  auto over = [&](const Value& v) { return b.broadcast_in_dim(v, grid, {0, 2}); };
  const Value passed = b.reduce(Reduce::add, b.cast(b.ge(j, over(end)), Dtype::i64), {2});
  const Value in = b.reduce(Reduce::any, b.bit_and(b.ge(j, over(start)), b.lt(j, over(end))), {2});
  const Value row = b.mul(b.iota({Dtype::i64, {s.batch, s.n}}, 0), static_cast<double>(s.count));
  s.id = b.flatten(b.select(in, b.add(row, passed), b.constant(static_cast<double>(s.batch * s.count), Dtype::i64)));
  s.data = b.reshape(widen(b, data), {s.batch * s.n, s.inner});
  return s;
}

std::string kind_of(Args& a) {
  const std::string kind = a.text("reduce");
  for (const char* known : {"max", "mean", "min", "sum", "prod"})
    if (kind == known) return kind;
  a.fail(Code::bad_value, str("reduce must be max, mean, min, sum or prod, got '", kind, "'"));
}
Value spread_segments(Builder& b, const Segments& s, const Value& v) {  // [B * S] over [B * S, I]
  return b.broadcast_in_dim(v, {s.batch * s.count, s.inner}, {0});
}
// Rows [B * S, I] to the elements [B * N, I] of their segments; zero outside.
Value to_elements(Builder& b, const Segments& s, const Value& rows) {
  const Value padded = b.pad(rows, b.constant(0, rows.dtype()), {0, 0}, {1, 0});
  return take_rows(b, padded, 0, s.id);
}
Value sum_segments(Builder& b, const Segments& s, const Value& x) {
  return put_rows(b, b.constant(0, x.dtype(), {s.batch * s.count, s.inner}), 0, s.id, x, combine_add(b));
}

}  // namespace

OP("segment_reduce") {
  const std::string kind = kind_of(a);
  const Segments s = segments(b, a);
  const Dtype d = s.data.dtype();
  const double inf = std::numeric_limits<double>::infinity();
  const bool product = kind == "prod", most = kind == "max", least = kind == "min";
  const Value first = a.has("initial") ? a.number("initial", d)
                                       : b.constant(product ? 1
                                                    : most  ? -inf
                                                    : least ? inf
                                                            : 0,
                                                    d);
  const Body combine = product ? combine_mul(b) : most ? combine_max(b) : least ? combine_min(b) : combine_add(b);
  Value out = put_rows(b, b.full(first, {s.batch * s.count, s.inner}), 0, s.id, s.data, combine);
  if (kind == "mean") {
    const Value length = spread_segments(b, s, s.length), empty = b.compare(Cmp::eq, length, 0);
    const Value mean = b.div(out, b.cast(b.max(length, 1.0), d));
    out = b.select(empty, a.has("initial") ? out : b.nan(d, out.dims()), mean);
  }
  return b.cast(b.reshape(out, s.out), a.tensor("data").dtype());
}

OP("_segment_reduce_backward") {
  const std::string kind = kind_of(a);
  const Segments s = segments(b, a);
  const Dtype d = s.data.dtype();
  const Dims rows{s.batch * s.count, s.inner};
  const Value grad = b.reshape(b.cast(a.tensor("grad"), d), rows);
  Value out;
  if (kind == "sum") {
    out = to_elements(b, s, grad);
  } else if (kind == "mean") {
    out = to_elements(b, s, b.div(grad, b.cast(b.max(spread_segments(b, s, s.length), 1.0), d)));
  } else if (kind == "prod") {
    const Value result = b.reshape(b.cast(a.tensor("output"), d), rows);
    // An element that is 0 or NaN cannot be divided out: the product of the others, over all pairs of its segment.
    const Value odd = b.bit_or(b.compare(Cmp::eq, s.data, 0), b.is_nan(s.data));
    const Value plain = b.select(odd, b.like(s.data, 1), s.data);
    const Value one = b.constant(1, d, rows);
    const Value rest = put_rows(b, one, 0, s.id, plain, combine_mul(b));  // of the elements that can be divided out
    const Value odds = sum_segments(b, s, b.cast(odd, d));
    const Value odd_product = put_rows(b, one, 0, s.id, b.select(odd, s.data, b.like(s.data, 1)), combine_mul(b));
    const Value alone = b.compare(Cmp::le, to_elements(b, s, odds), 1);
    // two or more: 0 unless a NaN is among the others
    const Value others = b.select(alone, b.like(s.data, 1), to_elements(b, s, odd_product));
    const Value initial = a.has("initial") ? a.number("initial", d) : b.constant(1, d);
    const Value special = b.mul(b.mul(to_elements(b, s, rest), others), initial);
    out = b.select(odd, b.mul(to_elements(b, s, grad), special), b.div(to_elements(b, s, b.mul(grad, result)), plain));
  } else {
    const Value result = b.reshape(b.cast(a.tensor("output"), d), rows);
    const Value hit = b.bit_or(b.is_nan(s.data), b.eq(s.data, to_elements(b, s, result)));
    const Value ties = to_elements(b, s, sum_segments(b, s, b.cast(hit, d))), g = to_elements(b, s, grad);
    // PyTorch shares a gradient among equal elements where it is positive
    const Value share = b.bit_and(b.compare(Cmp::gt, ties, 1), b.compare(Cmp::gt, g, 0));
    out = b.select(hit, b.select(share, b.div(g, ties), g), b.like(g, 0));
  }
  const Value data = a.tensor("data");
  return b.cast(b.reshape(out, data.dims()), data.dtype());
}

// Ragged rows [total, ...] as [batch, longest, ...], filled up with a number: one level of raggedness.
OP("_jagged_to_padded_dense_forward") {
  const Value x = a.tensor("values");
  const Values offsets = a.tensors("offsets");
  const Dims longest = a.ints("max_lengths");
  a.check(offsets.size() == 1 && longest.size() == 1 && offsets[0].rank() == 1 && x.rank() >= 1, Code::op_unsupported,
          str("must get one vector of offsets and one length, got ", offsets.size(), " and ", longest.size()));
  const Dims grid{offsets[0].dim(0) - 1, longest[0]};
  const Value marks = b.cast(offsets[0], Dtype::i64);
  auto over = [&](int64_t from) { return b.broadcast_in_dim(b.slice_dim(marks, 0, from, from + grid[0]), grid, {0}); };
  const Value row = b.add(over(0), b.iota({Dtype::i64, grid}, 1)), valid = b.lt(row, over(1));
  Dims out = grid;
  out.insert(out.end(), x.dims().begin() + 1, x.dims().end());
  const Value fill = b.constant(a.f("padding_value"), x.dtype(), out);
  if (x.dim(0) == 0 || numel(out) == 0) return fill;
  const Value rows = take_rows(b, x, 0, b.min(row, static_cast<double>(x.dim(0) - 1)));
  return b.select(b.broadcast_in_dim(valid, out, {0, 1}), rows, fill);
}

}  // namespace torchport::ops
