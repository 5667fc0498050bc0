// Lowering and launching: numbers, random state, checks, hidden writes, aliasing, donation, memory.
#include "exec/program.h"

#include <thread>

#include "exec/launch.h"
#include "ops/op.h"

namespace torchport::ops {

OP("unit_runtime") {  // the number in the dtype of `self`, exact
  return a.number("value", a.tensor("self").dtype());
}
OP("unit_bits") { return a.random_bits(Dtype::u32, a.ints("size")); }
OP("unit_bits64") { return a.random_bits(Dtype::u64, a.ints("size")); }
OP("unit_require") {
  const Value x = a.tensor("self");
  a.require(b.compare(Cmp::ge, x, 0), Code::index_out_of_range, "must not be negative");
  a.require(b.compare(Cmp::lt, x, 10), Code::zero_division, "must be below 10");
  return x;
}
OP("unit_assign") {
  const Value x = a.tensor("self");
  a.assign("stats", b.add(a.tensor("stats"), x));
  a.assign("list", 1, x);
  return x;
}
OP("unit_assign_only") {
  a.assign("self", b.like(a.tensor("self"), 5));
  return Values{};
}
OP("unit_two") { return {a.tensor("self"), Value{}, b.neg(a.tensor("self"))}; }

}  // namespace torchport::ops

namespace torchport::exec {
namespace {

using graph::Number;

Attr at_launch(Launch& l, RuntimeNumber n) {
  l.numbers.push_back(n);
  return Number{n.kind, 0, 0.0, static_cast<int>(l.numbers.size()) - 1};
}

TEST(Numbers, OfEveryKindInEveryType) {
  const RuntimeNumber given[] = {{Number::Kind::boolean, 1},
                                 {Number::Kind::boolean, 0},
                                 {Number::Kind::integer, 6},
                                 {Number::Kind::real, 0, 1.5},
                                 {Number::Kind::complex, 0, 1.5, 2}};
  Launch l;
  std::vector<std::pair<Dtype, RuntimeNumber>> made;
  for (Dtype d : test::all_dtypes()) {
    const Ref x = l.value(l.input(counting(d, {1})));
    for (const RuntimeNumber& n : given) {
      l.result(l.call("unit_runtime", {{"self", x}, {"value", at_launch(l, n)}}));
      made.emplace_back(d, n);
    }
  }
  const Ran ran = l.run();
  for (size_t i = 0; i < made.size(); ++i) {
    const auto [d, n] = made[i];
    const double v = n.kind >= Number::Kind::real ? n.re : static_cast<double>(n.i);
    EXPECT_EQ(values(ran.results[i]), (std::vector<double>{is_bool(d)  ? v != 0
                                                           : is_int(d) ? std::trunc(v)
                                                                       : v}))
        << name(d) << " " << i;
    if (is_complex(d) && n.kind == Number::Kind::complex) {
      EXPECT_EQ(test::complex_values(ran.results[i])[0], std::complex<double>(1.5, 2));
    }
  }
}

TEST(Numbers, ExtremesAreExact) {
  Launch l;
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  const auto add = [&](Dtype d, RuntimeNumber n) {
    l.result(l.call("unit_runtime", {{"self", l.value(l.input(counting(d, {1})))}, {"value", at_launch(l, n)}}));
  };
  for (int64_t v : {low, high, int64_t{-1}, (int64_t{1} << 53) + 1})
    add(Dtype::i64, {.i = v}), add(Dtype::u64, {.i = v});
  for (double v : {0.1, -1e308, 5e-324, static_cast<double>(INFINITY)}) add(Dtype::f64, {Number::Kind::real, 0, v});
  add(Dtype::u8, {.i = -1}), add(Dtype::i8, {.i = 300}), add(Dtype::u32, {.i = -2}),
      add(Dtype::f32, {Number::Kind::real, 0, 0.1}), add(Dtype::f32, {Number::Kind::real, 0, NAN});
  add(Dtype::b1, {Number::Kind::real, 0, 0.25}), add(Dtype::i32, {Number::Kind::real, 0, -2.9});
  const Ran ran = l.run();
  size_t at = 0;
  for (int64_t v : {low, high, int64_t{-1}, (int64_t{1} << 53) + 1}) {
    EXPECT_EQ(test::words<int64_t>(ran.results[at++])[0], v);
    EXPECT_EQ(test::words<uint64_t>(ran.results[at++])[0], static_cast<uint64_t>(v));
  }
  for (double v : {0.1, -1e308, 5e-324, static_cast<double>(INFINITY)}) EXPECT_EQ(values(ran.results[at++])[0], v);
  EXPECT_EQ(values(ran.results[at++])[0], 255);
  EXPECT_EQ(values(ran.results[at++])[0], 44);
  EXPECT_EQ(values(ran.results[at++])[0], 4294967294.0);
  EXPECT_EQ(values(ran.results[at++])[0], 0.1f);
  EXPECT_TRUE(std::isnan(values(ran.results[at++])[0]));
  EXPECT_EQ(values(ran.results[at++])[0], 1);
  EXPECT_EQ(values(ran.results[at++])[0], -2);
}

TEST(Numbers, ANewOneNeedsNoNewProgram) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::f32, {3})));
  const Attr s = at_launch(l, {Number::Kind::real, 0, 2});
  l.result(l.call("mul.Tensor", {{"self", x}, {"other", s}}));
  l.result(l.call("add.Tensor", {{"self", x}, {"other", s}, {"alpha", Number{Number::Kind::integer, 1, 0.0, -1}}}));
  const auto program = l.compile();
  EXPECT_EQ(program->plan.slots.size(), 1u);  // one number in one dtype travels once
  for (double v : {2.0, -0.5, 2.0, 100.0}) {
    l.numbers[0].re = v;
    const Ran ran = l.run(*program);
    EXPECT_EQ(values(ran.results[0]), (std::vector<double>{0, v, 2 * v}));
    EXPECT_EQ(values(ran.results[1]), (std::vector<double>{v, 1 + v, 2 + v}));
  }
}

