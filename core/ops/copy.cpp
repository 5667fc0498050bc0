// The value of one tensor in the shape and dtype of another.
#include "ops/op.h"

namespace torchport::ops {

OP("copy", Promote::none) {
  const Value self = a.tensor("self"), src = a.tensor("src");
  return b.broadcast_to(b.cast(src, self.dtype()), self.dims());
}

// Eager shares buffers instead (aten/copy.cpp); these serve compiled graphs, where every value is dense and immutable.
OP("clone", Promote::none, "", false, kGraphOnly) { return a.tensor("self"); }
OP("_to_copy", Promote::none, "", false, kGraphOnly) {
  const Value self = a.tensor("self");
  return b.cast(self, a.dtype("dtype", self.dtype()));
}

}  // namespace torchport::ops
