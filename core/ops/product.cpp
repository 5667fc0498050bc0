#include "ops/product.h"

namespace torchport::ops {

Value product(Builder& b, const Value& x, bool transpose_x, const Value& y, bool transpose_y) {
  const int64_t r = x.rank();
  Dims batch;
  for (int64_t i = 0; i < r - 2; ++i) batch.push_back(i);
  return b.dot_general(x, y, batch, batch, {transpose_x ? r - 2 : r - 1}, {transpose_y ? r - 1 : r - 2},
                       opmath(x.dtype()));
}
Value product(Builder& b, const Value& x, const Value& y) { return product(b, x, false, y, false); }

Value contract_axis(Builder& b, const Value& x, const Value& matrix, int64_t dim) {
  const Value r = b.dot_general(x, matrix, {}, {}, {dim}, {0}, opmath(x.dtype()));  // the new dimension comes last
  Dims perm;
  for (int64_t i = 0; i < dim; ++i) perm.push_back(i);
  perm.push_back(x.rank() - 1);
  for (int64_t i = dim; i < x.rank() - 1; ++i) perm.push_back(i);
  return b.transpose(r, perm);
}

Value take(Builder& b, const Value& x, const Value& indices, int64_t dim) {
  hlo::GatherDims g;
  Dims sizes = x.dims();
  sizes[dim] = 1;
  const int64_t added = indices.rank();
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) g.offset_dims.push_back(i < dim ? i : i - 1 + added);
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = added;
  return b.gather(x, indices, g, sizes);
}

Value conj(Builder& b, const Value& x) { return is_complex(x.dtype()) ? b.complex(b.real(x), b.neg(b.imag(x))) : x; }

}  // namespace torchport::ops
