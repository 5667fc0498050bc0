// Reductions, windows, gather and scatter, sort, products, loops, random bits, linear algebra, transforms.
#include <set>

#include "hlo/program.h"

namespace torchport::hlo {
namespace {

TEST(Reduction, OfEveryType) {
  for (Dtype d : test::all_dtypes()) {
    SCOPED_TRACE(name(d));
    Program p;
    const Value x = p.in(array(d, {2, 2}, {0, 1, 1, 1}));
    Values v{p.b.reduce(Reduce::add, x, {1}), p.b.reduce(Reduce::mul, x, {0})};
    if (!is_complex(d)) v.insert(v.end(), {p.b.reduce(Reduce::max, x, {1}), p.b.reduce(Reduce::min, x, {1})});
    if (is_bool(d)) v.insert(v.end(), {p.b.reduce(Reduce::all, x, {1}), p.b.reduce(Reduce::any, x, {0, 1})});
    const std::vector<Array> got = p.run(v);
    EXPECT_VALUES(got[0], {1, is_bool(d) ? 1.0 : 2.0});
    EXPECT_VALUES(got[1], {0, 1});
    if (is_complex(d)) continue;
    EXPECT_VALUES(got[2], {1, 1});
    EXPECT_VALUES(got[3], {0, 1});
    if (!is_bool(d)) continue;
    EXPECT_VALUES(got[4], {0, 1});
    EXPECT_VALUES(got[5], {1});
  }
}

TEST(Reduction, KeepsDimensionsAndWrapsThem) {
  Program p;
  const Value x = p.in(counting(Dtype::f32, {2, 3, 2}));
  const Value kept = p.b.reduce_keep(Reduce::add, x, {-1, 0}, true), all = p.b.reduce_keep(Reduce::add, x, {}, false),
              scalar = p.b.reduce_keep(Reduce::max, p.in(array(Dtype::f32, {}, {3})), {}, true);
  EXPECT_EQ(kept.dims(), (Dims{1, 3, 1}));
  EXPECT_EQ(all.dims(), Dims{});
  const Value empty = p.b.reduce(Reduce::max, p.b.zeros({Dtype::f32, {0, 2}}), {0});
  const std::vector<Array> got = p.run({kept, all, scalar, empty});
  EXPECT_VALUES(got[0], {14, 22, 30});
  EXPECT_VALUES(got[1], {66});
  EXPECT_VALUES(got[2], {3});
  EXPECT_VALUES(got[3], {-INFINITY, -INFINITY});
  EXPECT_EQ(error_of([&] { p.b.reduce_keep(Reduce::add, x, {3}, false); }).code, Code::dim_out_of_range);
}

TEST(Reduction, OfSeveralValuesWithABody) {  // where the largest is
  Program p;
  Builder& b = p.b;
  const Value x = p.in(array(Dtype::f32, {2, 3}, {3, 9, 4, 8, 1, 8}));
  const Values r = b.reduce(Values{x, b.iota({Dtype::i64, {2, 3}}, 1)},
                            {b.lowest(Dtype::f32), b.constant(0, Dtype::i64)}, {1}, [&](const Values& a) {
                              const Value left = b.ge(a[0], a[2]);
                              return Values{b.select(left, a[0], a[2]), b.select(left, a[1], a[3])};
                            });
  const std::vector<Array> got = p.run(r);
  EXPECT_VALUES(got[0], {9, 8});
  EXPECT_VALUES(got[1], {1, 0});
}

TEST(Window, PoolingAndItsGradient) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(array(Dtype::f32, {1, 5}, {1, 3, 2, 5, 4}));
  const Value max = b.reduce_window(Reduce::max, x, {.size = {1, 2}, .strides = {1, 2}, .low = {0, 0}, .high = {0, 1}});
  const Value sum = b.reduce_window(Reduce::add, x, {.size = {1, 2}, .window_dilation = {1, 2}});
  EXPECT_EQ(max.dims(), (Dims{1, 3}));
  EXPECT_EQ(sum.dims(), (Dims{1, 3}));
  const Value source = b.reshape(b.constants(std::vector<double>{10, 20, 30}, Dtype::f32), {1, 3});
  const Value back = b.select_and_scatter(x, source, b.constant(0, Dtype::f32),
                                          {.size = {1, 2}, .strides = {1, 2}, .low = {0, 0}, .high = {0, 1}});
  const Value scan = b.reduce_window(Reduce::add, x, {.size = {1, 5}, .low = {0, 4}, .high = {0, 0}});
  const std::vector<Array> got = p.run({max, sum, back, scan});
  EXPECT_VALUES(got[0], {3, 5, 4});
  EXPECT_VALUES(got[1], {3, 8, 6});
  EXPECT_VALUES(got[2], {0, 10, 0, 20, 30});
  EXPECT_VALUES(got[3], {1, 4, 6, 11, 15});
}

TEST(Indexing, GatherRows) {
  Program p;
  const Value x = p.in(counting(Dtype::f32, {4, 3})), i = p.in(array(Dtype::i64, {2, 1}, {3, 0}));
  GatherDims g;
  g.offset_dims = {1}, g.collapsed_slice_dims = {0}, g.start_index_map = {0}, g.index_vector_dim = 1;
  const Value rows = p.b.gather(x, i, g, {1, 3});
  EXPECT_EQ(rows.dims(), (Dims{2, 3}));
  GatherDims each;  // along dim 1, one index for every row
  each.collapsed_slice_dims = {1}, each.start_index_map = {1}, each.index_vector_dim = 2,
  each.operand_batching_dims = {0}, each.start_indices_batching_dims = {0};
  const Value picked = p.b.gather(x, p.in(array(Dtype::i32, {4, 2}, {0, 1, 2, 2, 1, 0, 0, 2})), each, {1, 1});
  EXPECT_EQ(picked.dims(), (Dims{4, 2}));
  const std::vector<Array> got = p.run({rows, picked});
  EXPECT_VALUES(got[0], {9, 10, 11, 0, 1, 2});
  EXPECT_VALUES(got[1], {0, 1, 5, 5, 7, 6, 9, 11});
}

TEST(Indexing, ScatterOverwritesOrCombines) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(counting(Dtype::f32, {4, 2})), i = p.in(array(Dtype::i64, {2, 1}, {3, 1})),
              twice = p.in(array(Dtype::i64, {2, 1}, {2, 2})), u = p.in(counting(Dtype::f32, {2, 2}, 100));
  ScatterDims s;
  s.update_window_dims = {1}, s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0},
  s.index_vector_dim = 1;
  const std::vector<Array> got = p.run(
      {b.scatter(x, i, u, s), b.scatter(x, twice, u, s, [&](const Values& a) { return Values{b.add(a[0], a[1])}; })});
  EXPECT_VALUES(got[0], {0, 1, 102, 103, 4, 5, 100, 101});
  EXPECT_VALUES(got[1], {0, 1, 2, 3, 206, 209, 6, 7});
}

