#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>

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

TEST(Dtype, PromoteIsSymmetricAndKeepsItself) {
  for (int i = 0; i < static_cast<int>(Dtype::kCount); ++i)
    for (int j = 0; j < static_cast<int>(Dtype::kCount); ++j) {
      const Dtype a = static_cast<Dtype>(i), b = static_cast<Dtype>(j);
      EXPECT_EQ(promote(a, b), promote(b, a)) << name(a) << " " << name(b);
      if (a == b) {
        EXPECT_EQ(promote(a, b), a);
      }
    }
}

TEST(Dtype, PromoteFollowsTorch) {
  EXPECT_EQ(promote(Dtype::b1, Dtype::u8), Dtype::u8);
  EXPECT_EQ(promote(Dtype::u8, Dtype::i8), Dtype::i16);
  EXPECT_EQ(promote(Dtype::u8, Dtype::i64), Dtype::i64);
  EXPECT_EQ(promote(Dtype::i64, Dtype::f16), Dtype::f16);
  EXPECT_EQ(promote(Dtype::f16, Dtype::bf16), Dtype::f32);
  EXPECT_EQ(promote(Dtype::f64, Dtype::c64), Dtype::c128);
  EXPECT_EQ(promote(Dtype::f16, Dtype::c64), Dtype::c64);
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