// The operand's length is filled in last, in place of a mark that must not be taken for a number of the program.
TEST(Numbers, TheMarkOfTheirCountIsNoNumber) {
  for (const bool travelling : {true, false}) {
    Launch l;
    const Ref x = l.value(l.input(counting(Dtype::i64, {1})));
    const Attr fixed = Number{Number::Kind::integer, 987654321987, 0.0, -1};
    l.result(l.call("unit_runtime", {{"self", x}, {"value", fixed}}));
    if (travelling) l.result(l.call("unit_runtime", {{"self", x}, {"value", at_launch(l, {.i = 7})}}));
    const Ran ran = l.run();
    EXPECT_EQ(values(ran.results[0])[0], 987654321987);
    if (travelling) { EXPECT_EQ(values(ran.results[1])[0], 7); }
  }
}

TEST(Numbers, AHostTensorPromotesAndTravels) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::bf16, {2})));
  l.result(l.call("add.Tensor", {{"self", x},
                                 {"other", l.number({Number::Kind::real, 0, 0.5}, Dtype::f64)},
                                 {"alpha", Number{Number::Kind::integer, 1, 0.0, -1}}}));
  const Ran ran = l.run();
  EXPECT_EQ(ran.results[0].type, (Type{Dtype::bf16, {2}}));
  EXPECT_EQ(values(ran.results[0]), (std::vector<double>{0.5, 1.5}));
}

