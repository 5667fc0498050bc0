// Gated linear unit: one half of the tensor gates the other.
#include "ops/math.h"

namespace torchport::ops {

struct Halves {
  int64_t dim = 0;
  Value left, right;
};
static Halves halves(Builder& b, Args& a, const char* name) {
  const Value x = a.tensor(name);
  a.check(x.rank() > 0, Code::bad_value, "must get a tensor with dimensions, got 0-dimensional");
  const int64_t dim = a.dim("dim", x), n = x.dim(dim);
  a.check(n % 2 == 0, Code::bad_value,
          str("the halved dimension must have an even size, got ", n, " at dimension ", dim));
  return {dim, b.slice_dim(x, dim, 0, n / 2), b.slice_dim(x, dim, n / 2, n)};
}

OP("glu", Promote::same, "", kOpmath) {
  const Halves x = halves(b, a, "self");
  return b.mul(x.left, b.sigmoid(x.right));
}
OP("glu_backward", Promote::same, "", kOpmath) {
  const Halves x = halves(b, a, "self");
  const Value g = a.tensor("grad_output"), s = b.sigmoid(x.right), gs = b.mul(g, s);
  return b.concatenate({gs, b.mul(b.mul(gs, b.rsub(1, s)), x.left)}, x.dim);
}
OP("glu_jvp", Promote::same, "", kOpmath) {
  const Halves x = halves(b, a, "x"), dx = halves(b, a, "dx");
  const Value s = b.sigmoid(x.right);
  return b.add(b.mul(dx.left, s), b.mul(b.mul(a.tensor("glu"), b.rsub(1, s)), dx.right));
}
OP("glu_backward_jvp", Promote::same, "", kOpmath) {
  const Halves x = halves(b, a, "x"), dx = halves(b, a, "dx");
  const Value g = a.tensor("grad_glu"), dg = a.tensor("dgrad_glu"), s = b.sigmoid(x.right),
              slope = b.mul(s, b.rsub(1, s));
  const Value ds = b.mul(slope, dx.right), dslope = b.mul(ds, b.rsub(1, b.mul(s, 2)));
  const Value first = b.add(b.mul(dg, s), b.mul(g, ds));
  const Value second =
      b.add(b.mul(b.mul(dg, x.left), slope), b.mul(g, b.add(b.mul(dx.left, slope), b.mul(x.left, dslope))));
  return b.concatenate({first, second}, x.dim);
}

}  // namespace torchport::ops
