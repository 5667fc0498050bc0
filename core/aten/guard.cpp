// What c10 asks of a device: the current one, streams, events. PJRT runs a device's programs in the order of their
// data, so every stream of a device is the same queue; streams keep their identity, events mark points of that queue.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "aten/cell.h"
#include "exec/runtime.h"
#include "trace/launch.h"

namespace torchport::aten {

namespace {

thread_local c10::SmallVector<c10::StreamId, 4> current_streams;
std::atomic<c10::StreamId> next_stream{1};

c10::StreamId& stream_of(c10::DeviceIndex d) {
  const size_t i = static_cast<size_t>(d < 0 ? current_device() : d);
  if (current_streams.size() <= i) current_streams.resize(i + 1, 0);
  return current_streams[i];
}

c10::Stream make_stream(c10::Device d, c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, d, id); }
c10::Device with_index(c10::Device d) {
  return d.has_index() ? d : c10::Device(kDevice, static_cast<c10::DeviceIndex>(current_device()));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device d) const override {
    return guarded([&] {
      return c10::Device(kDevice, static_cast<c10::DeviceIndex>(
                                      exchange_current_device(d.has_index() ? d.index() : current_device())));
    });
  }
  c10::Device getDevice() const override { return {kDevice, static_cast<c10::DeviceIndex>(current_device())}; }
  void setDevice(c10::Device d) const override {
    guarded([&] {
      if (d.has_index()) exchange_current_device(d.index());
    });
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index() && d.index() != current_device()) {
      try {
        set_current_device(d.index());
      } catch (const Error&) {
        // c10 restores a device that was current before, so it exists; noexcept leaves no other way out
      }
    }
  }
  c10::Stream getStream(c10::Device d) const override {
    const auto index = d.has_index() ? d.index() : static_cast<c10::DeviceIndex>(current_device());
    return make_stream({kDevice, index}, stream_of(index));
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return make_stream(with_index(d), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getNewStream(d, 0); }
  c10::Stream getNewStream(c10::Device d, int) const override {
    return make_stream(with_index(d), next_stream.fetch_add(1));
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::StreamId& current = stream_of(s.device_index());
    const c10::StreamId old = std::exchange(current, s.id());
    return make_stream(s.device(), old);
  }
  void* getStreamNativeHandle(const c10::Stream s) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(s.id()));
  }
  bool queryStream(const c10::Stream& s) const override {
    return guarded([&] { return trace::is_idle(s.device_index()); });
  }
  void synchronizeStream(const c10::Stream& s) const override {
    guarded([&] { trace::synchronize(s.device_index()); });
  }
  void synchronizeDevice(const c10::DeviceIndex d) const override {
    guarded([&] { trace::synchronize(d < 0 ? current_device() : d); });
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<trace::Mark*>(event);
  }
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex, const c10::EventFlag) const override {
    guarded([&] {
      auto* fresh = new trace::Mark(s.device_index());
      delete static_cast<trace::Mark*>(*event);
      *event = fresh;
    });
  }
  void block(void*, const c10::Stream&) const override {}  // one queue a device, and buffers carry their dependencies
  bool queryEvent(void* event) const override { return !event || static_cast<trace::Mark*>(event)->is_ready(); }
  void synchronizeEvent(void* event) const override {
    if (event) guarded([&] { static_cast<trace::Mark*>(event)->wait(); });
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "[event] both events must be recorded before elapsed_time (", tag(Code::bad_value), ")");
    return guarded([&] {
      return static_cast<double>(static_cast<trace::Mark*>(to)->time_ns() -
                                 static_cast<trace::Mark*>(from)->time_ns()) /
             1e6;
    });
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {
  }  // PJRT keeps what a launch reads

  c10::DeviceIndex deviceCount() const noexcept override {
    try {
      return static_cast<c10::DeviceIndex>(exec::Runtime::get().device_count());
    } catch (const Error&) {
      return 0;  // no plugin, or forked: the first use says why
    }
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

}  // namespace torchport::aten
