// LU factors with partial pivoting and what follows from them: systems, inverses, determinants. StableHLO has no LU
// that every platform compiles, so the elimination is written here, one column a step.
#include "ops/linalg.h"

namespace torchport::ops {

namespace {

// |re| + |im| for complex numbers: what LAPACK compares when it looks for a pivot.
Value magnitude(Builder& b, const Value& x) {
  return is_complex(x.dtype()) ? b.add(b.abs(b.real(x)), b.abs(b.imag(x))) : b.abs(x);
}

// Position of the largest element of [B, m] along 1, the first one among equals: i32 [B].
Value arg_largest(Builder& b, const Value& x) {
  const Value position = b.iota({Dtype::i32, x.dims()}, 1);
  return b.reduce({x, position}, {b.constant(-1, x.dtype()), b.constant_int(0, Dtype::i32)}, {1}, [&](const Values& v) {
    const Value better = b.bit_or(b.gt(v[2], v[0]), b.bit_and(b.eq(v[2], v[0]), b.lt(v[3], v[1])));
    return Values{b.select(better, v[2], v[0]), b.select(better, v[3], v[1])};
  })[1];
}

void require_regular(Builder& b, Args& a, const Value& info) {
  a.require(b.compare(Cmp::eq, info, 0.0), Code::bad_value, "must get invertible matrices, got a singular one");
}
// PyTorch factors the transpose of a contiguous real matrix (its rows are LAPACK's columns), and the backward ops know
// it.
bool factors_transpose(Args& a, const Value& x) { return !is_complex(x.dtype()) && a.is_contiguous("A"); }

Value permutation_matrix(Builder& b, const Value& perm, Dtype d) {  // P of A = P L U
  const Dims grid{perm.dim(0), perm.dim(1), perm.dim(1)};
  return b.cast(b.eq(b.broadcast_in_dim(perm, grid, {0, 2}), b.iota({Dtype::i32, grid}, 1)), d);
}
// Rows of y put in the order perm, or back from it: exact also where y holds infinities.
Value permuted(Builder& b, const Value& y, const Value& perm, bool back) {
  Value index = perm;
  if (back) {  // the inverse permutation, by sorting
    index =
        b.sort({perm, b.iota(perm.type(), 1)}, 1, true, [&](const Values& v) { return Values{b.lt(v[0], v[1])}; })[1];
  }
  hlo::GatherDims g;
  g.offset_dims = {2}, g.collapsed_slice_dims = {1}, g.start_index_map = {1}, g.index_vector_dim = 2;
  g.operand_batching_dims = {0}, g.start_indices_batching_dims = {0};
  return b.gather(y, index, g, {1, 1, y.dim(2)});
}

// v broadcast to a batch in front of its last `kept` dimensions, the batch folded.
Value spread_batch(Builder& b, const Value& v, const Dims& batch, int64_t kept) {
  Dims wide = batch, folded{numel(batch)};
  for (Dims* d : {&wide, &folded}) d->insert(d->end(), v.dims().end() - kept, v.dims().end());
  return b.reshape(b.broadcast_to(v, wide), folded);
}

// The sign of the row exchanges as +1 or -1, [B].
Value parity(Builder& b, const Value& pivots, Dtype d) {
  const Value moved = b.ne(pivots, b.add(b.iota(pivots.type(), 1), 1.0));
  const Value odd = b.reduce(Reduce::add, b.cast(moved, Dtype::i32), {1});
  return b.select(b.compare(Cmp::eq, b.bit_and(odd, b.like(odd, 1)), 0.0), b.constant(1, d, odd.dims()),
                  b.constant(-1, d, odd.dims()));
}

}  // namespace

Lu lu_factor(Builder& b, const Value& x, bool pivot) {
  const int64_t batch = x.dim(0), m = x.dim(1), n = x.dim(2), k = std::min(m, n);
  const Value pivots0 = b.add(b.iota({Dtype::i32, {batch, k}}, 1), 1.0), info0 = b.constant_int(0, Dtype::i32, {batch});
  if (x.numel() == 0) return {x, pivots0, info0};
  const Type grid{Dtype::i32, x.dims()};
  const Values r = b.while_loop(
      {b.constant_int(0, Dtype::i32), x, pivots0, info0},
      [&](const Values& v) { return Values{b.compare(Cmp::lt, v[0], static_cast<double>(k))}; },
      [&](const Values& v) {
        const Value &step = v[0], &a = v[1], zero = b.constant_int(0, Dtype::i32);
        const Value row = b.iota(grid, 1), column = b.iota(grid, 2), at = b.full(step, x.dims());
        Value lu = a, pivots = v[2];
        const Value old_row = b.dynamic_slice(a, {zero, step, zero}, {batch, 1, n});
        Value top = old_row;
        if (pivot) {
          const Value head = b.reshape(b.dynamic_slice(a, {zero, zero, step}, {batch, m, 1}), {batch, m});
          const Value open = b.ge(b.iota({Dtype::i32, {batch, m}}, 1), b.full(step, {batch, m}));
          const Value best =
              arg_largest(b, b.select(open, magnitude(b, head), b.constant(-1, real_of(x.dtype()), {batch, m})));
          const Value chosen = b.max(best, b.full(step, {batch}));  // a column of NaN keeps its row
          const Value is_chosen = b.eq(row, b.broadcast_in_dim(chosen, x.dims(), {0}));
          top = b.reshape(b.reduce(Reduce::add, b.select(is_chosen, a, b.like(a, 0)), {1}), {batch, 1, n});
          lu = b.select(b.eq(row, at), b.broadcast_to(top, x.dims()),
                        b.select(is_chosen, b.broadcast_to(old_row, x.dims()), a));
          pivots = b.dynamic_update_slice(pivots, b.reshape(b.add(chosen, 1.0), {batch, 1}), {zero, step});
        }
        const Value value = b.dynamic_slice(top, {zero, zero, step}, {batch, 1, 1});
        const Value singular = b.compare(Cmp::eq, value, 0.0);
        const Value info = b.select(b.bit_and(b.reshape(singular, {batch}), b.compare(Cmp::eq, v[3], 0.0)),
                                    b.full(b.add(step, 1.0), {batch}), v[3]);
        const Value head = b.dynamic_slice(lu, {zero, zero, step}, {batch, m, 1});
        const Value factors = b.div(head, b.select(singular, b.like(value, 1), value));
        const Value below = b.gt(row, at);
        const Value next = b.sub(lu, b.mul(factors, top));
        lu = b.select(b.bit_and(below, b.gt(column, at)), next,
                      b.select(b.bit_and(below, b.eq(column, at)), b.broadcast_to(factors, x.dims()), lu));
        return Values{b.add(step, 1.0), lu, pivots, info};
      });
  return {r[1], r[2], r[3]};
}

Value permutation(Builder& b, const Value& pivots, int64_t rows) {
  const int64_t batch = pivots.dim(0), k = pivots.dim(1);
  const Value start = b.iota({Dtype::i32, {batch, rows}}, 1);
  if (batch * k == 0) return start;
  return b.while_loop(
      {b.constant_int(0, Dtype::i32), start, pivots},
      [&](const Values& v) { return Values{b.compare(Cmp::lt, v[0], static_cast<double>(k))}; },
      [&](const Values& v) {
        const Value zero = b.constant_int(0, Dtype::i32), place = b.iota({Dtype::i32, {batch, rows}}, 1);
        const Value other = b.sub(b.dynamic_slice(v[2], {zero, v[0]}, {batch, 1}), 1.0);
        const Value mine = b.dynamic_slice(v[1], {zero, v[0]}, {batch, 1}), is_other = b.eq(place, other);
        const Value theirs =
            b.reshape(b.reduce(Reduce::add, b.select(is_other, v[1], b.like(v[1], 0)), {1}), {batch, 1});
        const Value swapped = b.select(b.eq(place, b.full(v[0], place.dims())), theirs, b.select(is_other, mine, v[1]));
        return Values{b.add(v[0], 1.0), swapped, v[2]};
      })[1];
}

Value lu_solve(Builder& b, const Value& lu, const Value& pivots, const Value& y, bool adjoint_a) {
  if (y.numel() == 0 || lu.numel() == 0) return b.like(y, 0);
  const Value perm = permutation(b, pivots, lu.dim(1));
  if (!adjoint_a)
    return b.triangular_solve(lu, b.triangular_solve(lu, permuted(b, y, perm, false), true, true, true), true, false,
                              false);
  const Value half = b.triangular_solve(lu, y, true, false, false, "ADJOINT");
  return permuted(b, b.triangular_solve(lu, half, true, true, true, "ADJOINT"), perm, true);
}

OP("linalg_lu_factor_ex", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, false);
  const Lu f = lu_factor(b, flat(b, x), a.flag("pivot"));
  if (a.flag("check_errors")) require_regular(b, a, f.info);
  const Dims batch = batch_of(x);
  return {b.reshape(f.lu, x.dims()), unflat(b, f.pivots, batch), b.reshape(f.info, batch)};
}

