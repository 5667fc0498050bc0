// Between host and device, between devices, and single values.
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/neg.h>
#include <torch/library.h>

#include "aten/kernel.h"
#include "trace/launch.h"

namespace torchport::aten {

namespace {

bool shows_all(const at::Tensor& t, const Cell& cell) {
  return from_torch(t.scalar_type()) == cell.dtype && t.storage_offset() == 0 && t.is_contiguous() &&
         t.numel() == cell.numel();
}

// The tensor without lazy conjugate and negative bits.
at::Tensor plain(const at::Tensor& t) {
  if (t.is_conj()) return plain(at::conj_physical(at::_conj(t)));
  if (t.is_neg()) return at::neg(at::_neg_view(t));
  return t;
}

// A storage with the tensor's elements and no others, in row-major order: its own, or a copy.
at::Tensor whole(const at::Tensor& t) {
  Cell& cell = cell_of(t);
  if (shows_all(t, cell)) {
    buffer_of(cell);
    return t;
  }
  at::Tensor dense = make_tensor({}, from_torch(t.scalar_type()), t.sizes(), cell.device);
  copy_on_device(dense, t);
  return dense;
}

// A tensor over a buffer whose own dims may differ from sizes.
at::Tensor share(pjrt::BufferPtr buffer, const Cell& like, at::IntArrayRef sizes, int device) {
  at::Tensor t = make_tensor(std::move(buffer), like.dtype, like.dims, device);
  t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

void to_host(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor expanded = dst.sizes() == src.sizes() ? src : src.expand(dst.sizes());
  const at::Tensor dense_src =
      whole(expanded.scalar_type() == dst.scalar_type() ? expanded : expanded.to(dst.scalar_type()));
  const pjrt::BufferPtr value = cell_of(dense_src).buffer;
  trace::poll(cell_of(dense_src).device);
  exec::Runtime::get().counters.host_syncs.fetch_add(1, std::memory_order_relaxed);
  if (dst.is_contiguous()) {
    if (dst.numel() > 0) value->to_host(dst.mutable_data_ptr(), dst.nbytes());
    return;
  }
  at::Tensor dense = at::empty(dst.sizes(), dst.options().pinned_memory(false), at::MemoryFormat::Contiguous);
  if (dense.numel() > 0) value->to_host(dense.mutable_data_ptr(), dense.nbytes());
  dst.copy_(dense);
}

void to_device(const at::Tensor& dst, const at::Tensor& src) {
  Cell& cell = cell_of(dst);
  const at::Tensor host = (src.scalar_type() == dst.scalar_type() ? src : src.to(dst.scalar_type())).contiguous();
  auto& runtime = exec::Runtime::get();
  const Dtype d = from_torch(host.scalar_type());
  auto& device = runtime.device(cell.device);
  device.reserve(static_cast<int64_t>(host.nbytes()), "copy to device");
  const pjrt::BufferPtr value =
      runtime.client().to_device(host.const_data_ptr(), d, host.sizes().data(), host.sizes().size(), device);
  if (shows_all(dst, cell) && host.sizes() == dst.sizes()) {
    cell.buffer = value;
    cell.dims.assign(dst.sizes().begin(), dst.sizes().end());
  } else {
    copy_on_device(dst, make_tensor(value, d, host.sizes(), cell.device));
  }
}

void between_devices(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor dense = whole(src);
  const Cell& from = cell_of(dense);
  auto& target = exec::Runtime::get().device(cell_of(dst).device);
  target.reserve(from.buffer->bytes(), "copy between devices");
  copy_on_device(dst, share(from.buffer->copy_to(target), from, src.sizes(), target.index()));
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  return guarded([&] {
    if (target.numel() == 0) {
      if (source.sizes() != target.sizes()) (void)source.expand(target.sizes());  // raises where it does not fit
      return target;
    }
    // Both keys fall through to here: the bits of the source are resolved, those of the target undone on the value.
    at::Tensor self = plain(source), dst = target;
    if (dst.is_conj()) dst = at::_conj(dst), self = at::conj_physical(self);
    if (dst.is_neg()) dst = at::_neg_view(dst), self = at::neg(self);
    if (!is_ours(dst))
      to_host(dst, self);
    else if (!is_ours(self))
      to_device(dst, self);
    else if (cell_of(self).device != cell_of(dst).device)
      between_devices(dst, self);
    else {
      at::assert_no_partial_overlap(dst, self);
      copy_on_device(dst, self);
    }
    return target;
  });
}
// Two views that are one and the same: copying does nothing, not even where elements share a place.
static bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (is_ours(b) && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() &&
                          a.strides().equals(b.strides()) && a.sizes().equals(b.sizes()) &&
                          a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg());
}

// What torch's own copy_ does for a device, without the detour through its tensor iterator.
at::Tensor& copy_into(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(src.defined(), "[copy_] source must be a tensor, got none (", tag(Code::bad_value), ")");
  if (src._is_zerotensor()) return self.zero_();
  if (!is_same_view(self, src)) copy_from(src, self, non_blocking);
  return self;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  return guarded([&]() -> at::Scalar {
    at::Tensor host =
        at::detail::empty_cpu({}, self.scalar_type(), c10::nullopt, c10::nullopt, c10::nullopt, c10::nullopt);
    to_host(host, self.dim() == 0 ? self : self.reshape({}));
    return host.item();
  });
}

// A clone of a whole storage shares its buffer: values are immutable, the copy happens when one of the two is written.
at::Tensor clone_of(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  return guarded([&]() -> at::Tensor {
    const Cell& cell = cell_of(self);
    const auto wanted = format.value_or(at::MemoryFormat::Preserve);
    if (self._is_zerotensor()) return at::empty_like(self, self.options(), wanted).zero_();
    if (self.is_conj() || self.is_neg()) return clone_of(plain(self), wanted);
    const bool keeps_order = wanted == at::MemoryFormat::Preserve || wanted == at::MemoryFormat::Contiguous;
    if (keeps_order && shows_all(self, cell)) return share(cell.buffer, cell, self.sizes(), cell.device);
    at::Tensor fresh = at::empty_like(self, self.options(), wanted);
    copy_on_device(fresh, self);
    return fresh;
  });
}

// A launch keeps what it reads, and every stream of a device is one queue.
void record_stream(at::Tensor&, c10::Stream) {}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() != other.sizes()) return false;
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "[equal] must get two tensors of one dtype (Expected object of data type ", self.scalar_type(),
              " but got ", other.scalar_type(), ") (", tag(Code::dtype_mismatch), ")");
  return self.eq(other).all().item<bool>();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_into));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("clone", TORCH_FN(clone_of));
  m.impl("equal", TORCH_FN(equal));
  m.impl("record_stream", TORCH_FN(record_stream));
}
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace torchport::aten
