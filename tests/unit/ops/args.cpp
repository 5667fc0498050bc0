// Args: promotion as torch.result_type, numbers, and what a block may ask for. The blocks here exist for these tests.
#include "exec/launch.h"
#include "ops/call.h"
#include "ops/op.h"

namespace torchport::ops {

OP("unit_same", Promote::same) { return a.tensor("self"); }
OP("unit_to_float", Promote::to_float) { return a.tensor("self"); }
OP("unit_opmath", Promote::same, "", kOpmath) {
  EXPECT_EQ(a.tensor("self").dtype(), opmath(a.dtype()));
  return a.tensor("self");
}
OP("unit_none") { return a.tensor("self"); }
OP("unit_marked", Promote::same, "mask- extra+") {
  EXPECT_EQ(a.tensor("mask").dtype(), Dtype::b1);
  return a.tensor("self");
}
OP("unit_list", Promote::same) { return a.tensors("list"); }
OP("unit_probe") {
  const Value x = a.tensor("self");
  EXPECT_EQ(a.i("int"), -3);
  EXPECT_EQ(a.i("absent", 5), 5);
  EXPECT_EQ(a.f("double"), 2.5);
  EXPECT_EQ(a.f("none", 1.5), 1.5);
  EXPECT_TRUE(a.flag("flag"));
  EXPECT_TRUE(a.flag("absent", true));
  EXPECT_EQ(a.ints("dims"), (Dims{1, -2}));
  EXPECT_EQ(a.ints("none"), Dims{});
  EXPECT_EQ(a.dims("dims", x), (Dims{1, 0}));
  EXPECT_EQ(a.dims("none", x), (Dims{0, 1}));
  EXPECT_EQ(a.dim("minus", x), 1);
  EXPECT_EQ(a.expand_ints("one", 3, 9), (Dims{4, 4, 4}));
  EXPECT_EQ(a.expand_ints("none", 2, 9), (Dims{9, 9}));
  EXPECT_EQ(a.expand_ints("dims", 2, 9), (Dims{1, -2}));
  EXPECT_EQ(a.floats("floats"), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(a.flags("flags"), (std::vector<bool>{true, false}));
  EXPECT_EQ(a.text("text"), "mean");
  EXPECT_EQ(a.text("none"), "");
  EXPECT_EQ(a.dtype("dtype", Dtype::f32), Dtype::f16);
  EXPECT_EQ(a.dtype("none", Dtype::i8), Dtype::i8);
  EXPECT_TRUE(a.is("number", 2));
  EXPECT_FALSE(a.is("number", 3));
  EXPECT_TRUE(a.has("number"));
  EXPECT_FALSE(a.has("none"));
  EXPECT_FALSE(a.has("absent"));
  EXPECT_FALSE(a.has("undefined"));
  EXPECT_FALSE(a.tensor("undefined"));
  EXPECT_EQ(a.where(), "unit_probe");
  EXPECT_EQ(a.default_dtype(), Dtype::f32);
  EXPECT_TRUE(a.platform_has_f64());
  return x;
}
OP("unit_number") { return a.number("value", a.tensor("self").dtype()); }
OP("unit_calls") {
  return call1(b, a, "add.Tensor", {{"self", a.tensor("self")}, {"other", a.tensor("self")}, {"alpha", integer(3)}});
}

namespace {

using exec::Launch;
using exec::RuntimeNumber;
using graph::Attr;
using graph::Number;
using graph::Ref;
using test::array;
using test::counting;
using test::error_of;
using test::values;

Attr python(RuntimeNumber n) { return Number{n.kind, n.i, {n.re, n.im}, -1}; }
const RuntimeNumber kNumbers[] = {{Number::Kind::boolean, 1},
                                  {Number::Kind::integer, 1},
                                  {Number::Kind::real, 0, 1.0},
                                  {Number::Kind::complex, 0, 0, 1.0}};

const Dtype kTypes[] = {Dtype::b1,   Dtype::u8,  Dtype::i16, Dtype::i64, Dtype::f16,
                        Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::c64, Dtype::c128};
// torch.result_type of a tensor (row) with a 0-d tensor of each type; half with complex gives complex32 there, which no
// platform has.
const char* const kWithZeroDim[][10] = {
    {"bool", "u8", "i16", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"},
    {"u8", "u8", "u8", "u8", "f16", "bf16", "f32", "f64", "c64", "c128"},
    {"i16", "i16", "i16", "i16", "f16", "bf16", "f32", "f64", "c64", "c128"},
    {"i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"},
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "c64", "c64"},
    {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "c64", "c64"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "c64", "c64"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"c64", "c64", "c64", "c64", "c64", "c64", "c64", "c64", "c64", "c64"},
    {"c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128"},
};
// ... with True, 1, 1.0 and 1j, when the default type is float32 and float64; the tensor's rank does not matter.
const char* const kWithNumber[][4] = {{"bool", "i64", "f32", "c64"}, {"u8", "u8", "f32", "c64"},
                                      {"i16", "i16", "f32", "c64"},  {"i64", "i64", "f32", "c64"},
                                      {"f16", "f16", "f16", "c64"},  {"bf16", "bf16", "bf16", "c64"},
                                      {"f32", "f32", "f32", "c64"},  {"f64", "f64", "f64", "c128"},
                                      {"c64", "c64", "c64", "c64"},  {"c128", "c128", "c128", "c128"}};
const char* const kWithNumber64[][4] = {{"bool", "i64", "f64", "c128"}, {"u8", "u8", "f64", "c128"},
                                        {"i16", "i16", "f64", "c128"},  {"i64", "i64", "f64", "c128"},
                                        {"f16", "f16", "f16", "c64"},   {"bf16", "bf16", "bf16", "c64"},
                                        {"f32", "f32", "f32", "c64"},   {"f64", "f64", "f64", "c128"},
                                        {"c64", "c64", "c64", "c64"},   {"c128", "c128", "c128", "c128"}};

std::string_view type_of(Launch& l, const std::string& op, const std::vector<std::pair<std::string, Attr>>& args) {
  return name(l.infer(l.node(op, args)).at(0).value().dtype);
}

TEST(Promotion, OfTensorsWithDimensions) {
  for (Dtype x : kTypes)
    for (Dtype y : kTypes) {
      Launch l;
      const Attr self = l.value(l.input(counting(x, {1}))), other = l.value(l.input(counting(y, {1})));
      EXPECT_EQ(type_of(l, "unit_same", {{"self", self}, {"other", other}}), name(promote(x, y)));
    }
}

TEST(Promotion, AZeroDimensionalTensorComesSecond) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    for (size_t j = 0; j < std::size(kTypes); ++j) {
      SCOPED_TRACE(str(name(kTypes[i]), " with ", name(kTypes[j])));
      Launch l;
      const Attr dimmed = l.value(l.input(counting(kTypes[i], {1}))), zero = l.value(l.input(counting(kTypes[j], {})));
      EXPECT_EQ(type_of(l, "unit_same", {{"self", dimmed}, {"other", zero}}), kWithZeroDim[i][j]);
      EXPECT_EQ(type_of(l, "unit_same", {{"self", zero}, {"other", dimmed}}), kWithZeroDim[i][j]);
      const Attr host = l.number({}, kTypes[j]);  // a 0-d CPU tensor
      EXPECT_EQ(type_of(l, "unit_same", {{"self", dimmed}, {"other", host}}), kWithZeroDim[i][j]);
    }
}

TEST(Promotion, APythonNumberComesLast) {
  const Dtype clothed[] = {Dtype::b1, Dtype::i64, Dtype::f64, Dtype::c128};
  for (const Dtype standard : {Dtype::f32, Dtype::f64})
    for (size_t i = 0; i < std::size(kTypes); ++i)
      for (size_t j = 0; j < 4; ++j) {
        SCOPED_TRACE(str(name(kTypes[i]), " with number ", j, ", default ", name(standard)));
        const std::string_view want = standard == Dtype::f32 ? kWithNumber[i][j] : kWithNumber64[i][j];
        Launch l;
        l.settings.default_dtype = standard;
        for (const Dims& dims : {Dims{1}, Dims{}}) {
          const Attr x = l.value(l.input(counting(kTypes[i], dims)));
          EXPECT_EQ(type_of(l, "unit_same", {{"self", x}, {"other", python(kNumbers[j])}}), want);
          EXPECT_EQ(type_of(l, "unit_same", {{"self", python(kNumbers[j])}, {"other", x}}), want);
          EXPECT_EQ(type_of(l, "unit_same", {{"self", x}, {"other", l.number(kNumbers[j], clothed[j], true)}}), want);
        }
      }
}

TEST(Promotion, KindsOfOps) {
  Launch l;
  const Attr i = l.value(l.input(counting(Dtype::i32, {2}))), f = l.value(l.input(counting(Dtype::f64, {2}))),
             h = l.value(l.input(counting(Dtype::bf16, {2}))), m = l.value(l.input(counting(Dtype::b1, {2})));
  EXPECT_EQ(type_of(l, "unit_to_float", {{"self", i}}), "f32");
  EXPECT_EQ(type_of(l, "unit_to_float", {{"self", f}}), "f64");
  EXPECT_EQ(type_of(l, "unit_none", {{"self", i}, {"other", f}}), "i32");
  EXPECT_EQ(type_of(l, "unit_opmath", {{"self", h}}), "bf16");  // computed in f32, rounded once
  EXPECT_EQ(type_of(l, "unit_opmath", {{"self", h}, {"other", f}}), "f64");
  EXPECT_EQ(type_of(l, "unit_marked",
                    {{"self", i}, {"mask", m}, {"extra", python(kNumbers[2])}, {"plain", python(kNumbers[3])}}),
            "f32");
  EXPECT_EQ(type_of(l, "unit_list", {{"list", std::vector<Ref>{std::get<Ref>(i), std::get<Ref>(h)}}}), "bf16");
  l.settings.default_dtype = Dtype::f64;
  EXPECT_EQ(type_of(l, "unit_to_float", {{"self", i}}), "f64");
}

TEST(Args, GiveWhatTheNodeHolds) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::f32, {2, 3})));
  l.result(l.call("unit_probe", {{"self", x},
                                 {"int", int64_t{-3}},
                                 {"double", 2.5},
                                 {"none", {}},
                                 {"flag", true},
                                 {"dims", Dims{1, -2}},
                                 {"minus", int64_t{-1}},
                                 {"one", Dims{4}},
                                 {"floats", std::vector<double>{0.5, 1}},
                                 {"flags", std::vector<bool>{true, false}},
                                 {"text", std::string("mean")},
                                 {"dtype", Dtype::f16},
                                 {"number", integer(2)},
                                 {"undefined", Ref{}}}));
  EXPECT_EQ(l.run().results[0], counting(Dtype::f32, {2, 3}));
}

