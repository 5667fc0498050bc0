// How a strided tensor lies in its storage's dense value. The class and the geometry are part of a program's key; the
// starts are runtime operands, so a loop over x[i] compiles once.
#pragma once
#include <cstdint>

namespace torchport::graph {

enum class ViewClass : uint8_t {
  whole,    // the value as it is
  reshape,  // all elements in order, other dims
  box,      // a rectangular (maybe strided) block of the value seen through `axes`, permuted and broadcast
  gather,   // anything else: flat indices
  empty,    // no elements
};

// The axes of a box are a factorisation of the flat value, outermost first; one element of `starts` belongs to each.
struct Axis {
  int64_t extent;  // size of this axis in the factorised value
  int64_t size;    // elements the view takes
  int64_t step;    // distance between them along this axis
  int dim;         // which dimension of the view, -1 when the view takes one element and shows no dimension
};

constexpr int kMaxAxes = 16;

struct ViewPlan {
  ViewClass cls = ViewClass::whole;
  int count = 0;  // axes of a box
  Axis axes[kMaxAxes];
  int64_t starts[kMaxAxes];  // per axis; gather: starts[0] is the storage offset
  // An axis that is taken whole always starts at 0 and needs no operand.
  bool has_start(int i) const { return axes[i].size * axes[i].step - (axes[i].step - 1) != axes[i].extent; }
};

struct Span {
  const int64_t* data;
  int rank;
  int64_t operator[](int i) const { return data[i]; }
};

// base: dims of the dense value, counted in elements of the view's dtype when flat_numel >= 0 (reinterpreted storage:
// then base dims are ignored and the value is flat).
void plan_view(Span base, int64_t flat_numel, Span sizes, Span strides, int64_t offset, ViewPlan& plan);

}  // namespace torchport::graph
