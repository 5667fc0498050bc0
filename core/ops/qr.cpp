// QR factors by Householder reflections: two custom calls that XLA expands on every platform.
#include "ops/linalg.h"

namespace torchport::ops {

namespace {

struct Packed {
  Value a, tau;  // [B, m, n] with R above and the reflectors below the diagonal; [B, min(m, n)]
};
Packed factor(Builder& b, const Value& x) {
  const Values r = b.custom_call("Qr", {x}, {x.type(), {x.dtype(), {x.dim(0), std::min(x.dim(1), x.dim(2))}}});
  return {r[0], r[1]};
}
// The first `columns` columns of the product of the reflectors.
Value reflectors(Builder& b, const Value& packed, const Value& tau, int64_t columns) {
  Value a = packed;
  if (a.dim(2) > columns) a = b.slice_dim(a, 2, 0, columns);
  if (a.dim(2) < columns) a = b.pad(a, b.constant(0, a.dtype()), {0, 0, 0}, {0, 0, columns - a.dim(2)});
  return b.custom_call("ProductOfElementaryHouseholderReflectors", {a, tau}, {a.type()})[0];
}
void expect_reflectors(Args& a, const Value& x, const Value& tau) {
  expect_matrix(a, x, false);
  a.check(tau.dtype() == x.dtype(), Code::dtype_mismatch,
          str("tau must have the input's dtype, got ", text(tau.type()), " for ", text(x.type())));
  a.check(x.dim(-2) >= x.dim(-1) && tau.rank() == x.rank() - 1 && tau.dim(-1) <= x.dim(-1), Code::bad_value,
          str("must get a tall matrix and at most one tau a column, got ", text(x.dims()), " and ", text(tau.dims())));
}
Value flat_tau(Builder& b, const Value& x, const Value& tau) {
  return b.reshape(tau, {numel(batch_of(x)), tau.dim(-1)});
}

}  // namespace

Qr qr(Builder& b, const Value& x, bool complete) {
  const int64_t m = x.dim(1), n = x.dim(2), k = complete ? m : std::min(m, n);
  if (x.numel() == 0) return {identity(b, x, m, k), b.zeros({x.dtype(), {x.dim(0), k, n}})};
  const Packed f = factor(b, x);
  return {reflectors(b, f.a, f.tau, k), upper(b, b.slice_dim(f.a, 1, 0, k))};
}

OP("linalg_qr", .own_order = true) {
  const Value x = a.tensor("A");
  expect_matrix(a, x, false);
  const std::string mode = a.text("mode");
  a.check(mode == "reduced" || mode == "complete" || mode == "r", Code::bad_value,
          str("mode must be 'reduced', 'complete' or 'r', got '", mode, "'"));
  const Dims batch = batch_of(x);
  if (mode == "r") {
    const int64_t k = std::min(x.dim(-1), x.dim(-2));
    const Value m = flat(b, x), none = b.zeros({x.dtype(), {0}});
    return {none, unflat(b,
                         x.numel() == 0 ? b.zeros({x.dtype(), {m.dim(0), k, m.dim(2)}})
                                        : upper(b, b.slice_dim(factor(b, m).a, 1, 0, k)),
                         batch)};
  }
  const Qr f = qr(b, flat(b, x), mode == "complete");
  return {unflat(b, f.q, batch), unflat(b, f.r, batch)};
}
OP("geqrf", .own_order = true) {
  const Value x = a.tensor("self");
  expect_matrix(a, x, false);
  const Dims batch = batch_of(x);
  const Value m = flat(b, x);
  if (x.numel() == 0) return {x, unflat(b, b.zeros({x.dtype(), {m.dim(0), std::min(m.dim(1), m.dim(2))}}), batch)};
  const Packed f = factor(b, m);
  return {unflat(b, f.a, batch), unflat(b, f.tau, batch)};
}
OP("linalg_householder_product", .own_order = true) {
  const Value x = a.tensor("input"), tau = a.tensor("tau");
  expect_reflectors(a, x, tau);
  if (x.numel() == 0) return x;
  return b.reshape(reflectors(b, flat(b, x), flat_tau(b, x, tau), x.dim(-1)), x.dims());
}
OP("ormqr", .own_order = true) {
  const Value x = a.tensor("self"), tau = a.tensor("input2"), y = a.tensor("input3");
  const bool left = a.flag("left");
  expect_matrix(a, x, false), expect_matrix(a, y, false);
  a.check(x.dtype() == tau.dtype() && x.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get three tensors of one dtype, got ", text(x.type()), ", ", text(tau.type()), " and ",
              text(y.type())));
  a.check(batch_of(x) == batch_of(y) && x.dim(-2) == y.dim(left ? -2 : -1) && tau.dim(-1) <= x.dim(-1), Code::bad_value,
          str("must get matrices that fit, got ", text(x.dims()), ", ", text(tau.dims()), " and ", text(y.dims())));
  if (y.numel() == 0 || x.numel() == 0) return y;
  const Value full = reflectors(b, flat(b, x), flat_tau(b, x, tau), x.dim(-2));
  const Value q = a.flag("transpose") ? adjoint(b, full) : full, m = flat(b, y);
  return b.reshape(left ? product(b, q, m) : product(b, m, q), y.dims());
}

}  // namespace torchport::ops
