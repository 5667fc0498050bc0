// Cholesky factors and triangular systems.
#include "ops/linalg.h"

namespace torchport::ops {

namespace {

struct Factor {
  Value l, info;  // info: 0, or the order of the first leading minor that is not positive definite
};

// The order of the first leading minor that fails, per matrix, by elimination without pivoting.
Value failing_minor(Builder& b, const Value& x) {
  const int64_t batch = x.dim(0), n = x.dim(1);
  const Type grid{Dtype::i32, x.dims()};
  const Value row = b.iota(grid, 1), column = b.iota(grid, 2);
  return b.while_loop(
      {b.constant_int(0, Dtype::i32), x, b.constant_int(0, Dtype::i32, {batch})},
      [&](const Values& v) { return Values{b.compare(Cmp::lt, v[0], static_cast<double>(n))}; },
      [&](const Values& v) {
        const Value zero = b.constant_int(0, Dtype::i32);
        const Value head = b.dynamic_slice(v[1], {zero, zero, v[0]}, {batch, n, 1}),
                    side = b.dynamic_slice(v[1], {zero, v[0], zero}, {batch, 1, n});
        const Value pivot = b.dynamic_slice(head, {zero, v[0], zero}, {batch, 1, 1});
        const Value bad = b.logical_not(b.compare(Cmp::gt, b.reshape(b.real(pivot), {batch}), 0.0));
        const Value info =
            b.select(b.bit_and(bad, b.compare(Cmp::eq, v[2], 0.0)), b.full(b.add(v[0], 1.0), {batch}), v[2]);
        const Value rest = b.bit_and(b.gt(row, b.full(v[0], x.dims())), b.gt(column, b.full(v[0], x.dims())));
        const Value next = b.sub(v[1], b.mul(b.div(head, pivot), side));
        return Values{b.add(v[0], 1.0), b.select(rest, next, v[1]), info};
      })[2];
}

Factor factor(Builder& b, const Value& self, bool up) {
  const Value x = flat(b, self);
  const Dims batch = batch_of(self);
  if (self.numel() == 0) return {self, b.zeros({Dtype::i32, batch})};
  // only one triangle is read
  const Value half = up ? adjoint(b, upper(b, x)) : lower(b, x), strict = lower(b, half, -1);
  const Value whole = b.add(half, adjoint(b, strict));
  const Value l = lower(b, b.cholesky(whole, true));
  const Value ok = b.eq(b.real(l), b.real(l));
  const Value all_ok = b.reduce(Reduce::all, ok, {0, 1, 2});
  const Value info = b.if_else(
      all_ok, [&] { return Values{b.constant_int(0, Dtype::i32, {x.dim(0)})}; },
      [&] { return Values{failing_minor(b, whole)}; })[0];
  return {unflat(b, up ? adjoint(b, l) : l, batch), b.reshape(info, batch)};
}
void require_success(Builder& b, Args& a, const Value& info) {
  a.require(b.compare(Cmp::eq, info, 0.0), Code::bad_value, "must get positive definite matrices, got one that is not");
}

// op(t) x = y or x op(t) = y, batches broadcast.
Value solve(Builder& b, const Value& t, const Value& y, bool left, bool up, bool unit, const char* op) {
  Dims batch = broadcast(batch_of(t), batch_of(y), b.where);
  auto spread = [&](const Value& v) {
    Dims d = batch;
    d.push_back(v.dim(-2)), d.push_back(v.dim(-1));
    return b.broadcast_to(v, d);
  };
  const Value tt = spread(t), yy = spread(y);
  if (yy.numel() == 0 || tt.numel() == 0) return b.like(yy, 0);
  return b.reshape(b.triangular_solve(flat(b, tt), flat(b, yy), left, !up, unit, op), yy.dims());
}
void expect_system(Args& a, const Value& t, const Value& y, bool left) {
  expect_matrix(a, t, true), expect_matrix(a, y, false);
  a.check(t.dtype() == y.dtype(), Code::dtype_mismatch,
          str("must get two tensors of one dtype, got ", text(t.type()), " and ", text(y.type())));
  a.check(t.dim(-1) == y.dim(left ? -2 : -1), Code::bad_value,
          str("must get systems that fit, got ", text(t.dims()), " and ", text(y.dims())));
}

}  // namespace

OP("linalg_cholesky_ex", .own_order = true) {
  const Value x = a.tensor("self");
  expect_matrix(a, x, true);
  const Factor f = factor(b, x, a.flag("upper"));
  if (a.flag("check_errors")) require_success(b, a, f.info);
  return {f.l, f.info};
}
OP("cholesky", .own_order = true) {
  const Value x = a.tensor("self");
  expect_matrix(a, x, true);
  const Factor f = factor(b, x, a.flag("upper"));
  require_success(b, a, f.info);
  return f.l;
}
OP("cholesky_inverse", .own_order = true) {
  const Value self = a.tensor("self");
  expect_matrix(a, self, true);
  const bool up = a.flag("upper");
  const Value l = up ? adjoint(b, upper(b, self)) : lower(b, self);
  const Value half = solve(b, l, identity(b, l, l.dim(-1), l.dim(-1)), true, false, false, "NO_TRANSPOSE");
  return product(b, adjoint(b, half), half);
}
OP("_cholesky_solve_helper", .own_order = true) {
  const Value y = a.tensor("self"), f = a.tensor("A");
  expect_system(a, f, y, true);
  const bool up = a.flag("upper");
  const Value half = solve(b, f, y, true, up, false, up ? "ADJOINT" : "NO_TRANSPOSE");
  return solve(b, f, half, true, up, false, up ? "NO_TRANSPOSE" : "ADJOINT");
}
OP("triangular_solve", .own_order = true) {
  const Value y = a.tensor("self"), t = a.tensor("A");
  expect_system(a, t, y, true);
  const Value x = solve(b, t, y, true, a.flag("upper"), a.flag("unitriangular"),
                        a.flag("transpose") ? "TRANSPOSE" : "NO_TRANSPOSE");
  Dims d = batch_of(x);
  d.push_back(t.dim(-2)), d.push_back(t.dim(-1));
  return {x, b.broadcast_to(t, d)};
}
OP("linalg_solve_triangular", .own_order = true) {
  const Value t = a.tensor("self"), y = a.tensor("B");
  const bool left = a.flag("left");
  expect_system(a, t, y, left);
  return solve(b, t, y, left, a.flag("upper"), a.flag("unitriangular"), "NO_TRANSPOSE");
}

}  // namespace torchport::ops
