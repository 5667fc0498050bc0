// What ATen asks of an accelerator that is not built into it.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "aten/cell.h"
#include "aten/generator.h"
#include "aten/storage.h"
#include "exec/runtime.h"

namespace torchport::aten {

namespace {

// "Pinned" host memory is ordinary memory that remembers being asked for: PJRT copies from any host memory, so
// pin_memory() keeps its meaning to the program without a second copy.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* p = bytes ? c10::GetAllocator(c10::kCPU)->raw_allocate(bytes) : nullptr;
    if (p) {
      std::lock_guard lock(mutex_);
      live_[p] = bytes;
    }
    return {p, p, &drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* dst, const void* src, std::size_t n) const override { default_copy_data(dst, src, n); }
  static bool holds(const void* p) {
    std::lock_guard lock(mutex_);
    auto it = live_.upper_bound(p);
    if (it == live_.begin()) return false;
    --it;
    return static_cast<const char*>(p) < static_cast<const char*>(it->first) + it->second;
  }

 private:
  static void drop(void* p) {
    if (!p) return;
    {
      std::lock_guard lock(mutex_);
      live_.erase(p);
    }
    c10::GetAllocator(c10::kCPU)->raw_deallocate(p);
  }
  static inline std::mutex mutex_;
  static inline std::map<const void*, size_t> live_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return exec::Runtime::is_available(); }
  void init() const override {
    guarded([] { exec::Runtime::get(); });
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return exec::Runtime::is_open(); }
  c10::DeviceIndex deviceCount() const override {
    return isAvailable() ? static_cast<c10::DeviceIndex>(exec::Runtime::get().device_count()) : 0;
  }
  void setCurrentDevice(c10::DeviceIndex d) const override {
    guarded([&] { set_current_device(d); });
  }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    return guarded([&] { return static_cast<c10::DeviceIndex>(exchange_current_device(d)); });
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    return d < 0 ? getCurrentDevice() : exchangeDevice(d);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex d) const override {
    return guarded([&]() -> const at::Generator& { return default_generator(d); });
  }
  at::Generator getNewGenerator(c10::DeviceIndex d) const override {
    return guarded([&] { return new_generator(d); });
  }
  at::Device getDeviceFromPtr(void*) const override {
    return {kDevice, static_cast<c10::DeviceIndex>(current_device())};
  }
  bool isPinnedPtr(const void* p) const override { return PinnedAllocator::holds(p); }
  at::Allocator* getPinnedMemoryAllocator() const override {
    static auto* a = new PinnedAllocator;
    return a;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

}  // namespace torchport::aten
