// Views are metadata: torch's own implementations over our storages. Everything else that is a view decomposes to
// these.
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "aten/kernel.h"
#include "aten/storage.h"

namespace torchport::aten {

namespace {

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

// A storage's bytes change in number: the dense value is cut or padded with zeros.
void resize_cell(c10::StorageImpl* storage, size_t bytes) {
  if (storage->nbytes() == bytes) return;
  check(static_cast<int64_t>(bytes) >= 0, Code::bad_value, "resize_",
        ::torchport::str("bytes must not be negative, got ", static_cast<int64_t>(bytes)));
  Cell& cell = cell_of(*storage);
  size_t item = size_of(cell.dtype);
  if (bytes % item != 0) {
    retype(cell, Dtype::u8, {static_cast<int64_t>(storage->nbytes())});
    item = 1;
  }
  const int64_t n = static_cast<int64_t>(bytes / item);
  if (cell.buffer) {
    const int64_t old = cell.numel(), kept = std::min(old, n);
    at::Tensor fresh = make_tensor({}, cell.dtype, {n}, cell.device);
    if (kept > 0)
      copy_on_device(fresh.narrow(0, 0, kept),
                     make_tensor(cell.buffer, cell.dtype, {old}, cell.device).narrow(0, 0, kept));
    cell.buffer = cell_of(fresh).buffer;
  }
  cell.dims.assign(1, n);
  storage->set_nbytes(bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  return guarded([&]() -> const at::Tensor& {
    const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
    for (int64_t s : sizes)
      check(s >= 0, Code::bad_value, "resize_",
            ::torchport::str("sizes must not be negative, got ", text(sizes.vec())));
    auto* impl = self.unsafeGetTensorImpl();
    if (!(self.sizes() == sizes)) {
      impl->set_sizes_contiguous(sizes);
      const size_t bytes =
          at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
      c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
      Cell& cell = cell_of(*storage);
      const int64_t item = static_cast<int64_t>(self.itemsize());
      exec::Runtime::get()
          .device(cell.device)
          .reserve(static_cast<int64_t>(bytes) - static_cast<int64_t>(storage->nbytes()), "resize_");
      if (!cell.buffer && self.storage_offset() == 0 &&
          bytes > storage->nbytes()) {  // nothing stored: take the new shape
        cell.dtype = from_torch(self.scalar_type());
        cell.dims.assign(sizes.begin(), sizes.end());
        storage->set_nbytes(static_cast<size_t>(cell.numel() * item));
      } else if (bytes > storage->nbytes()) {
        resize_cell(storage, bytes);
      }
    }
    if (format) impl->empty_tensor_restride(*format);
    return self;
  });
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  return guarded([&]() -> at::Tensor& {
    at::native::checkSetStorage(self, source, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(size),
                                C10_AS_INTARRAYREF_SLOW(stride), /*check_offset_in_bounds=*/false);
    self.unsafeGetTensorImpl()->set_storage_offset(offset.expect_int());
    const auto sizes = C10_AS_INTARRAYREF_SLOW(size), strides = C10_AS_INTARRAYREF_SLOW(stride);
    if (strides.data() == nullptr)
      self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    else
      self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    const size_t bytes =
        at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
    c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
    if (self.numel() > 0 && bytes > storage->nbytes()) resize_cell(storage, bytes);
    // A storage that was born as bytes (torch.load) takes the type of the first tensor that shows all of it.
    Cell& cell = cell_of(*storage);
    const Dtype d = from_torch(self.scalar_type());
    if (cell.dtype == Dtype::u8 && d != Dtype::u8 && offset == 0 && self.is_contiguous() &&
        storage->nbytes() == static_cast<size_t>(self.numel()) * size_of(d))
      retype(cell, d, self.sizes());
    return self;
  });
}
at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const int64_t n = static_cast<int64_t>(source.nbytes() / self.itemsize());
  const c10::SymInt size(n), stride(1);
  return set_storage(self, std::move(source), 0, c10::SymIntArrayRef(&size, 1), c10::SymIntArrayRef(&stride, 1));
}
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sym_sizes(), source.sym_strides());
}
at::Tensor& set_empty(at::Tensor& self) {
  const c10::SymInt zero(0), one(1);
  return set_storage(self, make_storage({}, from_torch(self.scalar_type()), {0}, cell_of(self).device), 0,
                     c10::SymIntArrayRef(&zero, 1), c10::SymIntArrayRef(&one, 1));
}
bool is_set_to(const at::Tensor& self, const at::Tensor& src) {
  return self.storage().unsafeGetStorageImpl() == src.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == src.storage_offset() && self.sizes() == src.sizes() &&
         self.strides() == src.strides();
}

// Whether `self.data = from` may be: yes between dense tensors here and on the CPU, so that module.to(device) keeps its
// Parameter objects, as it does for CUDA.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](c10::DispatchKeySet keys) {
    constexpr c10::DispatchKeySet backends({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
    return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(backends);
  };
  return self.key_set() == from.key_set() || (dense(self.key_set()) && dense(from.key_set()));
}

}  // namespace

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  guarded([&] { resize_cell(storage, bytes); });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Storage", TORCH_FN(set_source_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace torchport::aten
