#include "aten/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <chrono>
#include <cstring>
#include <mutex>

#include "aten/generator.h"
#include "aten/kernel.h"
#include "base/env.h"
#include "trace/launch.h"

namespace torchport::aten {

namespace {

constexpr size_t kMaxLines = 8;
std::mutex ledger_mutex;
std::map<std::string, FallbackCount> ledger;

// A device storage's copy on the host; tensors over it keep their sizes, strides, offset and aliasing.
struct Mirror {
  c10::StorageImpl* device;
  at::Tensor bytes;             // u8, the whole storage
  std::vector<uint8_t> before;  // content when only a comparison tells whether the kernel wrote it
  bool written = false;
};

class Fallback {
 public:
  Fallback(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), schema_(op.schema()), stack_(stack) {}

  void run() {
    const size_t count = schema_.arguments().size(), first = stack_.size() - count;
    const std::vector<c10::IValue> originals(stack_.begin() + static_cast<int64_t>(first), stack_.end());
    for (size_t k = 0; k < count; ++k) stack_[first + k] = to_host(originals[k], schema_.arguments()[k]);
    if (device_ < 0) device_ = current_device();
    {
      const SeededHost seeded(*this);
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    write_back();
    const size_t returns = schema_.returns().size(), base = stack_.size() - returns;
    for (size_t k = 0; k < returns; ++k) stack_[base + k] = to_device(stack_[base + k], originals);
  }

  int64_t bytes() const { return bytes_; }

 private:
  // Kernels that write these although their schema does not say so.
  static bool hidden_write(const std::string& name) {
    return name == "running_mean" || name == "running_var" || name == "noise";
  }

  c10::IValue to_host(const c10::IValue& v, const c10::Argument& arg) {
    const bool written = arg.alias_info() && arg.alias_info()->isWrite();
    if (v.isTensor()) return host(v.toTensor(), written, hidden_write(arg.name()));
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorList()) list.push_back(host(t, written, false));
      return list;
    }
    if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
        list.push_back(t ? std::optional(host(*t, written, false)) : std::nullopt);
      return list;
    }
    if (v.isDevice() && v.toDevice().type() == kDevice) {
      if (v.toDevice().has_index()) device_ = v.toDevice().index();
      wants_device_ = true;
      return c10::Device(c10::kCPU);
    }
    if (v.isGenerator() && v.toGenerator().device().type() == kDevice) {
      generator_ = v.toGenerator();
      return host_generator(&generator_);
    }
    return v;
  }

