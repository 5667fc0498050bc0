// StableHLO for reading a dense value through a strided view, and for writing through one.
#pragma once
#include <functional>

#include "graph/graph.h"
#include "hlo/builder.h"

namespace torchport::exec {

// The i-th start of a view as a 0-d i64 value; the caller knows whether it is a constant or a runtime operand.
using StartSource = std::function<hlo::Value(int i)>;

// Elements of dtype `as` in the storage of `base`, flat, when base has another dtype; base itself otherwise.
hlo::Value reinterpret(hlo::Builder&, const hlo::Value& base, Dtype as);
// The value seen through the view, with dims view.sizes.
hlo::Value read_view(hlo::Builder&, const hlo::Value& base, const graph::View&, const StartSource&);
// base with `value` (of view.sizes and view.dtype) written through the view.
hlo::Value write_view(hlo::Builder&, const hlo::Value& base, const graph::View&, const hlo::Value& value,
                      const StartSource&);

// How many runtime starts the view takes (those of a box that are not fixed at 0; one for gather).
int count_starts(const graph::ViewPlan&);
void plan(const Type& base, const graph::View&, graph::ViewPlan&);

}  // namespace torchport::exec