TEST(Args, ComplainOfWhatIsWrong) {
  Launch l;
  const Ref x = l.value(l.input(counting(Dtype::f32, {2})));
  const auto code = [&](const std::string& op, const std::vector<std::pair<std::string, Attr>>& args) {
    Launch fresh = l;
    return error_of([&] { fresh.infer(fresh.node(op, args)); });
  };
  EXPECT_EQ(code("unit_same", {}).code, Code::internal);  // no argument of that name
  EXPECT_EQ(code("unit_no_such_op", {{"self", x}}).code, Code::op_unsupported);
  EXPECT_EQ(code("sum.dim_IntList", {{"self", x}, {"dim", Dims{4}}, {"keepdim", false}, {"dtype", {}}}).code,
            Code::dim_out_of_range);
  EXPECT_EQ(code("sum.dim_IntList", {{"self", x}, {"dim", Dims{0, 0}}, {"keepdim", false}, {"dtype", {}}}).code,
            Code::bad_value);
  EXPECT_EQ(
      code("add.Tensor", {{"self", x}, {"other", l.value(l.input(counting(Dtype::f32, {3})))}, {"alpha", integer(1)}})
          .where,
      "add");
}

TEST(Args, OneBlockCallsAnother) {
  Launch l;
  l.result(l.call("unit_calls", {{"self", l.value(l.input(counting(Dtype::f32, {3})))}}));
  EXPECT_EQ(values(l.run().results[0]), (std::vector<double>{0, 4, 8}));
}

// A static number becomes a constant of the dtype that the block asks for.
TEST(Args, StaticNumbersOfEveryType) {
  for (Dtype d : test::all_dtypes()) {
    Launch l;
    const Ref x = l.value(l.input(counting(d, {1})));
    std::vector<std::vector<double>> want;
    const RuntimeNumber numbers[] = {{Number::Kind::boolean, 1},
                                     {Number::Kind::integer, 6},
                                     {Number::Kind::real, 0, 1.5},
                                     {Number::Kind::complex, 0, 1.5, 2},
                                     {Number::Kind::integer, 0}};
    for (const RuntimeNumber& n : numbers) {
      l.result(l.call("unit_number", {{"self", x}, {"value", python(n)}}));
      const double v = n.kind >= Number::Kind::real ? n.re : static_cast<double>(n.i);
      want.push_back({is_bool(d) ? v != 0 : is_int(d) ? std::trunc(v) : v});
    }
    const exec::Ran ran = l.run();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(values(ran.results[i]), want[i]) << name(d) << " " << i;
    if (is_complex(d)) { EXPECT_EQ(test::complex_values(ran.results[3])[0], std::complex<double>(1.5, 2)); }
  }
}

}  // namespace
}  // namespace torchport::ops
