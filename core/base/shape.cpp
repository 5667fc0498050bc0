#include "base/shape.h"

#include "base/error.h"

namespace torchport {

int64_t numel(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}
int64_t Type::numel() const { return torchport::numel(dims); }

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i] > 0 ? dims[i] : 1;
  }
  return strides;
}

std::string text(const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? ", " : "") + std::to_string(dims[i]);
  return s + "]";
}
std::string text(const Type& t) {
  std::string s(name(t.dtype));
  s += "[";
  for (size_t i = 0; i < t.dims.size(); ++i) s += (i ? "," : "") + std::to_string(t.dims[i]);
  return s + "]";
}

Dims broadcast(const Dims& a, const Dims& b, const std::string& where) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    check(x == y || x == 1 || y == 1, Code::shape_mismatch, where,
          str("shapes must broadcast, got ", text(a), " and ", text(b), " (sizes ", x, " and ", y, " at dimension ", i,
              ")"));
    out[i] = x == 1 ? y : x;
  }
  return out;
}

int64_t wrap_dim(int64_t dim, int64_t rank, const std::string& where) {
  const int64_t n = rank == 0 ? 1 : rank;
  check(dim >= -n && dim < n, Code::dim_out_of_range, where,
        str("dim must be in [", -n, ", ", n - 1, "] (Dimension out of range), got ", dim));
  return dim < 0 ? dim + n : dim;
}

}  // namespace torchport
