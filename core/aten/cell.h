// A storage of the device: a mutable cell that holds an immutable buffer. Tensors are torch's own sizes, strides and
// offset over it, so every alias sees what an in-place op swaps in.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/util/SmallVector.h>

#include "aten/torch_types.h"
#include "pjrt/buffer.h"

namespace torchport::aten {

struct Cell {
  static constexpr uint64_t kMagic = 0x746f726368706f72;
  const uint64_t magic = kMagic;      // first, so that an address can be told from one that is no cell
  pjrt::BufferPtr buffer;             // null: nothing was ever written; reads as zeros
  Dtype dtype = Dtype::u8;            // of the dense value
  c10::SmallVector<int64_t, 5> dims;  // of the dense value
  int16_t device = 0;

  int64_t numel() const;
  Type type() const { return {dtype, Dims(dims.begin(), dims.end())}; }
};

// The cell behind a tensor of this device. Error when the tensor has no storage of ours.
Cell& cell_of(const at::Tensor&);
Cell& cell_of(const c10::StorageImpl&);
bool is_ours(const at::Tensor&);

c10::Storage make_storage(pjrt::BufferPtr, Dtype, at::IntArrayRef dims, int device);
// A new contiguous tensor over its own storage.
at::Tensor make_tensor(pjrt::BufferPtr, Dtype, at::IntArrayRef sizes, int device);
// order: the dimensions from outermost to innermost in the buffer.
at::Tensor make_tensor(pjrt::BufferPtr, Dtype, at::IntArrayRef sizes, int device, at::IntArrayRef order);
// The same with strides: the value is dense in memory order `dims`, which sizes and strides see permuted.
at::Tensor make_strided(Dtype, at::IntArrayRef sizes, at::IntArrayRef strides, int device);

// Gives the cell a buffer of zeros when it has none, and returns it.
pjrt::BufferPtr buffer_of(Cell&);
// The data pointer of a new cell of bytes.
c10::DataPtr cell_data(size_t bytes, int device);
// Changes the dense value's dtype and dims without changing its bytes, so that a tensor of this type reads it whole.
void retype(Cell&, Dtype, at::IntArrayRef dims);

// torch's allocator of the device: storages born as bytes, and the memory statistics.
c10::Allocator* allocator();
int current_device();
void set_current_device(int);
int exchange_current_device(int);

}  // namespace torchport::aten
