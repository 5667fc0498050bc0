// The value of one tensor in the shape and dtype of another.
#include "ops/op.h"

namespace torchport::ops {

OP("copy", Promote::none) {
  const Value self = a.tensor("self"), src = a.tensor("src");
  return b.broadcast_to(b.cast(src, self.dtype()), self.dims());
}

}  // namespace torchport::ops
