// Shapes of the cold path (tracing, lowering). The launch path works on spans and fixed arrays instead.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace torchport {

using Dims = std::vector<int64_t>;

struct Type {
  Dtype dtype = Dtype::f32;
  Dims dims;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t numel() const;
  bool operator==(const Type&) const = default;
};

int64_t numel(const Dims&);
Dims contiguous_strides(const Dims&);
std::string text(const Dims&);  // "[3, 4]"
std::string text(const Type&);  // "f32[3,4]"

// torch's broadcasting; throws Error (where names the op) when a pair of sizes does not fit.
Dims broadcast(const Dims&, const Dims&, const std::string& where);
// Wraps a negative dim; IndexError outside [-rank, rank-1]. A 0-d tensor counts as rank 1.
int64_t wrap_dim(int64_t dim, int64_t rank, const std::string& where);

}  // namespace torchport