TEST(Sort, StableWithCompanions) {
  Program p;
  Builder& b = p.b;
  const Value x = p.in(array(Dtype::f32, {5}, {2, 1, 2, 1, 0}));
  const Values sorted =
      b.sort({x, b.iota({Dtype::i64, {5}}, 0)}, 0, true, [&](const Values& a) { return Values{b.lt(a[0], a[1])}; });
  const std::vector<Array> got = p.run(sorted);
  EXPECT_VALUES(got[0], {0, 1, 1, 2, 2});
  EXPECT_VALUES(got[1], {4, 1, 3, 0, 2});
}

TEST(Product, DotGeneral) {
  for (Dtype d : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::c64}) {
    SCOPED_TRACE(name(d));
    Program p;
    const Value x = p.in(counting(d, {2, 2, 3})), y = p.in(counting(d, {2, 3, 1}));
    const Value batched = p.b.dot_general(x, y, {0}, {0}, {2}, {1}, d);
    EXPECT_EQ(batched.dims(), (Dims{2, 2, 1}));
    EXPECT_VALUES(p.run(batched), {5, 14, 86, 122});
  }
  Program p;
  const Value x = p.in(counting(Dtype::bf16, {2, 3}));
  EXPECT_EQ(p.b.dot_general(x, x, {}, {}, {0}, {0}, Dtype::f32).type(), (Type{Dtype::f32, {3, 3}}));
  const Value wide = p.b.dot_general(x, x, {}, {}, {1}, {1}, Dtype::f32);
  EXPECT_VALUES(p.run(wide), {5, 14, 14, 50});
  EXPECT_EQ(error_of([&] { p.b.dot_general(x, x, {}, {}, {0}, {1}, Dtype::f32); }).code, Code::shape_mismatch);
}