TEST(Numbers, MoreThanFitTheFewOfTheFastPath) {
  Launch l;
  std::vector<double> want;
  for (int i = 0; i < 70; ++i) {
    l.result(l.call("unit_runtime",
                    {{"self", l.value(l.input(counting(Dtype::i32, {1})))}, {"value", at_launch(l, {.i = i})}}));
    want.push_back(i);
  }
  const Ran ran = l.run();
  ASSERT_EQ(ran.results.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(values(ran.results[i])[0], want[i]);
}

TEST(Random, DrawsFollowEachOtherWithoutOverlap) {
  Launch l;
  const auto draw = [&](const char* op, int64_t n) { l.result(l.call(op, {{"size", Dims{n}}})); };
  draw("unit_bits", 6), draw("unit_bits", 8), draw("unit_bits64", 3), draw("unit_bits", 4);
  const auto program = l.compile();
  EXPECT_EQ(program->plan.rng_blocks, 2 + 2 + 2 + 1);  // blocks of four words
  Launch whole;
  whole.result(whole.call("unit_bits", {{"size", Dims{28}}}));
  const std::vector<uint32_t> stream = test::words<uint32_t>(whole.run(*whole.compile(), false, 0, 5, 9).results[0]);
  const Ran ran = l.run(*program, false, 0, 5, 9);
  const auto at = [&](size_t first, size_t n) {
    return std::vector<uint32_t>(stream.begin() + first, stream.begin() + first + n);
  };
  EXPECT_EQ(test::words<uint32_t>(ran.results[0]), at(0, 6));
  EXPECT_EQ(test::words<uint32_t>(ran.results[1]), at(8, 8));
  EXPECT_EQ(test::words<uint32_t>(ran.results[3]), at(24, 4));
  // The state is all: the same seed and offset repeat, another seed does not; offset + 1 is one block on.
  EXPECT_EQ(l.run(*program, false, 1, 5, 9).results, ran.results);
  EXPECT_NE(l.run(*program, false, 0, 5, 10).results, ran.results);
  EXPECT_EQ(test::words<uint32_t>(l.run(*program, false, 0, 6, 9).results[0]), at(4, 6));
}

TEST(Checks, TellTheFirstThatFailed) {
  Launch l;
  const Ref x = l.value(l.input(array(Dtype::i64, {3}, {1, 2, 3}))),
            y = l.value(l.input(array(Dtype::i64, {2}, {3, 12}))), z = l.value(l.input(array(Dtype::i64, {}, {-1})));
  for (Ref r : {x, y, z}) l.result(l.call("unit_require", {{"self", r}}));
  const auto program = l.compile();
  ASSERT_EQ(program->plan.checks.size(), 6u);
  EXPECT_EQ(program->plan.checks[3].code, Code::zero_division);
  EXPECT_EQ(program->plan.checks[3].where, "unit_require");
  EXPECT_EQ(program->plan.checks[3].message, "must be below 10");
  EXPECT_EQ(program->num_outputs(), 4u);
  const Ran ran = l.run(*program);
  EXPECT_EQ(ran.check, 4);
  EXPECT_EQ(values(ran.results[1]), (std::vector<double>{3, 12}));  // the results are there all the same
}

TEST(Checks, PassAndHoldForEmptyTensors) {
  Launch l;
  for (const Dims& dims : {Dims{3}, Dims{0}, Dims{}})
    l.result(l.call("unit_require", {{"self", l.value(l.input(counting(Dtype::i64, dims)))}}));
  EXPECT_EQ(l.run().check, 0);
}

TEST(Writes, HiddenOnesGoThroughTheArgumentsView) {
  Launch l;
  const int x = l.input(array(Dtype::f32, {2}, {10, 20})), stats = l.input(counting(Dtype::f32, {2, 2})),
            other = l.input(counting(Dtype::i32, {3}), false);
  const Ref column = l.value(stats, l.view(l.g.inputs[stats], {{2}, {2}, 1}, Dtype::f32, true));
  const Ref tail = l.value(other, l.view(l.g.inputs[other], {{2}, {1}, 1}, Dtype::i32, true));
  l.result(
      l.call("unit_assign", {{"self", l.value(x)}, {"stats", column}, {"list", std::vector<Ref>{l.value(x), tail}}}));
  const Ran ran = l.run(true);
  EXPECT_EQ(values(ran.results[0]), (std::vector<double>{10, 20}));
  EXPECT_EQ(ran.written.at(stats), array(Dtype::f32, {2, 2}, {0, 11, 2, 23}));
  EXPECT_EQ(ran.written.at(other), array(Dtype::i32, {3}, {0, 10, 20}));  // cast to the storage's type
}

TEST(Writes, ANodeWithoutOutputsRuns) {
  Launch l;
  const int x = l.input(counting(Dtype::f32, {3}));
  l.node("unit_assign_only", {{"self", l.value(x)}});
  const Ran ran = l.run();
  EXPECT_TRUE(ran.results.empty());
  EXPECT_EQ(ran.written.at(x), array(Dtype::f32, {3}, {5, 5, 5}));
}

TEST(Results, UndefinedOnesAndRepeatedOnes) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::f32, {2})));
  const int two = l.node("unit_two", {{"self", x}});
  const Ref first = l.output(two, 0), none = l.output(two, 1), last = l.output(two, 2);
  l.g.results = {last.id, none.id, first.id, last.id, -1, x.id};
  const auto program = l.compile();
  EXPECT_EQ(program->plan.defined, (std::vector<bool>{true, false, true, true, false, true}));
  const Ran ran = l.run(*program);
  ASSERT_EQ(ran.results.size(), 4u);
  EXPECT_EQ(values(ran.results[0]), (std::vector<double>{-0.0, -1}));
  EXPECT_EQ(ran.results[2], ran.results[0]);
  EXPECT_EQ(values(ran.results[1]), (std::vector<double>{0, 1}));
  EXPECT_EQ(ran.results[3], ran.results[1]);
}