static Values unpacked(Builder& b, const Value& lu, const Value& perm, const Dims& batch) {  // P, L, U
  const int64_t m = lu.dim(1), n = lu.dim(2), k = std::min(m, n);
  const Value l = b.add(lower(b, b.slice_dim(lu, 2, 0, k), -1), identity(b, lu, m, k)),
              u = upper(b, b.slice_dim(lu, 1, 0, k));
  return {perm ? unflat(b, permutation_matrix(b, perm, lu.dtype()), batch) : b.zeros({lu.dtype(), {0}}),
          unflat(b, l, batch), unflat(b, u, batch)};
}
OP("linalg_lu", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, false);
  const bool pivot = a.flag("pivot");
  const Lu f = lu_factor(b, flat(b, x), pivot);
  return unpacked(b, f.lu, pivot ? permutation(b, f.pivots, x.dim(-2)) : Value{}, batch_of(x));
}
OP("lu_unpack", .own_order = true) {
  const Value lu = a.tensor("LU_data"), pivots = a.tensor("LU_pivots");
  expect_matrix(a, lu, false);
  const Dims batch = batch_of(lu);
  const Value flat_lu = flat(b, lu), none = b.zeros({lu.dtype(), {0}});
  Value perm;
  if (a.flag("unpack_pivots")) {
    a.check(pivots.dtype() == Dtype::i32, Code::bad_value, str("LU_pivots must be i32, got ", text(pivots.type())));
    perm = permutation(b, b.reshape(pivots, {flat_lu.dim(0), pivots.dim(-1)}), lu.dim(-2));
  }
  const Values r = unpacked(b, flat_lu, perm, batch);
  return a.flag("unpack_data") ? r : Values{r[0], none, none};
}

