// Eigenvalues of Hermitian matrices, and singular values by one-sided Jacobi rotations, which keep small singular
// values accurate to the matrix's own precision.
#include <cmath>

#include "ops/linalg.h"

namespace torchport::ops {

namespace {

double epsilon(Dtype d) { return real_of(d) == Dtype::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07; }

struct Eigh {
  Value values, vectors;
};
// x: Hermitian [B, n, n]
Eigh eigh(Builder& b, const Value& x) {
  const Dtype real = real_of(x.dtype());
  const int64_t n = x.dim(1);
  // lower triangle, sorted ascending, most sweeps, tolerance: of the off-diagonal's squared norm, so vectors get its
  // root
  const Values r = b.custom_call("Eigh", {x}, {x.type(), {real, {x.dim(0), n}}},
                                 str("1,1,30,", real == Dtype::f64 ? "1e-28" : "1e-12"));
  return {r[1], r[0]};
}

// One column pair a row of `top` and `bottom`: [B, columns / 2, rows]. Rows of a pair's matrix and of its accumulated
// V.
struct Pairs {
  Value top, bottom;
};
// The round-robin tournament: every pair of columns meets once in columns - 1 turns.
Pairs turn(Builder& b, const Pairs& p) {
  const int64_t n = p.top.dim(1);
  if (n == 1) return p;
  const Value top =
      b.concatenate({b.slice_dim(p.top, 1, 0, 1), b.slice_dim(p.bottom, 1, 0, 1), b.slice_dim(p.top, 1, 1, n - 1)}, 1);
  const Value bottom = b.concatenate({b.slice_dim(p.bottom, 1, 1, n), b.slice_dim(p.top, 1, n - 1, n)}, 1);
  return {top, bottom};
}

// x [B, m, n] -> w = x v with orthogonal columns, as rows: w^T [B, n, m], v^T [B, n, n]. n is even.
std::pair<Value, Value> orthogonalise(Builder& b, const Value& x) {
  const Dtype d = x.dtype(), real = real_of(d);
  const int64_t batch = x.dim(0), m = x.dim(1), n = x.dim(2), half = n / 2;
  const Value both = b.concatenate({transposed(b, x), identity(b, x, n, n)}, 2);  // a column of x and of v side by side
  const double tolerance = epsilon(d);
  const int64_t most = 30 * std::max<int64_t>(n - 1, 1);  // sweeps
  auto norm2 = [&](const Value& v) {
    return b.reduce(Reduce::add,
                    is_complex(d) ? b.add(b.mul(b.real(v), b.real(v)), b.mul(b.imag(v), b.imag(v))) : b.mul(v, v), {2});
  };
  auto wide = [&](const Value& v) { return b.cast(b.broadcast_in_dim(v, {batch, half, m + n}, {0, 1}), d); };
  const Values r = b.while_loop(
      {b.constant_int(0, Dtype::i32), b.slice_dim(both, 1, 0, half), b.slice_dim(both, 1, half, n), b.constant(0, real),
       b.constant(1, Dtype::b1)},
      [&](const Values& v) { return Values{b.bit_and(v[4], b.compare(Cmp::lt, v[0], static_cast<double>(most)))}; },
      [&](const Values& v) {
        const Value p = b.slice_dim(v[1], 2, 0, m), q = b.slice_dim(v[2], 2, 0, m);
        const Value pp = norm2(p), qq = norm2(q), pq = b.reduce(Reduce::add, b.mul(conj(b, p), q), {2}),
                    size = b.abs(pq);
        const Value limit = b.mul(b.sqrt(pp), b.sqrt(qq));
        const Value rotate = b.gt(size, b.mul(limit, tolerance));
        const Value safe = b.select(rotate, size, b.like(size, 1));
        const Value zeta = b.div(b.sub(qq, pp), b.mul(safe, 2.0));
        const Value t0 = b.div(b.select(b.compare(Cmp::lt, zeta, 0.0), b.like(zeta, -1), b.like(zeta, 1)),
                               b.add(b.abs(zeta), b.select(b.compare(Cmp::gt, b.abs(zeta), 1e15), b.abs(zeta),
                                                           b.sqrt(b.add(b.mul(zeta, zeta), 1.0)))));
        const Value t = b.select(rotate, t0, b.like(t0, 0));
        const Value c = b.rsqrt(b.add(b.mul(t, t), 1.0)), s = b.mul(c, t);
        // a complex pair is first turned so that its inner product is real
        Value bottom = v[2];
        if (is_complex(d)) {
          const Value phase = b.select(rotate, b.div(conj(b, pq), b.cast(safe, d)), b.like(pq, 1));
          bottom = b.mul(bottom, b.broadcast_in_dim(phase, {batch, half, m + n}, {0, 1}));
        } else {
          bottom = b.mul(bottom, wide(b.select(b.compare(Cmp::lt, pq, 0.0), b.like(pq, -1), b.like(pq, 1))));
        }
        const Pairs next = turn(b, {b.sub(b.mul(wide(c), v[1]), b.mul(wide(s), bottom)),
                                    b.add(b.mul(wide(s), v[1]), b.mul(wide(c), bottom))});
        const Value off = b.select(b.compare(Cmp::eq, limit, 0.0), b.like(limit, 0), b.div(size, limit));
        const Value worst = b.max(v[3], b.reduce(Reduce::max, off, {0, 1}));
        // a sweep ends after columns - 1 turns: go on when some pair was not orthogonal
        const Value last = b.compare(Cmp::eq, b.rem(v[0], b.constant_int(std::max<int64_t>(n - 1, 1), Dtype::i32)),
                                     static_cast<double>(std::max<int64_t>(n - 2, 0)));
        const Value go = b.bit_or(b.logical_not(last), b.compare(Cmp::gt, worst, 4 * tolerance));
        return Values{b.add(v[0], 1.0), next.top, next.bottom, b.select(last, b.like(worst, 0), worst), go};
      });
  const Value rows = b.concatenate({r[1], r[2]}, 1);
  return {b.slice_dim(rows, 2, 0, m), b.slice_dim(rows, 2, m, m + n)};
}

// Orthonormal columns (all rows of them when full) whose first ones are x's, where those are unit vectors and not zero.
Value completed(Builder& b, const Value& x, bool full) {
  const Qr f = qr(b, x, full);
  const Value d = diagonal(b, f.r), size = b.abs(d), zero = b.compare(Cmp::lt, size, 0.5);
  const Value sign = b.select(zero, b.like(d, 1), b.div(d, b.cast(b.select(zero, b.like(size, 1), size), d.dtype())));
  const int64_t extra = f.q.dim(2) - sign.dim(1);
  const Value signs = extra > 0 ? b.pad(sign, b.constant(1, sign.dtype()), {0, 0}, {0, extra}) : sign;
  return b.mul(f.q, b.unsqueeze(signs, 1));
}

Value rows_in_order(Builder& b, const Value& x, const Value& order) {
  hlo::GatherDims g;
  g.offset_dims = {2}, g.collapsed_slice_dims = {1}, g.start_index_map = {1}, g.index_vector_dim = 2;
  g.operand_batching_dims = {0}, g.start_indices_batching_dims = {0};
  return b.gather(x, order, g, {1, 1, x.dim(2)});
}

Svd tall_svd(Builder& b, const Value& x, bool full, bool vectors) {  // m >= n
  const int64_t m = x.dim(1), n = x.dim(2), even = n + n % 2;
  Value q, core = x;
  if (m > n) {  // rotate the small triangle instead of the tall matrix
    const Qr f = qr(b, x, full && vectors);
    q = f.q, core = full && vectors ? b.slice_dim(f.r, 1, 0, n) : f.r;
  }
  if (even != n) core = b.pad(core, b.constant(0, core.dtype()), {0, 0, 0}, {0, 0, even - n});
  const auto [w, v] = orthogonalise(b, core);
  const Value square =
      is_complex(x.dtype()) ? b.add(b.mul(b.real(w), b.real(w)), b.mul(b.imag(w), b.imag(w))) : b.mul(w, w);
  const Value sizes = b.sqrt(b.reduce(Reduce::add, square, {2}));
  // a padding column is zero; it sorts behind the others because its v has no part in the matrix
  const Value padding = b.compare(Cmp::gt, b.abs(b.reshape(b.slice_dim(v, 2, even - 1, even), {x.dim(0), even})), 0.5);
  const Value key = even != n ? b.select(padding, b.constant(-1, sizes.dtype(), sizes.dims()), sizes) : sizes;
  const Values sorted = b.sort({key, b.iota({Dtype::i32, key.dims()}, 1)}, 1, true,
                               [&](const Values& k) { return Values{b.gt(k[0], k[1])}; });
  const Value s = b.slice_dim(sorted[0], 1, 0, n), order = b.slice_dim(sorted[1], 1, 0, n);
  if (!vectors) return {{}, s, {}};
  const Value columns = rows_in_order(b, w, order);
  const Value top = b.reshape(b.slice_dim(s, 1, 0, 1), {x.dim(0)});
  const Value floor = b.broadcast_in_dim(b.mul(top, epsilon(x.dtype()) * static_cast<double>(n) * 0.5), s.dims(), {0});
  const Value null = b.bit_or(b.le(s, floor), b.compare(Cmp::eq, s, 0.0));
  const Value scale = b.select(null, b.like(s, 0), b.div(b.like(s, 1), b.select(null, b.like(s, 1), s)));
  const Value units =
      transposed(b, b.mul(columns, b.cast(b.broadcast_in_dim(scale, columns.dims(), {0, 1}), x.dtype())));
  Value u = completed(b, units, false);
  if (m > n) {
    if (full) {  // diag(u, 1)
      const Value grown = b.pad(u, b.constant(0, u.dtype()), {0, 0, 0}, {0, m - n, m - n});
      const Value corner = b.pad(identity(b, x, m - n, m - n), b.constant(0, u.dtype()), {0, n, n}, {0, 0, 0});
      u = b.add(grown, corner);
    }
    u = product(b, q, u);
  }
  Value rows = rows_in_order(b, v, order);
  if (even != n) rows = b.slice_dim(rows, 2, 0, n);
  return {u, s, conj(b, rows)};
}

}  // namespace

Svd svd(Builder& b, const Value& x, bool full, bool vectors) {
  if (x.dim(1) >= x.dim(2)) return tall_svd(b, x, full, vectors);
  const Svd r = tall_svd(b, adjoint(b, x), full, vectors);
  return vectors ? Svd{adjoint(b, r.vh), r.s, adjoint(b, r.u)} : r;
}

OP("_linalg_svd", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, false);
  const bool full = a.flag("full_matrices"), vectors = a.flag("compute_uv");
  const Dims batch = batch_of(x);
  const Value m = flat(b, x), none = b.zeros({x.dtype(), {0}});
  const int64_t k = std::min(m.dim(1), m.dim(2));
  if (x.numel() == 0) {
    const Value s = unflat(b, b.zeros({real_of(x.dtype()), {m.dim(0), k}}), batch);
    if (!vectors) return {none, s, none};
    return {unflat(b, identity(b, m, m.dim(1), full ? m.dim(1) : k), batch), s,
            unflat(b, identity(b, m, full ? m.dim(2) : k, m.dim(2)), batch)};
  }
  const Svd r = svd(b, m, full, vectors);
  if (!vectors) return {none, unflat(b, r.s, batch), none};
  return {unflat(b, r.u, batch), unflat(b, r.s, batch), unflat(b, r.vh, batch)};
}

