// _grouped_mm: products of ragged groups (the experts of a mixture), without a host sync and without padding each group
// to the largest. Groups are cut into tiles of one size; a loop runs as many tiles as the offsets ask for, so the work
// is that of the rows, rounded up to a tile a group.
#include "ops/product.h"
#include "ops/scan.h"

namespace torchport::ops {

namespace {

struct Tiles {
  Value start, end, last;  // i32 [G]: a group's rows, and the tiles up to and with it
  Value count;             // 0-d: tiles in all
  int64_t size, groups;
};
Tiles tiles(Builder& b, Args& a, int64_t rows, int64_t groups) {
  const Value offs = a.tensor("offs");
  a.check(offs && offs.rank() == 1 && offs.dtype() == Dtype::i32, Code::bad_value,
          "offs must be given for two-dimensional operands, a vector of int32");
  a.check(groups < 0 || offs.dim(0) == groups, Code::bad_value,
          str("offs must have one entry a group, ", groups, ", got ", offs.dim(0)));
  Tiles t;
  t.groups = offs.dim(0);
  t.size = 8;
  while (t.size < 128 && t.size * t.groups < rows) t.size *= 2;
  t.end = b.clamp(b.constant(0, Dtype::i32), offs, b.constant(static_cast<double>(rows), Dtype::i32));
  t.start = b.pad(t.end, b.constant(0, Dtype::i32), {1}, {-1});
  const Value length = b.max(b.sub(t.end, t.start), 0.0);
  t.last = running_sum(b, b.div(b.add(length, static_cast<double>(t.size - 1)), static_cast<double>(t.size)), 0);
  t.count = b.reshape(b.slice_dim(t.last, 0, t.groups - 1, t.groups), {});
  return t;
}
// Of one tile: its group, its first row and the end of the group's rows.
struct Tile {
  Value group, row, end;
};
Tile tile(Builder& b, const Tiles& t, const Value& i) {
  const Value passed = b.cast(b.le(t.last, b.full(i, {t.groups})), Dtype::i32);
  Tile r;
  r.group = b.min(b.reduce(Reduce::add, passed, {0}), static_cast<double>(t.groups - 1));
  auto at = [&](const Value& v) { return b.reshape(b.dynamic_slice(v, {r.group}, {1}), {}); };
  r.end = at(t.end);
  // tiles of this group still to come, this one included, counted from its end
  const Value first = b.sub(at(t.last), b.div(b.add(b.sub(r.end, at(t.start)), static_cast<double>(t.size - 1)),
                                              static_cast<double>(t.size)));
  r.row = b.add(at(t.start), b.mul(b.sub(i, first), static_cast<double>(t.size)));
  return r;
}
Value padded_rows(Builder& b, const Value& x, int64_t more) {
  Dims high(x.rank(), 0);
  high[0] = more;
  return b.pad(x, b.constant(0, x.dtype()), Dims(x.rank(), 0), high);
}
Value valid_rows(Builder& b, const Tiles& t, const Tile& now, int64_t columns) {
  const Dims grid{t.size, columns};
  return b.lt(b.add(b.iota({Dtype::i32, grid}, 0), b.full(now.row, grid)), b.full(now.end, grid));
}

// Rows x [M, K] of group g times w[g] of [G, K, N].
Value rows_by_group(Builder& b, Args& a, const Value& x, const Value& w) {
  a.check(x.dim(1) == w.dim(1), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(w.dims())));
  const int64_t m = x.dim(0), k = x.dim(1), n = w.dim(2);
  const Dtype d = opmath(x.dtype());
  if (m * k * n == 0 || w.dim(0) == 0) return b.constant(0, d, {m, n});
  const Tiles t = tiles(b, a, m, w.dim(0));
  const Value source = padded_rows(b, x, t.size), zero = b.constant(0, Dtype::i32);
  const Value out = b.while_loop(
      {zero, b.constant(0, d, {m + t.size, n})}, [&](const Values& v) { return Values{b.lt(v[0], t.count)}; },
      [&](const Values& v) {
        const Tile now = tile(b, t, v[0]);
        const Value part = b.dynamic_slice(source, {now.row, zero}, {t.size, k});
        const Value factor = b.reshape(b.dynamic_slice(w, {now.group, zero, zero}, {1, k, n}), {k, n});
        const Value old = b.dynamic_slice(v[1], {now.row, zero}, {t.size, n});
        const Value fresh = b.select(valid_rows(b, t, now, n), product(b, part, factor), old);
        return Values{b.add(v[0], 1.0), b.dynamic_update_slice(v[1], fresh, {now.row, zero})};
      })[1];
  return b.slice_dim(out, 0, 0, m);
}

// out[g] = x[:, rows of g] times y[rows of g, :].
Value groups_of_the_sum(Builder& b, Args& a, const Value& x, const Value& y) {
  a.check(x.dim(1) == y.dim(0), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(y.dims())));
  const int64_t m = x.dim(0), k = x.dim(1), n = y.dim(1);
  const Dtype d = opmath(x.dtype());
  const Value offs = a.tensor("offs");
  if (m * k * n == 0 || !offs || offs.numel() == 0) return b.constant(0, d, {offs ? offs.numel() : 0, m, n});
  const Tiles t = tiles(b, a, k, -1);
  const Value left = padded_rows(b, b.transpose(x, {1, 0}), t.size), right = padded_rows(b, y, t.size);
  const Value zero = b.constant(0, Dtype::i32);
  return b.while_loop(
      {zero, b.constant(0, d, {t.groups, m, n})}, [&](const Values& v) { return Values{b.lt(v[0], t.count)}; },
      [&](const Values& v) {
        const Tile now = tile(b, t, v[0]);
        auto part = [&](const Value& from, int64_t columns) {
          const Value rows = b.dynamic_slice(from, {now.row, zero}, {t.size, columns});
          return b.select(valid_rows(b, t, now, columns), rows, b.like(rows, 0));
        };
        const Value sum = b.dot_general(part(left, m), part(right, n), {}, {}, {0}, {0}, d);
        const Value old = b.dynamic_slice(v[1], {now.group, zero, zero}, {1, m, n});
        const Value fresh = b.add(old, b.reshape(sum, {1, m, n}));
        return Values{b.add(v[0], 1.0), b.dynamic_update_slice(v[1], fresh, {now.group, zero, zero})};
      })[1];
}

}  // namespace