TEST(Product, Convolution) {
  Program p;
  const Value x = p.in(counting(Dtype::f32, {1, 2, 4})), k = p.in(array(Dtype::f32, {2, 1, 2}, {1, 1, 1, -1}));
  const Value grouped = p.b.convolution(x, k, {.strides = {2}, .low = {1}, .high = {1}, .groups = 2});
  EXPECT_EQ(grouped.dims(), (Dims{1, 2, 3}));
  // Transposed: the kernel's features swap, the input is dilated.
  const Value one = p.in(counting(Dtype::f32, {1, 1, 2}, 1)), k1 = p.in(array(Dtype::f32, {1, 1, 2}, {1, 10}));
  const Value up = p.b.convolution(
      one, k1, {.low = {1}, .high = {1}, .lhs_dilation = {2}, .k_out = 1, .k_in = 0, .reverse_kernel = true});
  EXPECT_EQ(up.dims(), (Dims{1, 1, 4}));
  const Value image = p.b.convolution(p.in(counting(Dtype::f32, {1, 1, 3, 3})),
                                      p.b.constant(1, Dtype::f32, {1, 1, 2, 2}), {.rhs_dilation = {2, 1}});
  const std::vector<Array> got = p.run({grouped, up, image});
  EXPECT_VALUES(got[0], {0, 3, 3, -4, -1, 7});
  EXPECT_VALUES(got[1], {1, 10, 2, 20});
  EXPECT_VALUES(got[2], {14, 18});
}

TEST(Control, LoopAndBranch) {
  Program p;
  Builder& b = p.b;
  const Value n = p.in(array(Dtype::i32, {}, {5}));
  const Values loop = b.while_loop(
      {b.constant(0, Dtype::i32), b.constant(1, Dtype::f32)}, [&](const Values& a) { return Values{b.lt(a[0], n)}; },
      [&](const Values& a) { return Values{b.add(a[0], 1), b.mul(a[1], 2)}; });
  const Values branch = b.if_else(
      b.compare(Cmp::gt, n, 4), [&] { return Values{b.constant(10, Dtype::f32), n}; },
      [&] { return Values{b.constant(20, Dtype::f32), b.neg(n)}; });
  const std::vector<Array> got = p.run({loop[0], loop[1], branch[0], branch[1]});
  EXPECT_VALUES(got[0], {5});
  EXPECT_VALUES(got[1], {32});
  EXPECT_VALUES(got[2], {10});
  EXPECT_VALUES(got[3], {5});
}

TEST(Random, BitsDependOnTheStateOnly) {
  Program p;
  Builder& b = p.b;
  const Value state = p.in(array<uint64_t>(Dtype::u64, {2}, {42, 7})),
              other = p.in(array<uint64_t>(Dtype::u64, {2}, {43, 7}));
  const auto [next, bits] = b.rng_bits(state, Dtype::u32, {64});
  const std::vector<Array> got =
      p.run({bits, b.rng_bits(state, Dtype::u32, {64}).second, b.rng_bits(other, Dtype::u32, {64}).second,
             b.rng_bits(state, Dtype::u64, {3}).second, next});
  EXPECT_EQ(got[0], got[1]);
  EXPECT_NE(got[0], got[2]);
  const std::vector<uint32_t> w = test::words<uint32_t>(got[0]);
  EXPECT_EQ(std::set<uint32_t>(w.begin(), w.end()).size(), w.size());
  EXPECT_EQ(test::words<uint64_t>(got[4]), (std::vector<uint64_t>{42, 7 + 16}));  // four words a count
}

