#include "aten/cell.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "aten/kernel.h"
#include "exec/runtime.h"

namespace torchport::aten {

namespace {
thread_local int current = 0;
void delete_cell(void* p) { delete static_cast<Cell*>(p); }

c10::DataPtr data_ptr(Cell* cell) {
  // The address is only an identity: it tells storages apart, nobody may read through it.
  return {cell, cell, &delete_cell, c10::Device(kDevice, static_cast<c10::DeviceIndex>(cell->device))};
}
}  // namespace

int64_t Cell::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

int current_device() { return current; }
void set_current_device(int d) {
  exec::Runtime::get().device(d);  // throws when there is none
  current = d;
}
int exchange_current_device(int d) {
  const int old = current;
  if (d != old) set_current_device(d);
  return old;
}

bool is_ours(const at::Tensor& t) { return t.defined() && t.device().type() == kDevice; }

Cell& cell_of(const c10::StorageImpl& s) {
  const c10::DataPtr& p = const_cast<c10::StorageImpl&>(s)._mutable_data_ptr_no_checks();
  if (void* context = p.get_context(); context && p.get_deleter() == &delete_cell) [[likely]]
    return *static_cast<Cell*>(context);
  // torch wraps a storage's address once more when it writes files and for DLPack: the address is the cell.
  auto* cell = static_cast<Cell*>(p.get());
  check(cell && cell->magic == Cell::kMagic, Code::internal, "storage",
        "must be a storage of this device from its beginning, got another address");
  return *cell;
}
Cell& cell_of(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  if (!impl->has_storage() || impl->layout() != c10::kStrided) [[unlikely]]
    fail(Code::layout_unsupported, "tensor", ::torchport::str("must be a strided tensor, got layout ", impl->layout()),
         ".to_dense() first");
  return cell_of(*impl->unsafe_storage().unsafeGetStorageImpl());
}

c10::Storage make_storage(pjrt::BufferPtr buffer, Dtype dtype, at::IntArrayRef dims, int device) {
  auto* cell = new Cell;
  cell->buffer = std::move(buffer), cell->dtype = dtype, cell->dims.assign(dims.begin(), dims.end()),
  cell->device = static_cast<int16_t>(device);
  const size_t bytes = static_cast<size_t>(cell->numel()) * size_of(dtype);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, data_ptr(cell),
                                                            allocator(), /*resizable=*/true));
}

at::Tensor make_tensor(pjrt::BufferPtr buffer, Dtype dtype, at::IntArrayRef sizes, int device) {
  auto t = at::detail::make_tensor<c10::TensorImpl>(make_storage(std::move(buffer), dtype, sizes, device),
                                                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                    c10::scalarTypeToTypeMeta(to_torch(dtype)));
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

at::Tensor make_tensor(pjrt::BufferPtr buffer, Dtype dtype, at::IntArrayRef sizes, int device, at::IntArrayRef order) {
  if (order.empty()) [[likely]]
    return make_tensor(std::move(buffer), dtype, sizes, device);
  c10::SmallVector<int64_t, 8> dims, strides(sizes.size());
  for (int64_t d : order) dims.push_back(sizes[d]);
  int64_t next = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = next;
    next *= std::max<int64_t>(sizes[order[k]], 1);
  }
  at::Tensor t = make_tensor(std::move(buffer), dtype, dims, device);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

at::Tensor make_strided(Dtype dtype, at::IntArrayRef sizes, at::IntArrayRef strides, int device) {
  // Memory order: by stride, outermost first. Dense and without overlap it is the value's natural shape; else flat.
  c10::SmallVector<int64_t, 8> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  c10::SmallVector<int64_t, 8> dims;
  int64_t expect = 1;
  bool dense = true;
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t d = order[k];
    if (sizes[d] != 1 && strides[d] != expect) dense = false;
    expect *= sizes[d];
  }
  if (dense)
    for (int64_t d : order) dims.push_back(sizes[d]);
  else
    dims.push_back(static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, 1)));
  auto t = at::detail::make_tensor<c10::TensorImpl>(make_storage({}, dtype, dims, device),
                                                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                    c10::scalarTypeToTypeMeta(to_torch(dtype)));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

c10::DataPtr cell_data(size_t bytes, int device) {
  auto* cell = new Cell;
  cell->dims.assign(1, static_cast<int64_t>(bytes)), cell->device = static_cast<int16_t>(device);
  return data_ptr(cell);
}

pjrt::BufferPtr buffer_of(Cell& cell) {
  if (!cell.buffer) {
    graph::Graph g;
    g.inputs = {cell.type()};
    g.read = {false};
    g.values.resize(1);
    g.values[0].index = 0;
    g.values[0].view = {cell.dtype, g.inputs[0].dims, contiguous_strides(g.inputs[0].dims), 0, -1};
    g.results = {0};
    cell.buffer = run_graph("zeros", g, {}, cell.device)[0];
  }
  return cell.buffer;
}

void retype(Cell& cell, Dtype dtype, at::IntArrayRef dims) {
  const Dims wanted(dims.begin(), dims.end());
  if (cell.dtype == dtype && Dims(cell.dims.begin(), cell.dims.end()) == wanted) return;
  if (cell.buffer) {
    graph::Graph g;
    g.inputs = {cell.type()};
    g.values.resize(1);
    g.values[0].index = 0;
    g.values[0].view = {dtype, wanted, contiguous_strides(wanted), 0, -1};
    g.results = {0};
    cell.buffer = run_graph("retype", g, {cell.buffer}, cell.device)[0];
  }
  cell.dtype = dtype;
  cell.dims.assign(wanted.begin(), wanted.end());
}

}  // namespace torchport::aten
