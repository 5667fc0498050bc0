// Autocast: PyTorch's own casts and its policy lists, bound to this backend's key. bf16 or fp16 is the caller's choice.
#include <ATen/autocast_mode.h>

#include "base/error.h"

namespace {

// In fp16 a sigmoid rounds to 0 or 1, whose logarithm is infinite: PyTorch refuses this loss on every accelerator.
at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                       int64_t) {
  const torchport::Error error(torchport::Code::bad_value, "binary_cross_entropy",
                               "must not run under autocast: binary_cross_entropy and BCELoss are unsafe to autocast",
                               "binary_cross_entropy_with_logits or BCEWithLogitsLoss, without the sigmoid before it");
  TORCH_CHECK(false, error.what());
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at;  // the lists name types as at:: does
#define LOWER_PRECISION_FP(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION_FP)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}