TEST(Linalg, CholeskyAndTriangularSolve) {
  Program p;
  const Value a = p.in(array(Dtype::f64, {2, 2}, {4, 2, 2, 5})), y = p.in(array(Dtype::f64, {2, 1}, {2, 5}));
  const Value lower = p.b.cholesky(a), upper = p.b.cholesky(a, false);
  const Value x = p.b.triangular_solve(lower, y, true, true, false),
              t = p.b.triangular_solve(lower, y, true, true, false, "TRANSPOSE");
  const std::vector<Array> got = p.run({lower, upper, x, t});
  EXPECT_EQ(values(got[0])[0], 2);
  EXPECT_EQ(values(got[0])[2], 1);
  EXPECT_EQ(values(got[0])[3], 2);
  EXPECT_EQ(values(got[1])[1], 1);
  expect_near(got[2], {1, 2}, 1e-12);
  expect_near(got[3], {-0.25, 2.5}, 1e-12);
}

TEST(Transform, Fft) {
  Program p;
  const Value x = p.in(array(Dtype::f32, {4}, {1, 2, 3, 4}));
  const Value half = p.b.fft(x, "RFFT", {4}), back = p.b.fft(half, "IRFFT", {4}),
              full = p.b.fft(p.b.cast(x, Dtype::c64), "FFT", {4});
  EXPECT_EQ(half.type(), (Type{Dtype::c64, {3}}));
  EXPECT_EQ(back.type(), (Type{Dtype::f32, {4}}));
  const std::vector<Array> got = p.run({half, back, full, p.b.fft(full, "IFFT", {4})});
  expect_near(got[0], {10, -2, -2});
  expect_near(got[1], {1, 2, 3, 4});
  expect_near(got[2], {10, -2, -2, -2});
  expect_near(got[3], {1, 2, 3, 4});
}

TEST(Function, WithoutArgumentsOrResults) {
  Program p;
  EXPECT_EQ(p.b.num_arguments(), 0u);
  EXPECT_TRUE(p.run(Values{}).empty());
}

TEST(Function, ReducePrecisionAndCustomCall) {
  Program p;
  const Value x = p.in(array(Dtype::f32, {1}, {1.0009765625}));
  EXPECT_VALUES(p.run(p.b.reduce_precision(x, 8, 7)), {1});
  Program q;
  const Value call = q.b.custom_call("nobody", {q.in(array(Dtype::f32, {1}, {1}))}, {{Dtype::f32, {2}}})[0];
  EXPECT_EQ(call.dims(), (Dims{2}));
  EXPECT_NE(q.b.finish({call}).find("call_target_name = \"nobody\""), std::string::npos);
}

TEST(Function, BarriersAndPlacementsKeepValues) {
  Program p;
  const Value x = p.in(array(Dtype::f32, {2}, {1, 2})), y = p.in(array(Dtype::i32, {1}, {3}));
  const Values behind = p.b.optimization_barrier({p.b.sharding(x, "{replicated}"), y});
  ASSERT_EQ(behind.size(), 2u);
  EXPECT_EQ(behind[1].type(), y.type());
  EXPECT_VALUES(p.run({p.b.add(behind[0], behind[0])}), {2, 4});
}

TEST(Function, PlacementStandsOnArgumentsAndResults) {
  Builder b;
  const Value x = b.argument({Dtype::f32, {4}}), y = b.argument({Dtype::f32, {4}});
  b.alias(0, 0);
  const std::string text = b.finish({b.add(x, y)}, "main", {2, {"{devices=[2]<=[2]}"}, {"{replicated}"}});
  EXPECT_NE(text.find("mhlo.num_partitions = 2 : i32"), std::string::npos);
  EXPECT_NE(text.find("{mhlo.sharding = \"{devices=[2]<=[2]}\", tf.aliasing_output = 0 : i32}"), std::string::npos);
  EXPECT_NE(text.find("-> (tensor<4xf32> {mhlo.sharding = \"{replicated}\"})"), std::string::npos);
  EXPECT_EQ(b.finish({x}).find("mhlo"), std::string::npos);
}

}  // namespace
}  // namespace torchport::hlo
