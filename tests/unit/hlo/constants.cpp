// Constants of every type, casts and bit patterns.
#include <limits>

#include "hlo/program.h"

namespace torchport::hlo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
bool has_infinity(Dtype d) { return is_float(d) && d != Dtype::f8e4m3fn; }

TEST(Constants, OfEveryType) {
  Program p;
  Values v;
  for (Dtype d : test::all_dtypes())
    v.push_back(p.b.constant(1, d, {2, 3})), v.push_back(p.b.zeros({d, {}})), v.push_back(p.b.zeros({d, {0, 2}}));
  const std::vector<Array> got = p.run(v);
  for (size_t i = 0; i < got.size(); i += 3) {
    SCOPED_TRACE(name(got[i].type.dtype));
    EXPECT_VALUES(got[i], {1, 1, 1, 1, 1, 1});
    EXPECT_VALUES(got[i + 1], {0});
    EXPECT_TRUE(got[i + 2].bytes.empty());
  }
}

TEST(Constants, ExtremesOfIntegers) {
  Program p;
  const Values v{p.b.lowest(Dtype::i64), p.b.highest(Dtype::i64), p.b.highest(Dtype::u64), p.b.lowest(Dtype::u64)};
  Values small;
  for (Dtype d : {Dtype::i8, Dtype::i16, Dtype::i32, Dtype::u8, Dtype::u16, Dtype::u32, Dtype::b1})
    small.push_back(p.b.lowest(d)), small.push_back(p.b.highest(d));
  Values all = v;
  all.insert(all.end(), small.begin(), small.end());
  const std::vector<Array> got = p.run(all);
  EXPECT_EQ(test::words<int64_t>(got[0])[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(test::words<int64_t>(got[1])[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(test::words<uint64_t>(got[2])[0], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(test::words<uint64_t>(got[3])[0], 0u);
  const double want[] = {-128, 127, -32768, 32767, -2147483648.0, 2147483647, 0, 255, 0, 65535, 0, 4294967295.0, 0, 1};
  for (size_t i = 0; i < small.size(); ++i) EXPECT_EQ(values(got[4 + i])[0], want[i]) << i;
}

// A number that does not fit wraps, as a cast of it would.
TEST(Constants, IntegersWrap) {
  Program p;
  const std::vector<Array> got =
      p.run({p.b.constant_int(-1, Dtype::u8), p.b.constant(-2, Dtype::u16), p.b.constant_int(300, Dtype::i8),
             p.b.constant_int(-1, Dtype::u64), p.b.constants(std::vector<int64_t>{-1, 256, 257}, Dtype::u8),
             p.b.constant_int(int64_t{1} << 53, Dtype::i64), p.b.constant_int(-7, Dtype::b1)});
  EXPECT_VALUES(got[0], {255});
  EXPECT_VALUES(got[1], {65534});
  EXPECT_VALUES(got[2], {44});
  EXPECT_EQ(test::words<uint64_t>(got[3])[0], std::numeric_limits<uint64_t>::max());
  EXPECT_VALUES(got[4], {255, 0, 1});
  EXPECT_VALUES(got[5], {9007199254740992.0});
  EXPECT_VALUES(got[6], {1});
}

TEST(Constants, InfinitiesAndNan) {
  Program p;
  Values v;
  std::vector<Dtype> types;
  for (Dtype d : test::all_dtypes())
    if (is_float(d)) types.push_back(d);
  for (Dtype d : types) v.push_back(p.b.nan(d)), v.push_back(p.b.lowest(d)), v.push_back(p.b.highest(d));
  const std::vector<Array> got = p.run(v);
  for (size_t i = 0; i < types.size(); ++i) {
    SCOPED_TRACE(name(types[i]));
    EXPECT_TRUE(std::isnan(values(got[3 * i])[0]));
    EXPECT_EQ(values(got[3 * i + 1])[0], has_infinity(types[i]) ? -kInf : -448);
    EXPECT_EQ(values(got[3 * i + 2])[0], has_infinity(types[i]) ? kInf : 448);
  }
}

TEST(Constants, FloatsKeepEveryBit) {
  Program p;
  const double tiny = 4.9406564584124654e-324, third = 1.0 / 3;
  const std::vector<Array> got =
      p.run({p.b.constant(third, Dtype::f64), p.b.constant(third, Dtype::f32), p.b.constant(tiny, Dtype::f64),
             p.b.constant(-0.0, Dtype::f32), p.b.constant(1e39, Dtype::f32), p.b.constant(-70000, Dtype::f16),
             p.b.constants(std::vector<double>{0.5, -kInf, third}, Dtype::f64)});
  EXPECT_EQ(values(got[0])[0], third);
  EXPECT_EQ(values(got[1])[0], static_cast<float>(third));
  EXPECT_EQ(values(got[2])[0], tiny);
  EXPECT_TRUE(std::signbit(values(got[3])[0]));
  EXPECT_EQ(values(got[4])[0], kInf);
  EXPECT_EQ(values(got[5])[0], -kInf);
  EXPECT_VALUES(got[6], {0.5, -kInf, third});
}

TEST(Constants, ComplexNumbers) {
  Program p;
  const std::vector<Array> got = p.run({p.b.constant_complex(1.5, -2, Dtype::c64, {2}), p.b.constant(3, Dtype::c128),
                                        p.b.constant_complex(kInf, -kInf, Dtype::c128)});
  EXPECT_EQ(test::complex_values(got[0]), (std::vector<std::complex<double>>{{1.5, -2}, {1.5, -2}}));
  EXPECT_EQ(test::complex_values(got[1]), (std::vector<std::complex<double>>{{3, 0}}));
  EXPECT_EQ(test::complex_values(got[2])[0], (std::complex<double>{kInf, -kInf}));
}

TEST(Constants, Iota) {
  Program p;
  const std::vector<Array> got = p.run({p.b.iota({Dtype::i32, {2, 3}}, 1), p.b.iota({Dtype::bf16, {2, 3}}, 0),
                                        p.b.iota({Dtype::b1, {3}}, 0), p.b.iota({Dtype::c64, {2}}, 0)});
  EXPECT_VALUES(got[0], {0, 1, 2, 0, 1, 2});
  EXPECT_VALUES(got[1], {0, 0, 0, 1, 1, 1});
  EXPECT_VALUES(got[2], {0, 1, 1});
  EXPECT_VALUES(got[3], {0, 1});
}

TEST(Cast, EveryTypeToEveryType) {
  Program p;
  Values v;
  std::vector<std::pair<Dtype, Dtype>> pairs;
  for (Dtype from : test::all_dtypes()) {
    const Value x = p.in(array(from, {3}, {0, 1, 2}));
    for (Dtype to : test::all_dtypes()) v.push_back(p.b.cast(x, to)), pairs.emplace_back(from, to);
  }
  const std::vector<Array> got = p.run(v);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].type.dtype, pairs[i].second);
    EXPECT_VALUES(got[i], {0, 1, is_bool(pairs[i].first) || is_bool(pairs[i].second) ? 1.0 : 2.0})
        << name(pairs[i].first) << " to " << name(pairs[i].second);
  }
}

TEST(Cast, FollowsTorch) {
  Program p;
  const Value f = p.in(array(Dtype::f32, {6}, {-1.7, 1.7, 300, -129, 0.1, 0}));
  const Value i = p.in(array<int64_t>(Dtype::i64, {3}, {-1, 300, 4294967297}));
  const Value c = p.in([] {
    Array a{{Dtype::c64, {2}}, {}};
    for (float x : {1.5f, 7.0f, 0.0f, 2.0f}) test::put<float>(a.bytes, x);
    return a;
  }());
  const std::vector<Array> got =
      p.run({p.b.cast(f, Dtype::i64), p.b.cast(f, Dtype::i8), p.b.cast(f, Dtype::u8), p.b.cast(f, Dtype::b1),
             p.b.cast(i, Dtype::u8), p.b.cast(i, Dtype::i32), p.b.cast(c, Dtype::f32), p.b.cast(c, Dtype::b1),
             p.b.cast(c, Dtype::i32), p.b.cast(f, Dtype::u32)});
  EXPECT_VALUES(got[0], {-1, 1, 300, -129, 0, 0});
  EXPECT_VALUES(got[1], {-1, 1, 44, 127, 0, 0});
  EXPECT_VALUES(got[2], {255, 1, 44, 127, 0, 0});
  EXPECT_VALUES(got[3], {1, 1, 1, 1, 1, 0});
  EXPECT_VALUES(got[4], {255, 44, 1});
  EXPECT_VALUES(got[5], {-1, 300, 1});
  EXPECT_VALUES(got[6], {1.5, 0});
  EXPECT_VALUES(got[7], {1, 1});
  EXPECT_VALUES(got[8], {1, 0});
  EXPECT_VALUES(got[9], {4294967295, 1, 300, 4294967167, 0, 0});
}

TEST(Cast, BitcastChangesTheLastDimension) {
  Program p;
  const Value x = p.in(array(Dtype::f64, {2}, {1, -2}));
  const Value halves = p.b.bitcast(x, Dtype::u32);
  EXPECT_EQ(halves.dims(), (Dims{2, 2}));
  const Value back = p.b.bitcast(halves, Dtype::f64);
  EXPECT_EQ(back.dims(), (Dims{2}));
  const Value same = p.b.bitcast(p.in(array(Dtype::f32, {1}, {1})), Dtype::i32);
  const std::vector<Array> got = p.run({halves, back, same});
  EXPECT_VALUES(got[0], {0, 0x3FF00000, 0, 0xC0000000});
  EXPECT_VALUES(got[1], {1, -2});
  EXPECT_VALUES(got[2], {0x3F800000});
  EXPECT_EQ(error_of([&] { p.b.bitcast(p.b.zeros({Dtype::f64, {3}}), Dtype::c128); }).code, Code::shape_mismatch);
}

}  // namespace
}  // namespace torchport::hlo