OP("linalg_lu_solve", .own_order = true) {
  const Value lu = a.tensor("LU"), pivots = a.tensor("pivots"), y = a.tensor("B");
  expect_matrix(a, lu, true), expect_matrix(a, y, false);
  const bool left = a.flag("left"), adjoint_a = a.flag("adjoint");
  a.check(lu.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", text(lu.type()), " and ", text(y.type())));
  a.check(lu.dim(-1) == y.dim(left ? -2 : -1), Code::bad_value,
          str("must get systems that fit, got ", text(lu.dims()), " and ", text(y.dims())));
  const Dims batch = broadcast(batch_of(lu), batch_of(y), a.where());
  const Value f = spread_batch(b, lu, batch, 2), p = spread_batch(b, pivots, batch, 1),
              r = spread_batch(b, y, batch, 2);
  // x A = y is A^H x^H = y^H
  return unflat(b, left ? lu_solve(b, f, p, r, adjoint_a) : adjoint(b, lu_solve(b, f, p, adjoint(b, r), !adjoint_a)),
                batch);
}

OP("linalg_inv_ex", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, true);
  const Value m = flat(b, x);
  const Lu f = lu_factor(b, m);
  if (a.flag("check_errors")) require_regular(b, a, f.info);
  return {b.reshape(lu_solve(b, f.lu, f.pivots, identity(b, m, x.dim(-1), x.dim(-1)), false), x.dims()),
          b.reshape(f.info, batch_of(x))};
}

OP("_linalg_solve_ex", .own_order = true) {
  const Value x = a.tensor("A"), y = a.tensor("B");
  expect_matrix(a, x, true);
  a.check(x.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", text(x.type()), " and ", text(y.type())));
  const bool left = a.flag("left");
  Dims without_last(x.dims().begin(), x.dims().end() - 1);
  const bool vector = y.rank() == 1 || (x.rank() - 1 == y.rank() && y.dims() == without_last);
  a.check(!vector || left, Code::bad_value, "left=False must get a matrix, not a vector, for B");
  const Value rhs = vector ? b.unsqueeze(y, -1) : y;
  a.check(rhs.rank() >= 2 && x.dim(-1) == rhs.dim(left ? -2 : -1), Code::bad_value,
          str("must get systems that fit, got ", text(x.dims()), " and ", text(y.dims())));
  const Lu f = lu_factor(b, flat(b, x));  // of A itself, not of its broadcast
  const Dims batch = broadcast(batch_of(x), batch_of(rhs), a.where()), own = batch_of(x);
  const Value lu = spread_batch(b, unflat(b, f.lu, own), batch, 2),
              pivots = spread_batch(b, unflat(b, f.pivots, own), batch, 1), r = spread_batch(b, rhs, batch, 2);
  Value result = left ? lu_solve(b, lu, pivots, r, false) : adjoint(b, lu_solve(b, lu, pivots, adjoint(b, r), true));
  if (a.flag("check_errors")) require_regular(b, a, f.info);
  result = unflat(b, result, batch);
  return {vector ? b.squeeze(result, -1) : result, unflat(b, f.lu, own), unflat(b, f.pivots, own),
          b.reshape(f.info, own)};
}

OP("_linalg_det", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, true);
  const Value m = flat(b, x);
  const Lu f = lu_factor(b, factors_transpose(a, x) ? transposed(b, m) : m);
  const Value det = b.mul(b.reduce(Reduce::mul, diagonal(b, f.lu), {1}), parity(b, f.pivots, x.dtype()));
  return {b.reshape(det, batch_of(x)), b.reshape(f.lu, x.dims()), unflat(b, f.pivots, batch_of(x))};
}
OP("_linalg_slogdet", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, true);
  const Value m = flat(b, x);
  const Lu f = lu_factor(b, factors_transpose(a, x) ? transposed(b, m) : m);
  const Value d = diagonal(b, f.lu), size = b.abs(d);
  const Value unit = is_complex(x.dtype())
                         ? b.div(d, b.cast(b.select(b.compare(Cmp::eq, size, 0.0), b.like(size, 1), size), x.dtype()))
                         : b.sign(d);
  const Value sign = b.mul(b.reduce(Reduce::mul, unit, {1}), parity(b, f.pivots, x.dtype()));
  return {b.reshape(sign, batch_of(x)), b.reshape(b.reduce(Reduce::add, b.log(size), {1}), batch_of(x)),
          b.reshape(f.lu, x.dims()), unflat(b, f.pivots, batch_of(x))};
}

}  // namespace torchport::ops
