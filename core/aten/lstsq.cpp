// Least squares, from the factors that linalg has: QR for the driver gels, the singular values for the others.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <limits>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

using at::Tensor;

// A solution of full rank: by QR of A, or of its adjoint where A is wide.
Tensor by_qr(const Tensor& a, const Tensor& b) {
  if (a.size(-2) >= a.size(-1)) {
    const auto [q, r] = at::linalg_qr(a, "reduced");
    return at::linalg_solve_triangular(r, at::matmul(q.mH(), b), /*upper=*/true);
  }
  const auto [q, r] = at::linalg_qr(a.mH(), "reduced");
  return at::matmul(q, at::linalg_solve_triangular(r.mH(), b, /*upper=*/false));
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> lstsq_out(const Tensor& self, const Tensor& other,
                                                         std::optional<double> rcond,
                                                         std::optional<std::string_view> driver, Tensor& solution,
                                                         Tensor& residuals, Tensor& rank, Tensor& singular_values) {
  guarded([&] {
    const std::string where = "linalg_lstsq", name(driver.value_or("gelsy"));
    check(self.dim() >= 2, Code::bad_value, where,
          ::torchport::str("input.dim() must be greater or equal to 2, got ", self.dim()));
    check(other.dim() >= 1, Code::bad_value, where,
          ::torchport::str("other.dim() must be greater or equal to 1, got ", other.dim()));
    check(self.scalar_type() == other.scalar_type(), Code::bad_value, where,
          ::torchport::str("must get two tensors of one dtype, got ", c10::toString(self.scalar_type()), " and ",
                           c10::toString(other.scalar_type())));
    check(name == "gels" || name == "gelsy" || name == "gelsd" || name == "gelss", Code::bad_value, where,
          ::torchport::str("parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got ", name));
    // one right-hand side a matrix, without a dimension of its own
    const bool vector =
        other.dim() == 1 || (self.dim() - 1 == other.dim() && other.sizes() == self.sizes().slice(0, self.dim() - 1));
    const Tensor b = vector ? other.unsqueeze(-1) : other;
    const int64_t m = self.size(-2), n = self.size(-1);
    check(b.dim() >= 2 && b.size(-2) == m, Code::bad_value, where,
          ::torchport::str("input.size(-2) should match other.size(-2), got ", text(self.sizes().vec()), " and ",
                           text(other.sizes().vec())));
    const auto real = self.options().dtype(c10::toRealValueType(self.scalar_type()));
    Tensor x, values = at::empty({0}, real), found = at::empty({0}, self.options().dtype(at::kLong));
    if (name == "gels") {
      x = by_qr(self, b);
    } else {
      const auto [u, s, vh] = at::linalg_svd(self, /*full_matrices=*/false);
      const double eps = self.scalar_type() == at::kDouble || self.scalar_type() == at::kComplexDouble
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
      const double cut = rcond.value_or(eps * static_cast<double>(std::max(m, n)));
      const bool empty = s.size(-1) == 0;
      const Tensor kept = empty ? s.gt(0) : s.gt(s.narrow(-1, 0, 1).mul(cut < 0 ? eps : cut));
      const Tensor inverse = at::where(kept, s.reciprocal(), at::zeros_like(s)).to(self.scalar_type());
      x = at::matmul(vh.mH(), at::matmul(u.mH(), b).mul(inverse.unsqueeze(-1)));
      found = kept.sum(-1);
      if (name != "gelsy") values = s;
    }
    Tensor rest = at::empty({0}, real);
    // LAPACK's gelsy gives none; the others only where every matrix has full rank
    if (m > n && name != "gelsy" && (name == "gels" || found.eq(n).all().item<bool>())) {
      const Tensor gap = at::matmul(self, x).sub(b);
      rest = gap.abs().square().sum(-2);
    }
    if (solution.numel() == 0) {  // columns one after the other, with the room that LAPACK solves in
      const Tensor columns = at::constant_pad_nd(x.mT(), {0, std::max(m, n) - n}).narrow(-1, 0, n).mT();
      solution.set_(vector ? columns.squeeze(-1) : columns);
    } else {
      store_out(solution, vector ? x.squeeze(-1) : x, where);
    }
    store_out(residuals, rest, where);
    store_out(rank, found, where), store_out(singular_values, values, where);
  });
  return {solution, residuals, rank, singular_values};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("linalg_lstsq.out", TORCH_FN(lstsq_out)); }

}  // namespace torchport::aten
