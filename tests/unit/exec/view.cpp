// read_view and write_view as programs, against the same moves on the host's bytes.
#include "exec/view.h"

#include "exec/launch.h"

namespace torchport::exec {
namespace {

using test::Draw;
using test::positions;

Array read_on_host(const Array& base, const Strided& v, Dtype d) {
  Array out{{d, v.sizes}, {}};
  const size_t width = size_of(d);
  for (int64_t p : positions(v))
    out.bytes.insert(out.bytes.end(), base.bytes.begin() + p * width, base.bytes.begin() + (p + 1) * width);
  return out;
}
Array write_on_host(Array base, const Strided& v, const Array& value) {
  const size_t width = size_of(value.type.dtype);
  size_t from = 0;
  for (int64_t p : positions(v)) std::memcpy(base.bytes.data() + p * width, value.bytes.data() + width * from++, width);
  return base;
}
// Small whole numbers: every pattern is a valid, exact one in every type.
Array random_array(Draw& draw, Dtype d, const Dims& dims) {
  std::vector<double> v(static_cast<size_t>(numel(dims)));
  for (double& x : v) x = static_cast<double>(draw.pick(0, is_bool(d) ? 1 : 7));
  return array(d, dims, v);
}
std::string describe(const Array& base, const Strided& v, Dtype d) {
  return text(base.type) + " as " + std::string(name(d)) + " sizes " + text(v.sizes) + " strides " + text(v.strides) +
         " offset " + std::to_string(v.offset);
}
// A view of bytes as another type counts in that type's elements.
int64_t elements(const Array& a, Dtype d) { return static_cast<int64_t>(a.bytes.size() / size_of(d)); }
Strided draw_view(Draw& draw, const Array& base, Dtype d) {
  return base.type.dtype == d ? draw.any(base.type.dims) : draw.any({elements(base, d)});
}

void read_many(unsigned seed, bool at_runtime, int programs,
               const std::function<std::pair<Dtype, Dtype>(Draw&)>& types) {
  Draw draw(seed);
  for (int program = 0; program < programs && !::testing::Test::HasFailure(); ++program) {
    Launch l;
    std::vector<std::string> names;
    std::vector<Array> want;
    for (int k = 0; k < 16; ++k) {
      const auto [from, as] = types(draw);
      const int i = l.input(random_array(draw, from, draw.dims(4, 5)));
      const Strided v = draw_view(draw, l.given(i), as);
      l.result(l.value(i, l.view(l.g.inputs[i], v, as, at_runtime)));
      want.push_back(read_on_host(l.given(i), v, as));
      names.push_back(describe(l.given(i), v, as));
    }
    const Ran ran = l.run();
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(ran.results[k].type, want[k].type) << names[k];
      EXPECT_EQ(ran.results[k].bytes, want[k].bytes) << names[k];
    }
  }
}

// Elements that a view names twice have no order among themselves; PyTorch refuses such writes.
bool writes_twice(const Strided& v) {
  std::vector<int64_t> p = positions(v);
  std::sort(p.begin(), p.end());
  return std::adjacent_find(p.begin(), p.end()) != p.end();
}

void write_many(unsigned seed, bool at_runtime, int programs,
                const std::function<std::pair<Dtype, Dtype>(Draw&)>& types) {
  Draw draw(seed);
  for (int program = 0; program < programs && !::testing::Test::HasFailure(); ++program) {
    Launch l;
    std::map<int, Array> want;
    std::map<int, std::string> names;
    while (want.size() < 12) {
      const auto [from, as] = types(draw);
      const Array base = random_array(draw, from, draw.dims(4, 5));
      const Strided v = draw_view(draw, base, as);
      if (writes_twice(v)) continue;
      const int target = l.input(base), source = l.input(random_array(draw, as, v.sizes));
      l.write(l.value(source), target, l.view(base.type, v, as, at_runtime));
      want.emplace(target, write_on_host(base, v, l.given(source)));
      names[target] = describe(base, v, as);
    }
    const Ran ran = l.run(draw.chance(50));
    ASSERT_EQ(ran.written.size(), want.size());
    for (const auto& [i, a] : want) {
      EXPECT_EQ(ran.written.at(i).type, a.type) << names[i];
      EXPECT_EQ(ran.written.at(i).bytes, a.bytes) << names[i];
    }
  }
}

std::pair<Dtype, Dtype> one_type(Draw& draw) {
  const Dtype d = test::all_dtypes()[draw.pick(0, static_cast<int64_t>(Dtype::kCount) - 1)];
  return {d, d};
}
// A bool holds only 0 and 1, so other bytes are not read as bool, nor written into a storage of bools.
std::pair<Dtype, Dtype> two_types(Draw& draw) {
  const auto [a, x] = one_type(draw);
  const auto [b, y] = one_type(draw);
  return is_bool(b) ? std::pair{a, Dtype::u8} : std::pair{a, b};
}
std::pair<Dtype, Dtype> two_number_types(Draw& draw) {
  const auto [a, b] = two_types(draw);
  return is_bool(a) ? std::pair{Dtype::u8, b} : std::pair{a, b};
}

TEST(ReadView, RandomWithRuntimeStarts) { read_many(11, true, 6, one_type); }
TEST(ReadView, RandomWithFixedStarts) { read_many(12, false, 6, one_type); }
TEST(ReadView, RandomOfAnotherType) { read_many(13, true, 6, two_types); }
TEST(WriteView, RandomWithRuntimeStarts) { write_many(21, true, 6, one_type); }
TEST(WriteView, RandomWithFixedStarts) { write_many(22, false, 6, one_type); }
TEST(WriteView, RandomOfAnotherType) { write_many(23, true, 6, two_number_types); }

TEST(ReadView, OneProgramServesEveryStart) {
  Launch l;
  const int i = l.input(counting(Dtype::f32, {5, 4}));
  l.result(l.value(i, l.view(l.g.inputs[i], {{4}, {1}, 0}, Dtype::f32, true)));  // x[k]
  ASSERT_EQ(l.numbers.size(), 1u);
  const auto program = l.compile();
  EXPECT_EQ(program->plan.words, 2);
  for (int64_t k = 0; k < 5; ++k) {
    l.numbers[0].i = 4 * k;
    EXPECT_EQ(values(l.run(*program).results[0]),
              (std::vector<double>{4.0 * k, 4.0 * k + 1, 4.0 * k + 2, 4.0 * k + 3}));
  }
}

TEST(ReadView, OfStorageThatNobodyWrote) {
  Launch l;
  const int i = l.input(counting(Dtype::f32, {2, 3}), false);
  l.result(l.value(i, l.view(l.g.inputs[i], {{3, 2}, {1, 3}}, Dtype::f32)));
  const auto program = l.compile();
  EXPECT_TRUE(program->plan.arguments.empty());
  EXPECT_EQ(l.run(*program).results[0], array(Dtype::f32, {3, 2}, {0, 0, 0, 0, 0, 0}));
}

TEST(ReadView, OfAValue) {
  Launch l;
  const int i = l.input(counting(Dtype::f32, {2, 3}));
  const Ref x = l.value(i), t = l.view_of(x, l.view(l.g.inputs[i], {{3, 2}, {1, 3}}, Dtype::f32));
  l.result(l.view_of(t, l.view({Dtype::f32, {3, 2}}, {{2}, {1}, 2}, Dtype::f32, true)));
  EXPECT_EQ(values(l.run().results[0]), (std::vector<double>{1, 4}));
}

TEST(WriteView, CastsAndBroadcastsTheValue) {
  Launch l;
  const int target = l.input(counting(Dtype::i32, {2, 3})), source = l.input(array(Dtype::f32, {}, {7.9}));
  l.write(l.value(source), target, l.view(l.g.inputs[target], {{2, 2}, {3, 1}, 1}, Dtype::i32, true));
  EXPECT_EQ(values(l.run().written.at(target)), (std::vector<double>{0, 7, 7, 3, 7, 7}));
}

TEST(WriteView, LaterWritesSeeEarlierOnes) {
  Launch l;
  const int target = l.input(counting(Dtype::f32, {4})), source = l.input(array(Dtype::f32, {2}, {10, 20}));
  l.write(l.value(source), target, l.view(l.g.inputs[target], {{2}, {1}, 0}, Dtype::f32));
  l.write(l.value(source), target, l.view(l.g.inputs[target], {{2}, {1}, 1}, Dtype::f32));
  l.result(l.value(target));  // the value before
  const Ran ran = l.run(true);
  EXPECT_EQ(values(ran.written.at(target)), (std::vector<double>{10, 10, 20, 3}));
  EXPECT_EQ(values(ran.results[0]), (std::vector<double>{0, 1, 2, 3}));
}

TEST(WriteView, IntoStorageThatNobodyWrote) {
  Launch l;
  const int target = l.input(counting(Dtype::f32, {4}), false), source = l.input(array(Dtype::f32, {2}, {1, 2}));
  l.write(l.value(source), target, l.view(l.g.inputs[target], {{2}, {2}, 1}, Dtype::f32, true));
  EXPECT_EQ(values(l.run(true).written.at(target)), (std::vector<double>{0, 1, 0, 2}));
}

TEST(WriteView, TailThatFillsNoElementStays) {
  Launch l;
  const int target = l.input(array(Dtype::u8, {6}, {1, 2, 3, 4, 5, 6})),
            source = l.input(array<int64_t>(Dtype::i32, {1}, {0x04030201}));
  l.write(l.value(source), target, l.view(l.g.inputs[target], {{1}, {1}, 0}, Dtype::i32));
  EXPECT_EQ(values(l.run().written.at(target)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace torchport::exec
