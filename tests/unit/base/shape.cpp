#include "base/shape.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace torchport {
namespace {

TEST(Shape, Numel) {
  EXPECT_EQ(numel(Dims{}), 1);
  EXPECT_EQ(numel(Dims{3, 4}), 12);
  EXPECT_EQ(numel(Dims{3, 0, 4}), 0);
}

TEST(Shape, StridesOfAnEmptyDimensionStepAsIfItWereOne) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(Shape, Text) {
  EXPECT_EQ(text(Dims{3, 4}), "[3, 4]");
  EXPECT_EQ(text(Type{Dtype::bf16, {3, 4}}), "bf16[3,4]");
  EXPECT_EQ(text(Type{Dtype::b1, {}}), "bool[]");
}

TEST(Shape, BroadcastFollowsTorch) {
  EXPECT_EQ(broadcast({3, 1}, {4}, "add"), (Dims{3, 4}));
  EXPECT_EQ(broadcast({}, {2, 0}, "add"), (Dims{2, 0}));
  EXPECT_EQ(broadcast({1}, {0}, "add"), (Dims{0}));
  try {
    broadcast({2, 3}, {2, 4}, "add");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::shape_mismatch);
    EXPECT_NE(std::string(e.what()).find("[2, 3] and [2, 4]"), std::string::npos) << e.what();
  }
}

TEST(Shape, WrapDim) {
  EXPECT_EQ(wrap_dim(-1, 3, "sum"), 2);
  EXPECT_EQ(wrap_dim(0, 0, "sum"), 0);
  EXPECT_EQ(wrap_dim(-1, 0, "sum"), 0);
  EXPECT_THROW(wrap_dim(3, 3, "sum"), Error);
  EXPECT_THROW(wrap_dim(1, 0, "sum"), Error);
}

}  // namespace
}  // namespace torchport