  at::Tensor host(const at::Tensor& t, bool written, bool compare) {
    if (!t.defined() || t.device().type() != kDevice) return t;
    Cell& cell = cell_of(t);
    if (device_ < 0) device_ = cell.device;
    wants_device_ = true;
    c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
    Mirror* mirror = nullptr;
    for (Mirror& m : mirrors_)
      if (m.device == storage) mirror = &m;
    if (!mirror) {
      at::Tensor raw = at::detail::empty_cpu({static_cast<int64_t>(storage->nbytes())}, at::kByte, c10::nullopt,
                                             c10::nullopt, c10::nullopt, c10::nullopt);
      if (storage->nbytes() > 0) {
        if (cell.buffer) {
          trace::poll(cell.device);
          cell.buffer->to_host(raw.mutable_data_ptr(), storage->nbytes());
          bytes_ += static_cast<int64_t>(storage->nbytes());
        } else {
          std::memset(raw.mutable_data_ptr(), 0, storage->nbytes());
        }
      }
      mirrors_.push_back({storage, raw, {}, false});
      mirror = &mirrors_.back();
    }
    mirror->written |= written;
    if (compare && mirror->before.empty()) {
      const auto* p = mirror->bytes.const_data_ptr<uint8_t>();
      mirror->before.assign(p, p + storage->nbytes());
    }
    at::Tensor h = at::detail::empty_cpu({0}, t.scalar_type(), c10::nullopt, c10::nullopt, c10::nullopt, c10::nullopt);
    h.unsafeGetTensorImpl()->set_storage_keep_dtype(mirror->bytes.storage());
    h.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
    h.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) h.unsafeGetTensorImpl()->set_wrapped_number(true);
    pairs_.push_back({t, h, written});
    return h;
  }

  void write_back() {
    for (Mirror& m : mirrors_) {
      const auto* p = m.bytes.const_data_ptr<uint8_t>();
      if (!m.before.empty()) m.written |= std::memcmp(p, m.before.data(), m.before.size()) != 0;
      if (!m.written || m.device->nbytes() == 0) continue;
      Cell& cell = cell_of(*m.device);
      auto& runtime = exec::Runtime::get();
      cell.buffer =
          runtime.client().to_device(p, cell.dtype, cell.dims.data(), cell.dims.size(), runtime.device(cell.device));
      bytes_ += static_cast<int64_t>(m.device->nbytes());
    }
    for (auto& [ours, theirs, written] : pairs_) {  // out= that the kernel resized
      if (!written || (theirs.sizes() == ours.sizes() && theirs.storage().unsafeGetStorageImpl() == mirror_of(ours)))
        continue;
      ours.resize_(theirs.sizes());
      ours.copy_(theirs);
    }
  }
  c10::StorageImpl* mirror_of(const at::Tensor& t) {
    for (Mirror& m : mirrors_)
      if (m.device == t.storage().unsafeGetStorageImpl()) return m.bytes.storage().unsafeGetStorageImpl();
    return nullptr;
  }

  c10::IValue to_device(const c10::IValue& v, const std::vector<c10::IValue>& originals) {
    if (v.isTensor()) return device_tensor(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorList()) list.push_back(device_tensor(t));
      return list;
    }
    (void)originals;
    return v;
  }
  at::Tensor device_tensor(const at::Tensor& t) {
    if (!t.defined() || !wants_device_ || !t.device().is_cpu()) return t;
    for (auto& [ours, theirs, written] : pairs_)
      if (theirs.unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) return ours;
    for (auto& [ours, theirs, written] : pairs_)
      if (t.has_storage() && t.numel() > 0 &&
          theirs.storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl()) {  // a view of an argument
        at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
            c10::Storage(ours.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t.dtype());
        view.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
        view.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
        return view;
      }
    check(t.layout() == c10::kStrided && !t.is_quantized(), Code::layout_unsupported, schema_.name(),
          "gives a sparse or quantised tensor, which this device has no kernels for", "run this step on the CPU");
    at::Tensor out = at::empty_strided(
        t.sizes(), t.strides(), t.options().device(c10::Device(kDevice, static_cast<c10::DeviceIndex>(device_))));
    out.copy_(t);
    bytes_ += static_cast<int64_t>(t.nbytes());
    return out;
  }

  // Random ops must draw from the device's generator: its next state seeds a host generator for this one call. Under
  // Draws::cpu its twin on the host draws, and moves on.
  at::Generator host_generator(const at::Generator* g) {
    if (draws() == Draws::cpu) return cpu_twin(g, device_);
    const auto [seed, offset] = reserve_random(g, device_ < 0 ? current_device() : device_, 1);
    return at::detail::createCPUGenerator(seed ^ (offset * 0x9E3779B97F4A7C15ull));
  }
  struct SeededHost {
    explicit SeededHost(Fallback& f) {
      if (!f.op_.hasTag(at::Tag::nondeterministic_seeded) || f.generator_.defined()) return;
      used = true;
      g = at::detail::getDefaultCPUGenerator();
      mine = f.host_generator(nullptr);
      std::lock_guard lock(g.mutex());
      state = g.get_state();
      g.set_state(mine.get_state());
    }
    ~SeededHost() {
      if (!used) return;
      std::lock_guard lock(g.mutex());
      mine.set_state(g.get_state());
      g.set_state(state);
    }
    bool used = false;
    at::Generator g, mine;
    at::Tensor state;
  };

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  std::deque<Mirror> mirrors_;
  std::vector<std::tuple<at::Tensor, at::Tensor, bool>> pairs_;
  at::Generator generator_;
  int device_ = -1;
  bool wants_device_ = false;
  int64_t bytes_ = 0;
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  guarded([&] {
    const auto& n = op.operator_name();
    const std::string name = n.name + (n.overload_name.empty() ? "" : "." + n.overload_name);
    for (const c10::IValue& v : torch::jit::last(*stack, op.schema().arguments().size()))
      if (v.isTensor() && v.toTensor().defined() &&
          (v.toTensor().layout() != c10::kStrided || v.toTensor().is_quantized()))
        fail(Code::layout_unsupported, name, "has no kernel for sparse or quantised tensors on this device",
             "tensor.to_dense() or tensor.dequantize() first");
    if (env("TORCHPORT_FALLBACK") == "error")
      fail(Code::fallback_refused, name, ::torchport::str("has no lowering for this device, at ", trace::python_line()),
           "unset TORCHPORT_FALLBACK, or move this step to the CPU");
    const auto start = std::chrono::steady_clock::now();
    Fallback call(op, *stack);
    call.run();
    const int64_t us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
    const std::string line = trace::python_line();
    std::lock_guard lock(ledger_mutex);
    FallbackCount& c = ledger[name];
    ++c.count;
    c.bytes += call.bytes();
    c.us += us;
    if (c.lines.size() < kMaxLines && !line.empty()) c.lines.insert(line);
  });
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack& stack) { Fallback(op, stack).run(); }

std::map<std::string, FallbackCount> fallbacks() {
  std::lock_guard lock(ledger_mutex);
  return ledger;
}
void reset_fallbacks() {
  std::lock_guard lock(ledger_mutex);
  ledger.clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace torchport::aten
