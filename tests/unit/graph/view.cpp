// plan_view against direct strided indexing: examples, then random views.
#include "graph/view.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "strided.h"

namespace torchport::graph {
namespace {

using test::Draw;
using test::positions;
using test::Strided;

Span span(const Dims& d) { return {d.data(), static_cast<int>(d.size())}; }

ViewPlan plan(const Dims& base, const Strided& v, int64_t flat = -1) {
  ViewPlan p;
  plan_view(span(base), flat, span(v.sizes), span(v.strides), v.offset, p);
  return p;
}

std::string describe(const Dims& base, const Strided& v) {
  return "base " + text(base) + " sizes " + text(v.sizes) + " strides " + text(v.strides) + " offset " +
         std::to_string(v.offset);
}

// Flat positions that a reader who knows only the plan and the view's sizes would fetch.
std::vector<int64_t> through_box(const ViewPlan& p, const Dims& sizes) {
  Strided v{sizes, Dims(sizes.size(), 0), 0};
  int64_t unit = 1;
  for (int i = p.count; i-- > 0; unit *= p.axes[i].extent) {
    v.offset += p.starts[i] * unit;
    if (p.axes[i].dim >= 0) v.strides[p.axes[i].dim] += p.axes[i].step * unit;
  }
  return positions(v);
}

void expect_sound(const ViewPlan& p, int64_t n, const Strided& v) {
  ASSERT_LE(p.count, kMaxAxes);
  int64_t product = 1;
  std::set<int> shown;
  for (int i = 0; i < p.count; ++i) {
    const Axis& a = p.axes[i];
    product *= a.extent;
    EXPECT_GE(a.step, 1);
    EXPECT_GE(p.starts[i], 0);
    EXPECT_LE(p.starts[i] + (a.size - 1) * a.step + 1, a.extent);
    if (!p.has_start(i)) { EXPECT_EQ(p.starts[i], 0); }
    if (a.dim < 0) {
      EXPECT_EQ(a.size, 1);
    } else {
      EXPECT_TRUE(shown.insert(a.dim).second) << "dimension " << a.dim << " is shown twice";
      EXPECT_EQ(a.size, v.sizes[a.dim]);
    }
  }
  EXPECT_EQ(product, n);
  for (int i = 0; i < static_cast<int>(v.sizes.size()); ++i)
    EXPECT_EQ(shown.count(i), v.sizes[i] != 1 && v.strides[i] != 0) << i;
}

// One memory position seen twice along dimensions that move.
bool overlaps(const Strided& v) {
  Strided moving = v;
  for (size_t i = 0; i < v.sizes.size(); ++i)
    if (v.strides[i] == 0) moving.sizes[i] = std::min<int64_t>(1, v.sizes[i]);
  const std::vector<int64_t> p = positions(moving);
  return std::set<int64_t>(p.begin(), p.end()).size() != p.size();
}

void expect_right(const Dims& base, const Strided& v, int64_t flat = -1) {
  SCOPED_TRACE(describe(base, v));
  const int64_t n = flat >= 0 ? flat : numel(base), count = numel(v.sizes);
  const ViewPlan p = plan(base, v, flat);
  const std::vector<int64_t> want = positions(v);
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  const bool in_order = count == n && want == all;
  switch (p.cls) {
    case ViewClass::empty: EXPECT_EQ(count, 0); break;
    case ViewClass::whole:
      EXPECT_TRUE(in_order);
      EXPECT_EQ(v.sizes, flat >= 0 ? Dims{flat} : base);
      break;
    case ViewClass::reshape:
      EXPECT_TRUE(in_order);
      EXPECT_NE(v.sizes, flat >= 0 ? Dims{flat} : base);
      break;
    case ViewClass::box:
      expect_sound(p, n, v);
      EXPECT_EQ(through_box(p, v.sizes), want);
      EXPECT_FALSE(overlaps(v));
      break;
    case ViewClass::gather: EXPECT_EQ(p.starts[0], v.offset); break;
  }
  EXPECT_EQ(p.cls == ViewClass::empty, count == 0);
  EXPECT_EQ(p.cls == ViewClass::whole || p.cls == ViewClass::reshape, in_order && count > 0);
}

TEST(View, WholeReshapeEmpty) {
  EXPECT_EQ(plan({2, 3}, {{2, 3}, {3, 1}}).cls, ViewClass::whole);
  EXPECT_EQ(plan({}, {}).cls, ViewClass::whole);
  EXPECT_EQ(plan({2, 1, 3}, {{2, 1, 3}, {3, 77, 1}}).cls, ViewClass::whole);  // the stride of a size 1 says nothing
  EXPECT_EQ(plan({2, 3}, {{6}, {1}}).cls, ViewClass::reshape);
  EXPECT_EQ(plan({2, 3}, {{2, 1, 3}, {3, 3, 1}}).cls, ViewClass::reshape);
  EXPECT_EQ(plan({1, 1}, {}).cls, ViewClass::reshape);
  EXPECT_EQ(plan({2, 3}, {{2, 0}, {3, 1}}).cls, ViewClass::empty);
  EXPECT_EQ(plan({0}, {{0, 4}, {4, 1}}).cls, ViewClass::empty);
  EXPECT_EQ(plan({5}, {{3, 0}, {0, 0}, 4}).cls, ViewClass::empty);
}

TEST(View, SelectTakesOneStart) {
  const ViewPlan p = plan({4, 6}, {{6}, {1}, 12});  // x[2]
  ASSERT_EQ(p.cls, ViewClass::box);
  int starts = 0;
  for (int i = 0; i < p.count; ++i) starts += p.has_start(i);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(plan({4, 6}, {{}, {}, 23}).cls, ViewClass::box);  // x[3, 5]
}

TEST(View, ClassesOfKnownViews) {
  EXPECT_EQ(plan({4, 6}, {{6, 4}, {1, 6}}).cls, ViewClass::box);        // x.t()
  EXPECT_EQ(plan({4, 6}, {{4, 2}, {6, 3}, 1}).cls, ViewClass::box);     // x[:, 1::3]
  EXPECT_EQ(plan({5, 7}, {{3, 2}, {14, 3}, 2}).cls, ViewClass::box);    // x[::2, 2:6:3]: no divisors
  EXPECT_EQ(plan({3}, {{2, 3}, {0, 1}}).cls, ViewClass::box);           // x.expand(2, 3)
  EXPECT_EQ(plan({1}, {{4}, {0}}).cls, ViewClass::box);                 // one element, four times
  EXPECT_EQ(plan({24}, {{2, 3}, {12, 1}, 4}).cls, ViewClass::box);      // x.view(2, 12)[:, 4:7]
  EXPECT_EQ(plan({4, 4}, {{4}, {5}}).cls, ViewClass::gather);           // x.diagonal()
  EXPECT_EQ(plan({6}, {{4, 3}, {1, 1}}).cls, ViewClass::gather);        // x.unfold(0, 3, 1): overlaps
  EXPECT_EQ(plan({8}, {{3, 4}, {2, 1}}).cls, ViewClass::gather);        // overlaps
  EXPECT_EQ(plan({4, 6}, {{2, 4}, {6, 1}, 4}).cls, ViewClass::gather);  // runs over the end of a row
  EXPECT_EQ(plan({4, 6}, {{2, 4}, {6, 1}, 2}).cls, ViewClass::box);     // does not
}

TEST(View, LastElementsAreReached) {
  for (int64_t n : {1, 2, 7})
    for (int64_t step = 1; step <= 3; ++step)
      for (int64_t start = 0; start < n; ++start)
        for (int64_t size = 1; start + (size - 1) * step < n; ++size) {
          expect_right({n}, {{size}, {step}, start});
          expect_right({3, n}, {{3, size}, {n, step}, start});
          expect_right({n, 3}, {{size, 3}, {3 * step, 1}, 3 * start});
        }
}

TEST(View, RandomViewsReadTheElementsOfStridedIndexing) {
  Draw draw(1);
  int classes[5] = {};
  for (int i = 0; i < 20000 && !::testing::Test::HasFailure(); ++i) {
    const Dims base = draw.dims(4, 6);
    const Strided v = draw.any(base);
    expect_right(base, v);
    ++classes[static_cast<int>(plan(base, v).cls)];
  }
  for (int n : classes) EXPECT_GT(n, 200) << "the draw hardly meets a class";
}

TEST(View, IndexingIsNeverAGather) {
  Draw draw(2);
  for (int i = 0; i < 20000 && !::testing::Test::HasFailure(); ++i) {
    const Dims base = draw.dims(4, 7);
    const Strided v = draw.indexed(base);
    expect_right(base, v);
    EXPECT_NE(plan(base, v).cls, ViewClass::gather) << describe(base, v);
  }
}

void expect_same_axes(const ViewPlan& p, const ViewPlan& q) {
  ASSERT_EQ(p.count, q.count);
  for (int k = 0; k < p.count; ++k) {
    EXPECT_EQ(p.axes[k].extent, q.axes[k].extent);
    EXPECT_EQ(p.axes[k].size, q.axes[k].size);
    EXPECT_EQ(p.axes[k].step, q.axes[k].step);
    EXPECT_EQ(p.axes[k].dim, q.axes[k].dim);
  }
}

// A program's key has the class, sizes and strides, not the axes: they must follow from these.
TEST(View, AxesDependOnTheClassAndTheGeometryAlone) {
  Draw draw(5);
  int several = 0;
  for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
    const Dims base = draw.dims(3, 6);
    Strided v = draw.chance(50) ? draw.any(base) : draw.as_strided(numel(base));
    v.offset = 0;
    if (numel(v.sizes) == 0) continue;
    const std::vector<int64_t> reach = positions(v);
    const int64_t last = *std::max_element(reach.begin(), reach.end());
    std::optional<ViewPlan> first;
    for (; v.offset + last < numel(base); ++v.offset) {
      const ViewPlan p = plan(base, v);
      if (p.cls != ViewClass::box) continue;
      SCOPED_TRACE(describe(base, v));
      if (first)
        ++several, expect_same_axes(p, *first);
      else
        first = p;
    }
  }
  EXPECT_GT(several, 3000);
}

// The starts are runtime operands: a loop over them must not meet a second plan.
TEST(View, PlanIsTheSameForEveryStart) {
  Draw draw(3);
  for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
    Dims base = draw.dims(3, 7);
    for (int64_t& n : base) n = std::max<int64_t>(n, 1);
    Strided v = Draw::whole(base);
    Dims free(base.size());  // how far each dimension's start can move
    for (size_t k = 0; k < base.size(); ++k) {
      const int64_t step = draw.pick(1, 3), size = draw.pick(1, (base[k] - 1) / step + 1);
      free[k] = base[k] - ((size - 1) * step + 1);
      v.sizes[k] = size, v.strides[k] *= step;
    }
    const ViewPlan first = plan(base, v);
    for (int moved = 0; moved < 6; ++moved) {
      v.offset = 0;
      for (size_t k = 0; k < base.size(); ++k) v.offset += draw.pick(0, free[k]) * contiguous_strides(base)[k];
      const ViewPlan p = plan(base, v);
      SCOPED_TRACE(describe(base, v));
      ASSERT_EQ(p.cls, first.cls);
      if (p.cls == ViewClass::box) expect_same_axes(p, first);
    }
  }
}

TEST(View, ReinterpretedStorageIsFlat) {
  EXPECT_EQ(plan({99, 99}, {{8}, {1}}, 8).cls, ViewClass::whole);
  EXPECT_EQ(plan({99, 99}, {{2, 4}, {4, 1}}, 8).cls, ViewClass::reshape);
  Draw draw(4);
  for (int i = 0; i < 5000 && !::testing::Test::HasFailure(); ++i) {
    const Dims base = draw.dims(3, 6);
    expect_right({99, 99}, draw.any(base), numel(base));
  }
}

TEST(View, ManyDimensions) {
  const Dims twos(20, 2);
  Strided v = Draw::whole(twos);
  EXPECT_EQ(plan(twos, v).cls, ViewClass::whole);
  std::swap(v.strides[0], v.strides[19]);  // more movements than a box has axes
  EXPECT_EQ(plan(twos, v).cls, ViewClass::gather);
  const Dims ones(40, 1);
  EXPECT_EQ(plan(ones, {{1, 1}, {1, 1}}).cls, ViewClass::reshape);
  EXPECT_EQ(plan({7}, {Dims(64, 1), Dims(64, 1), 3}).cls, ViewClass::box);
}

}  // namespace
}  // namespace torchport::graph
