// Elementwise operations and the shapes of things.
#include "hlo/program.h"

namespace torchport::hlo {
namespace {

TEST(Elementwise, BroadcastsAsTorch) {
  Program p;
  const Value x = p.in(counting(Dtype::f32, {2, 1, 3})), y = p.in(counting(Dtype::f32, {2, 1}, 10)),
              s = p.in(array(Dtype::f32, {}, {100}));
  const Value sum = p.b.add(x, y), all = p.b.add(s, sum);
  EXPECT_EQ(sum.type(), (Type{Dtype::f32, {2, 2, 3}}));
  const std::vector<Array> got = p.run({sum, all});
  EXPECT_VALUES(got[0], {10, 11, 12, 11, 12, 13, 13, 14, 15, 14, 15, 16});
  EXPECT_EQ(values(got[1])[0], 110);
  EXPECT_EQ(error_of([&] { p.b.add(x, p.b.constant(0, Dtype::f32, {4})); }).code, Code::shape_mismatch);
  EXPECT_EQ(error_of([&] { p.b.add(x, p.b.constant(0, Dtype::f64)); }).code, Code::shape_mismatch);
}

TEST(Elementwise, ArithmeticOfEveryType) {
  for (Dtype d : test::all_dtypes()) {
    SCOPED_TRACE(name(d));
    Program p;
    Builder& b = p.b;
    const Value x = p.in(array(d, {4}, {0, 1, 1, 0})), y = p.in(array(d, {4}, {1, 1, 0, 0}));
    Values v{b.add(x, y), b.mul(x, y), b.eq(x, y), b.ne(x, y), b.select(b.eq(x, y), x, b.like(x, 1)), b.abs(x)};
    const bool complex = is_complex(d);
    if (!complex) v.insert(v.end(), {b.max(x, y), b.min(x, y), b.lt(x, y), b.ge(x, y)});
    const std::vector<Array> got = p.run(v);
    EXPECT_VALUES(got[0], {1, is_bool(d) ? 1.0 : 2.0, 1, 0});
    EXPECT_VALUES(got[1], {0, 1, 0, 0});
    EXPECT_VALUES(got[2], {0, 1, 0, 1});
    EXPECT_VALUES(got[3], {1, 0, 1, 0});
    EXPECT_VALUES(got[4], {1, 1, 1, 0});
    EXPECT_VALUES(got[5], {0, 1, 1, 0});
    EXPECT_EQ(got[5].type.dtype, real_of(d));
    if (complex) continue;
    EXPECT_VALUES(got[6], {1, 1, 1, 0});
    EXPECT_VALUES(got[7], {0, 1, 0, 0});
    EXPECT_VALUES(got[8], {1, 0, 0, 0});
    EXPECT_VALUES(got[9], {0, 1, 1, 1});
  }
}

TEST(Elementwise, FloatingPoint) {
  for (Dtype d : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    SCOPED_TRACE(name(d));
    Program p;
    Builder& b = p.b;
    const Value x = p.in(array(d, {3}, {0.25, 1, 4}));
    const Values v{b.exp(x),
                   b.expm1(x),
                   b.log(x),
                   b.log1p(x),
                   b.sqrt(x),
                   b.rsqrt(x),
                   b.tanh(x),
                   b.sigmoid(x),
                   b.sin(x),
                   b.cos(x),
                   b.floor(b.mul(x, 1.5)),
                   b.ceil(b.mul(x, 1.5)),
                   b.round_even(b.mul(x, 0.5)),
                   b.neg(x),
                   b.sign(b.sub(x, 1)),
                   b.pow(x, 2),
                   b.rem(x, b.like(x, 3)),
                   b.atan2(x, b.like(x, 1)),
                   b.div(x, 2),
                   b.rsub(1, x),
                   b.clamp(b.like(x, 0.5), x, b.like(x, 2)),
                   b.is_nan(b.div(b.like(x, 0), b.like(x, 0))),
                   b.is_finite(b.div(x, 0)),
                   b.unary("chlo.erf", x),
                   b.unary("cbrt", x),
                   b.compare(Cmp::gt, x, 1)};
    double (*const want[])(double) = {[](double a) { return std::exp(a); },
                                      [](double a) { return std::expm1(a); },
                                      [](double a) { return std::log(a); },
                                      [](double a) { return std::log1p(a); },
                                      [](double a) { return std::sqrt(a); },
                                      [](double a) { return 1 / std::sqrt(a); },
                                      [](double a) { return std::tanh(a); },
                                      [](double a) { return 1 / (1 + std::exp(-a)); },
                                      [](double a) { return std::sin(a); },
                                      [](double a) { return std::cos(a); },
                                      [](double a) { return std::floor(a * 1.5); },
                                      [](double a) { return std::ceil(a * 1.5); },
                                      [](double a) { return std::nearbyint(a * 0.5); },
                                      [](double a) { return -a; },
                                      [](double a) { return a > 1   ? 1.0
                                                            : a < 1 ? -1.0
                                                                    : 0.0; },
                                      [](double a) { return a * a; },
                                      [](double a) { return std::fmod(a, 3); },
                                      [](double a) { return std::atan2(a, 1); },
                                      [](double a) { return a / 2; },
                                      [](double a) { return 1 - a; },
                                      [](double a) { return std::min(std::max(a, 0.5), 2.0); },
                                      [](double) { return 1.0; },
                                      [](double) { return 0.0; },
                                      [](double a) { return std::erf(a); },
                                      [](double a) { return std::cbrt(a); },
                                      [](double a) { return a > 1 ? 1.0 : 0.0; }};
    ASSERT_EQ(std::size(want), v.size());
    const std::vector<Array> got = p.run(v);
    const double tolerance = d == Dtype::f64 ? 1e-12 : d == Dtype::f32 ? 1e-6 : d == Dtype::f16 ? 2e-3 : 1e-2;
    for (size_t i = 0; i < v.size(); ++i)
      for (size_t k = 0; k < 3; ++k) {
        const double y = want[i](values(array(d, {3}, {0.25, 1, 4}))[k]);
        EXPECT_NEAR(values(got[i])[k], y, tolerance * std::max(1.0, std::fabs(y))) << "operation " << i << " at " << k;
      }
  }
}

TEST(Elementwise, NanWinsInMaxAndMin) {
  Program p;
  const Value x = p.in(array(Dtype::f32, {3}, {NAN, 1, 2})), y = p.in(array(Dtype::f32, {3}, {1, NAN, 3}));
  const std::vector<Array> got = p.run({p.b.max(x, y), p.b.min(x, y)});
  for (const Array& a : got) EXPECT_TRUE(std::isnan(values(a)[0]) && std::isnan(values(a)[1])) << values(a)[0];
}

TEST(Elementwise, IntegersAndBits) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(array(Dtype::i32, {3}, {-7, 6, 5})), y = p.in(array(Dtype::i32, {3}, {2, 3, 1})),
              u = p.in(array(Dtype::u8, {2}, {200, 3}));
  const std::vector<Array> got =
      p.run({b.div(x, y), b.rem(x, y), b.bit_and(x, y), b.bit_or(x, y), b.bit_xor(x, y), b.shift_left(x, y),
             b.shift_right(x, y), b.shift_right(u, b.constant(1, Dtype::u8)), b.logical_not(x), b.add(u, 100),
             b.lt(u, b.constant(100, Dtype::u8)), b.sign(x), b.neg(x)});
  EXPECT_VALUES(got[0], {-3, 2, 5});
  EXPECT_VALUES(got[1], {-1, 0, 0});
  EXPECT_VALUES(got[2], {0, 2, 1});
  EXPECT_VALUES(got[3], {-5, 7, 5});
  EXPECT_VALUES(got[4], {-5, 5, 4});
  EXPECT_VALUES(got[5], {-28, 48, 10});
  EXPECT_VALUES(got[6], {-2, 0, 2});
  EXPECT_VALUES(got[7], {100, 1});
  EXPECT_VALUES(got[8], {6, -7, -6});
  EXPECT_VALUES(got[9], {44, 103});
  EXPECT_VALUES(got[10], {0, 1});
  EXPECT_VALUES(got[11], {-1, 1, 1});
  EXPECT_VALUES(got[12], {7, -6, -5});
}

TEST(Elementwise, Complex) {
  Program p;
  Builder& b = p.b;
  const Value re = p.in(array(Dtype::f32, {2}, {3, 0})), im = p.in(array(Dtype::f32, {2}, {4, 1})),
              z = b.complex(re, im);
  EXPECT_EQ(z.dtype(), Dtype::c64);
  const std::vector<Array> got = p.run({b.real(z), b.imag(z), b.abs(z), b.mul(z, z), b.imag(re), b.real(re)});
  EXPECT_VALUES(got[0], {3, 0});
  EXPECT_VALUES(got[1], {4, 1});
  EXPECT_VALUES(got[2], {5, 1});
  EXPECT_EQ(test::complex_values(got[3]), (std::vector<std::complex<double>>{{-7, 24}, {-1, 0}}));
  EXPECT_VALUES(got[4], {0, 0});
  EXPECT_VALUES(got[5], {3, 0});
}

TEST(Shapes, MoveElements) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(counting(Dtype::i32, {2, 3}));
  const Value t = b.transpose(x, {1, 0}), r = b.reshape(x, {3, 1, 2}), s = b.slice(x, {0, 1}, {2, 3}),
              st = b.slice_dim(x, -1, 0, 3, 2), rev = b.reverse(x, {1}), cat = b.concatenate({x, x}, 1),
              up = b.unsqueeze(x, -1), down = b.squeeze(b.unsqueeze(x, 0), 0), sw = b.swap_dims(x, 0, -1),
              flat = b.flatten(x), wide = b.broadcast_to(x, {2, 2, 3}),
              full = b.full(b.constant(7, Dtype::i32), {2, 2}),
              pad = b.pad(x, b.constant(9, Dtype::i32), {0, 1}, {1, -1}, {0, 1});
  EXPECT_EQ(t.dims(), (Dims{3, 2}));
  EXPECT_EQ(r.dims(), (Dims{3, 1, 2}));
  EXPECT_EQ(st.dims(), (Dims{2, 2}));
  EXPECT_EQ(cat.dims(), (Dims{2, 6}));
  EXPECT_EQ(up.dims(), (Dims{2, 3, 1}));
  EXPECT_EQ(pad.dims(), (Dims{3, 5}));
  const std::vector<Array> got = p.run({t, r, s, st, rev, cat, up, down, sw, flat, wide, full, pad});
  EXPECT_VALUES(got[0], {0, 3, 1, 4, 2, 5});
  EXPECT_VALUES(got[1], {0, 1, 2, 3, 4, 5});
  EXPECT_VALUES(got[2], {1, 2, 4, 5});
  EXPECT_VALUES(got[3], {0, 2, 3, 5});
  EXPECT_VALUES(got[4], {2, 1, 0, 5, 4, 3});
  EXPECT_VALUES(got[5], {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  EXPECT_VALUES(got[8], {0, 3, 1, 4, 2, 5});
  EXPECT_VALUES(got[10], {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  EXPECT_VALUES(got[11], {7, 7, 7, 7});
  EXPECT_VALUES(got[12], {9, 0, 9, 1, 9, 9, 3, 9, 4, 9, 9, 9, 9, 9, 9});
}

TEST(Shapes, WhatChangesNothingEmitsNothing) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(counting(Dtype::f32, {2, 3}));
  for (const Value& same : {b.reshape(x, {2, 3}), b.transpose(x, {0, 1}), b.slice(x, {0, 0}, {2, 3}),
                            b.broadcast_to(x, {2, 3}), b.convert(x, Dtype::f32), b.cast(x, Dtype::f32),
                            b.reverse(x, {}), b.concatenate({x}, 0), b.reduce(Reduce::add, x, {}), b.real(x)})
    EXPECT_TRUE(same.same(x));
}

TEST(Shapes, DynamicSlices) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(counting(Dtype::f32, {3, 4})), i = p.in(array(Dtype::i64, {}, {1})),
              j = p.in(array(Dtype::i64, {}, {2}));
  const Value part = b.dynamic_slice(x, {i, j}, {2, 2}),
              put = b.dynamic_update_slice(x, b.constant(-1, Dtype::f32, {1, 2}), {i, j});
  const std::vector<Array> got = p.run({part, put});
  EXPECT_VALUES(got[0], {6, 7, 10, 11});
  EXPECT_VALUES(got[1], {0, 1, 2, 3, 4, 5, -1, -1, 8, 9, 10, 11});
}

TEST(Shapes, ErrorsNameTheOp) {
  Program p;
  p.b.where = "narrow";
  const Value x = p.in(counting(Dtype::f32, {2, 3}));
  for (const auto& bad : std::vector<std::function<void()>>{
           [&] { p.b.reshape(x, {5}); }, [&] { p.b.slice(x, {0, 0}, {2, 4}); }, [&] { p.b.slice(x, {0, -1}, {2, 2}); },
           [&] { p.b.transpose(x, {0}); }, [&] { p.b.broadcast_to(x, {3}); }, [&] { p.b.broadcast_to(x, {2, 4}); },
           [&] { p.b.select(x, x, p.b.zeros({Dtype::f64, {2, 3}})); },
           [&] { p.b.pad(x, p.b.constant(0, Dtype::f32), {0, -4}, {0, 0}); }}) {
    const Error e = error_of(bad);
    EXPECT_EQ(e.code, Code::shape_mismatch) << e.what();
    EXPECT_EQ(e.where, "narrow") << e.what();
  }
  EXPECT_EQ(error_of([&] { p.b.neg(Value{}); }).code, Code::bad_value);
  EXPECT_EQ(error_of([&] { p.b.concatenate({x, Value{}}, 0); }).code, Code::bad_value);
}

}  // namespace
}  // namespace torchport::hlo
