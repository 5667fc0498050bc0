// Ordering along a dimension: sort, topk, order statistics, mode. NaN counts as the largest number.
#include <cmath>

#include "ops/math.h"
#include "ops/reduce.h"
#include "ops/scan.h"

namespace torchport::ops {

namespace {

struct Sorted {
  Value values, indices;
};
Sorted sorted(Builder& b, const Value& x, int64_t dim, bool descending) {
  if (x.rank() == 0) return {x, b.constant(0, Dtype::i64)};
  auto before = [&](const Values& v) {
    const Value &l = descending ? v[1] : v[0], &r = descending ? v[0] : v[1];
    if (!is_float(x.dtype())) return Values{b.lt(l, r)};
    return Values{b.bit_or(b.lt(l, r), b.bit_and(b.is_nan(r), b.logical_not(b.is_nan(l))))};
  };
  const Values s = b.sort({x, b.iota({Dtype::i64, x.dims()}, dim)}, dim, true, before);
  return {s[0], s[1]};
}
void expect_real(Args& a, const Value& x) {
  a.check(!is_complex(x.dtype()), Code::dtype_unsupported, "must get a real tensor, got complex");
}
// One place along dim, dropped or kept as 1.
Value at(Builder& b, const Value& x, int64_t dim, int64_t k, bool keep) {
  if (x.rank() == 0) return x;
  const Value one = b.slice_dim(x, dim, k, k + 1);
  return keep ? one : b.squeeze(one, dim);
}

}  // namespace

OP("sort sort.stable") {
  const Value x = a.tensor("self");
  a.check(!is_complex(x.dtype()), Code::dtype_mismatch, "must get a real tensor, got complex");
  const Sorted s = sorted(b, x, a.dim("dim", x), a.flag("descending"));
  return {s.values, s.indices};
}
OP("topk") {
  const Value x = a.tensor("self");
  expect_real(a, x);
  a.check(!is_bool(x.dtype()), Code::bad_value, "must get numbers, got bool");
  const int64_t dim = a.dim("dim", x), k = a.i("k"), n = x.rank() == 0 ? 1 : x.dim(dim);
  a.check(k >= 0 && k <= n, Code::bad_value, str("k must be in [0, ", n, "] (selected index k out of range), got ", k));
  const Sorted s = sorted(b, x, dim, a.flag("largest"));
  if (x.rank() == 0) return {s.values, s.indices};
  return {b.slice_dim(s.values, dim, 0, k), b.slice_dim(s.indices, dim, 0, k)};
}
OP("kthvalue", .out = kOwnMemory) {
  const Value x = a.tensor("self");
  expect_real(a, x);
  const int64_t dim = a.dim("dim", x), k = a.i("k"), n = x.rank() == 0 ? 1 : x.dim(dim);
  a.check(k >= 1 && k <= n, Code::bad_value,
          str("k must be in [1, ", n, "] (selected number k out of range), got ", k));
  const Sorted s = sorted(b, x, dim, false);
  return {at(b, s.values, dim, k - 1, keepdim(a)), at(b, s.indices, dim, k - 1, keepdim(a))};
}

namespace {

// The lower median. Without ignore_nan a NaN is the answer where there is one; with it, NaNs are left out.
Sorted median(Builder& b, const Value& x, int64_t dim, bool ignore_nan) {
  const Sorted s = sorted(b, x, dim, false);
  const int64_t n = x.dim(dim);
  if (!is_float(x.dtype())) return {at(b, s.values, dim, (n - 1) / 2, true), at(b, s.indices, dim, (n - 1) / 2, true)};
  const Value place = b.iota({Dtype::i64, x.dims()}, dim);
  const Value numbers = b.reduce_keep(Reduce::add, b.cast(b.logical_not(b.is_nan(x)), Dtype::i64), {dim}, true);
  Value k = b.div(b.max(b.sub(numbers, 1), 0), b.constant(2, Dtype::i64));
  // The first NaN stands right after the numbers: the sort is stable.
  if (!ignore_nan) k = b.select(b.compare(Cmp::lt, numbers, static_cast<double>(n)), numbers, k);
  const Value hit = b.eq(place, k);
  auto take = [&](const Value& v) { return b.reduce_keep(Reduce::add, b.select(hit, v, b.like(v, 0)), {dim}, true); };
  return {take(s.values), take(s.indices)};
}
Result median_dim(Builder& b, Args& a, bool ignore_nan) {
  const Value x = a.tensor("self");
  expect_real(a, x);
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return {x, b.constant(0, Dtype::i64)};
  a.check(x.dim(dim) > 0, Code::dim_out_of_range,
          str("must reduce over at least one element, got size 0 at dimension ", dim));
  const Sorted m = median(b, x, dim, ignore_nan);
  if (keepdim(a)) return {m.values, m.indices};
  return {b.squeeze(m.values, dim), b.squeeze(m.indices, dim)};
}
Value median_all(Builder& b, Args& a, bool ignore_nan) {
  const Value x = b.flatten(a.tensor("self"));
  expect_real(a, x);
  if (x.numel() == 0) return is_float(x.dtype()) ? b.nan(x.dtype()) : b.lowest(x.dtype());
  return b.reshape(median(b, x, 0, ignore_nan).values, {});
}

}  // namespace

OP("median") { return median_all(b, a, false); }
OP("nanmedian") { return median_all(b, a, true); }
OP("median.dim") { return median_dim(b, a, false); }
OP("nanmedian.dim") { return median_dim(b, a, true); }

// The most frequent value, the smallest of several, and the last place it has in a stable sort.
OP("mode") {
  const Value x = a.tensor("self");
  expect_real(a, x);
  const int64_t dim = a.dim("dim", x);
  if (x.rank() == 0) return {x, b.constant(0, Dtype::i64)};
  const int64_t n = x.dim(dim);
  a.check(n > 0, Code::dim_out_of_range, str("must reduce over at least one element, got size 0 at dimension ", dim));
  const Sorted s = sorted(b, x, dim, false);
  const Value place = b.iota({Dtype::i64, x.dims()}, dim);
  Value fresh = b.compare(Cmp::eq, place, 0);
  if (n > 1) {
    const Value changes = b.ne(b.slice_dim(s.values, dim, 1, n), b.slice_dim(s.values, dim, 0, n - 1));
    fresh = b.concatenate({b.slice_dim(fresh, dim, 0, 1), changes}, dim);
  }
  auto latest = [&](const Values& v) { return Values{b.max(v[0], v[1])}; };
  const Value start = scan(b, {b.select(fresh, place, b.like(place, 0))}, dim, latest, {b.constant(0, Dtype::i64)})[0];
  const Value run = b.sub(place, start);
  const Value longest = b.reduce_keep(Reduce::max, run, {dim}, true);
  const Value first = b.reduce_keep(
      Reduce::min, b.select(b.eq(run, longest), place, b.like(place, static_cast<double>(n))), {dim}, true);
  const Value hit = b.eq(place, first);
  auto take = [&](const Value& v) { return b.reduce(Reduce::add, b.select(hit, v, b.like(v, 0)), {dim}); };
  const Value value = take(s.values), index = take(s.indices);
  if (!keepdim(a)) return {value, index};
  return {b.unsqueeze(value, dim), b.unsqueeze(index, dim)};
}

}  // namespace torchport::ops