TEST(Donation, ReusesTheMemoryOfAWrittenInput) {
  for (const bool donate : {true, false}) {
    Launch l;
    const int x = l.input(counting(Dtype::f32, {64}));
    l.write(l.call("neg", {{"self", l.value(x)}}), x);
    const auto program = l.compile();
    pjrt::Device& device = runtime().device(0);
    const pjrt::BufferPtr in = send(l.given(x));
    const void* memory = in->host_pointer();
    const int64_t held = device.allocated;
    pjrt::Buffer* raw = in.get();
    pjrt::BufferPtr out;
    program->run({&raw, 1}, &donate, {}, 0, 0, device, &out);
    EXPECT_EQ(in->is_donated(), donate);
    EXPECT_EQ(out->host_pointer() == memory, donate);
    EXPECT_EQ(device.allocated - held, donate ? 0 : 256);
    EXPECT_EQ(values(fetch(out, {Dtype::f32, {64}}))[63], -63);
    if (!donate) { EXPECT_EQ(values(fetch(in, {Dtype::f32, {64}}))[63], 63); }
  }
}

TEST(Donation, OnlySomeOfSeveral) {
  Launch l;
  for (int i = 0; i < 20; ++i) {
    const int x = l.input(counting(Dtype::f32, {4}, i));
    l.write(l.call("neg", {{"self", l.value(x)}}), x);
  }
  const auto program = l.compile();
  std::vector<pjrt::BufferPtr> in;
  std::vector<pjrt::Buffer*> raw;
  bool donate[20];
  for (int i = 0; i < 20; ++i) in.push_back(send(l.given(i))), raw.push_back(in.back().get()), donate[i] = i % 3 == 0;
  std::vector<pjrt::BufferPtr> out(program->num_outputs());
  program->run(raw, donate, {}, 0, 0, runtime().device(0), out.data());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in[i]->is_donated(), donate[i]) << i;
    EXPECT_EQ(values(fetch(out[i], {Dtype::f32, {4}}))[1], -(i + 1.0)) << i;
    if (!donate[i]) { EXPECT_EQ(values(fetch(in[i], {Dtype::f32, {4}}))[1], i + 1.0) << i; }
  }
}

TEST(Memory, WhatDoesNotFitIsRefusedBeforeAnythingIsDonated) {
  Launch l;
  const int x = l.input(counting(Dtype::f32, {64}));
  l.write(l.call("neg", {{"self", l.value(x)}}), x);
  l.result(l.call("unit_two", {{"self", l.value(x)}}));
  const auto program = l.compile();
  pjrt::Device& device = runtime().device(0);
  const pjrt::BufferPtr in = send(l.given(x));
  pjrt::Buffer* raw = in.get();
  const bool donate = true;
  std::vector<pjrt::BufferPtr> out(program->num_outputs());
  const int64_t limit = device.memory_limit();
  device.set_memory_limit(device.allocated + 255);  // the result needs 256, the written value reuses its own
  const Error e = error_of([&] { program->run({&raw, 1}, &donate, {}, 0, 0, device, out.data()); });
  device.set_memory_limit(device.allocated + 256);
  EXPECT_EQ(e.code, Code::out_of_memory);
  EXPECT_FALSE(in->is_donated());
  EXPECT_NO_THROW(program->run({&raw, 1}, &donate, {}, 0, 0, device, out.data()));
  device.set_memory_limit(limit);
  EXPECT_TRUE(in->is_donated());
}

TEST(Program, RunsOnEveryDeviceAndFromManyThreads) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::f32, {3})));
  l.result(l.call("mul.Tensor", {{"self", x}, {"other", at_launch(l, {Number::Kind::real, 0, 1})}}));
  const auto program = l.compile();
  const int64_t before = *program->launches;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Launch mine = l;
      for (int k = 0; k < 50; ++k) {
        mine.numbers[0].re = t * 100 + k;
        wrong += values(mine.run(*program, false, t % 4).results[0]) !=
                 std::vector<double>{0, mine.numbers[0].re, 2 * mine.numbers[0].re};
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(*program->launches - before, 400);
}

}  // namespace
}  // namespace torchport::exec