OP("_grouped_mm") {
  const Value x = a.tensor("self"), y = a.tensor("mat2");
  a.check(x.dtype() == y.dtype() && is_float(x.dtype()), Code::dtype_mismatch,
          str("must get two floating point operands of one dtype, got ", text(x.type()), " and ", text(y.type())));
  a.check((x.rank() == 2 || x.rank() == 3) && (y.rank() == 2 || y.rank() == 3), Code::bad_value,
          str("must get operands of 2 or 3 dimensions, got ", text(x.type()), " and ", text(y.type())));
  a.check(!a.has("bias"), Code::bad_value, "bias must be None: PyTorch does not support one yet");
  const Dtype out = a.dtype("out_dtype", x.dtype());
  a.check(out == x.dtype(), Code::bad_value,
          str("out_dtype must be the operands', ", name(x.dtype()), ", got ", name(out)));
  if (x.rank() == 2 && y.rank() == 3) return b.cast(rows_by_group(b, a, x, y), out);
  if (x.rank() == 2) return b.cast(groups_of_the_sum(b, a, x, y), out);
  if (y.rank() == 2)  // the columns of y are in groups: the transposes, by rows
    return b.transpose(b.cast(rows_by_group(b, a, b.transpose(y, {1, 0}), b.transpose(x, {0, 2, 1})), out), {1, 0});
  a.check(!a.has("offs"), Code::bad_value, "offs must be None for two operands of 3 dimensions");
  a.check(x.dim(0) == y.dim(0) && x.dim(2) == y.dim(1), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(y.dims())));
  return b.cast(product(b, x, y), out);
}

}  // namespace torchport::ops
