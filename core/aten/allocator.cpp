// torch's allocator of the device. Memory belongs to PJRT buffers; the allocator makes cells for storages that are born
// as bytes and reports what the device's account holds.
#include <ATen/EmptyTensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "aten/cell.h"
#include "exec/runtime.h"

namespace torchport::aten {

namespace {

using c10::CachingDeviceAllocator::DeviceStats;

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return guarded([&] {
      const int device = current_device();
      exec::Runtime::get().device(device).reserve(static_cast<int64_t>(bytes), "allocate");
      return cell_data(bytes, device);
    });
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // cells have identity: no raw allocation
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "[allocator] device memory must be copied with tensor.copy_(), not as bytes (",
                tag(Code::internal), ")");
  }

  bool initialized() override { return exec::Runtime::is_open(); }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached: a dead buffer is the plugin's at once
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex d) override {
    return guarded([&] {
      const auto& device = exec::Runtime::get().device(d);
      DeviceStats s{};
      auto fill = [](c10::CachingAllocator::Stat& stat, int64_t now, int64_t peak, int64_t ever, int64_t freed) {
        stat.current = now, stat.peak = peak, stat.allocated = ever, stat.freed = freed;
      };
      const int64_t now = device.allocated.load(), peak = std::max(now, device.peak.load()),
                    total = device.total.load();
      for (auto* bytes : {&s.allocated_bytes, &s.active_bytes, &s.reserved_bytes, &s.requested_bytes})
        fill((*bytes)[0], now, peak, total, total - now);
      const int64_t made = device.allocations.load(), freed = device.frees.load();
      for (auto* count : {&s.allocation, &s.active, &s.segment})
        fill((*count)[0], made - freed, made - freed, made, freed);
      return s;
    });
  }
  void resetAccumulatedStats(c10::DeviceIndex d) override {
    guarded([&] {
      auto& device = exec::Runtime::get().device(d);
      device.total.store(device.allocated.load());
      const int64_t alive = device.allocations.load() - device.frees.load();
      device.frees.store(0);
      device.allocations.store(alive);
    });
  }
  void resetPeakStats(c10::DeviceIndex d) override {
    guarded([&] { exec::Runtime::get().device(d).reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex d) override {
    return guarded([&] {
      const auto& device = exec::Runtime::get().device(d);
      const int64_t limit = device.memory_limit();
      return std::pair<size_t, size_t>(std::max<int64_t>(limit - device.allocated.load(), 0), limit);
    });
  }
};

}  // namespace

c10::Allocator* allocator() {
  static auto* a = new Allocator;
  return a;
}

namespace {
const bool registered = [] {
  c10::SetAllocator(kDevice, allocator());
  return true;
}();
}  // namespace

}  // namespace torchport::aten
