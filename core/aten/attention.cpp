// Which way scaled_dot_product_attention goes on the device: the fused block where its shapes fit, else PyTorch's
// composite.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>

#include "aten/generator.h"

namespace at::native {

namespace {

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                         double dropout, bool is_causal, std::optional<double>, bool enable_gqa) {
  const auto math = static_cast<int64_t>(at::SDPBackend::math);
  if (!at::globalContext().userEnabledOverrideableSDP()) return math;
  // The composite draws its mask as on the CPU.
  if (dropout > 0 && torchport::aten::draws() == torchport::aten::Draws::cpu) return math;
  for (const Tensor* t : {&query, &key, &value})
    if (t->is_nested() || t->dim() != 4 || !t->is_floating_point() || t->scalar_type() != query.scalar_type() ||
        t->sym_numel() == 0)
      return math;
  if (is_causal && mask.has_value() && mask->defined()) return math;  // it raises PyTorch's error
  if (key.sym_size(0) != query.sym_size(0) || value.sym_size(0) != query.sym_size(0) ||
      key.sym_size(1) != value.sym_size(1))
    return math;
  if (key.sym_size(2) != value.sym_size(2) || key.sym_size(3) != query.sym_size(3)) return math;
  if (enable_gqa ? query.sym_size(1) % key.sym_size(1) != 0 : query.sym_size(1) != key.sym_size(1)) return math;
  return static_cast<int64_t>(at::SDPBackend::overrideable);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

}  // namespace at::native
