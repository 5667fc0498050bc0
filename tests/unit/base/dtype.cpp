#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace torchport {
namespace {

TEST(Dtype, EveryNameIsUniqueAndEverySizeKnown) {
  std::set<std::string_view> names, hlo;
  for (int i = 0; i < static_cast<int>(Dtype::kCount); ++i) {
    const Dtype d = static_cast<Dtype>(i);
    EXPECT_TRUE(names.insert(name(d)).second) << name(d);
    EXPECT_TRUE(hlo.insert(hlo_name(d)).second) << name(d);
    EXPECT_GE(size_of(d), 1u);
    EXPECT_EQ(is_integral(d) + is_float(d) + is_complex(d), 1) << name(d);
  }
}

// What torch.promote_types says, of each type with each: "-" where it raises.
constexpr const char* kPromoted[][17] = {
    {"bool", "u8", "-", "-", "-", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"u8", "u8", "-", "-", "-", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"-", "-", "u16", "-", "-", "-", "-", "-", "-", "f16", "bf16", "f32", "f64", "-", "-", "-", "-"},
    {"-", "-", "-", "u32", "-", "-", "-", "-", "-", "f16", "bf16", "f32", "f64", "-", "-", "-", "-"},
    {"-", "-", "-", "-", "u64", "-", "-", "-", "-", "f16", "bf16", "f32", "f64", "-", "-", "-", "-"},
    {"i8", "i16", "-", "-", "-", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"i16", "i16", "-", "-", "-", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"i32", "i32", "-", "-", "-", "i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"i64", "i64", "-", "-", "-", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "-", "-"},
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64", "c64", "c128", "-",
     "-"},
    {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64", "c64", "c128",
     "-", "-"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64", "c64", "c128", "-",
     "-"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "c128", "c128", "-",
     "-"},
    {"c64", "c64", "-", "-", "-", "c64", "c64", "c64", "c64", "c64", "c64", "c64", "c128", "c64", "c128", "-", "-"},
    {"c128", "c128", "-", "-", "-", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "-",
     "-"},
    {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "f8e4m3fn", "-"},
    {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "f8e5m2"},
};

TEST(Dtype, PromoteFollowsTorch) {
  for (int i = 0; i < static_cast<int>(Dtype::kCount); ++i)
    for (int j = 0; j < static_cast<int>(Dtype::kCount); ++j) {
      const Dtype a = static_cast<Dtype>(i), b = static_cast<Dtype>(j);
      const std::string_view want = kPromoted[i][j];
      SCOPED_TRACE(str(name(a), " with ", name(b)));
      if (want != "-") {
        EXPECT_EQ(name(promote(a, b)), want);
        continue;
      }
      try {
        ADD_FAILURE() << "must be refused, got " << name(promote(a, b));
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::dtype_mismatch);
        EXPECT_NE(e.text.find(name(a)), std::string::npos) << e.text;
      }
    }
}

TEST(Dtype, WhatPyTorchComputesIn) {
  EXPECT_EQ(opmath(Dtype::bf16), Dtype::f32);
  EXPECT_EQ(opmath(Dtype::f8e5m2), Dtype::f32);
  EXPECT_EQ(opmath(Dtype::f64), Dtype::f64);
  EXPECT_EQ(opmath(Dtype::i8), Dtype::i8);
  EXPECT_EQ(complex_of(Dtype::f64), Dtype::c128);
  EXPECT_EQ(real_of(Dtype::c64), Dtype::f32);
}

}  // namespace
}  // namespace torchport
