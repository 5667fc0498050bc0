// What the linear algebra files share. Matrices are the last two dimensions; `flat` folds the others into one.
#pragma once
#include "ops/product.h"

namespace torchport::ops {

// Checks for a floating or complex matrix (a square one when `square`) and folds its batch: [B, m, n].
void expect_matrix(Args&, const Value& x, bool square, Code wrong_dtype = Code::bad_value);
Dims batch_of(const Value& x);
Value flat(Builder&, const Value& x);
Value unflat(Builder&, const Value& x, const Dims& batch);                   // [B, ...] -> batch + [...]
Value transposed(Builder&, const Value& x);                                  // the last two dimensions swapped
Value adjoint(Builder&, const Value& x);                                     // and conjugated
Value identity(Builder&, const Value& like, int64_t rows, int64_t columns);  // for like's batch and dtype
// Elements with column - row >= k (upper) or <= k (lower); the rest become zero.
Value upper(Builder&, const Value& x, int64_t k = 0);
Value lower(Builder&, const Value& x, int64_t k = 0);
Value diagonal(Builder&, const Value& x);  // [..., min(m, n)]

struct Lu {
  Value lu, pivots, info;  // [B, m, n], i32 [B, k] counted from 1, i32 [B]
};
Lu lu_factor(Builder&, const Value& flat_matrix, bool pivot = true);
Value permutation(Builder&, const Value& pivots, int64_t rows);  // i32 [B, rows]: row i of P^T A is row perm[i] of A
// Solves A x = y (adjoint: A^H x = y) from A's factors; all [B, n, *].
Value lu_solve(Builder&, const Value& lu, const Value& pivots, const Value& y, bool adjoint_a);

struct Qr {
  Value q, r;
};
Qr qr(Builder&, const Value& flat_matrix, bool complete);
struct Svd {
  Value u, s, vh;
};
Svd svd(Builder&, const Value& flat_matrix, bool full, bool vectors);

}  // namespace torchport::ops