OP("_linalg_eigh", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, true, Code::dtype_unsupported);
  const std::string part = a.text("UPLO");
  a.check(part == "L" || part == "U" || part == "l" || part == "u", Code::bad_value,
          str("UPLO must be 'L' or 'U', got '", part, "'"));
  const Dims batch = batch_of(x);
  const Value m = flat(b, x), none = b.zeros({x.dtype(), {0}});
  if (x.numel() == 0)
    return {unflat(b, b.zeros({real_of(x.dtype()), {m.dim(0), m.dim(1)}}), batch), a.flag("compute_v") ? x : none};
  const bool up = part == "U" || part == "u";
  const Value half = up ? adjoint(b, upper(b, m)) : lower(b, m), strict = lower(b, half, -1);
  Value whole = b.add(half, adjoint(b, strict));
  if (is_complex(x.dtype())) {  // the diagonal's imaginary part is not read
    const Value on = b.cast(identity(b, m, m.dim(1), m.dim(1)), Dtype::b1);
    whole = b.select(on, b.complex(b.real(whole), b.like(b.real(whole), 0)), whole);
  }
  const Eigh e = eigh(b, whole);
  return {unflat(b, e.values, batch), a.flag("compute_v") ? unflat(b, e.vectors, batch) : none};
}

}  // namespace torchport::ops
