// A completion the plugin will signal. Move-only; destroying it does not wait.
#pragma once
#include <functional>
#include <utility>

#include "pjrt/api.h"

namespace torchport::pjrt {

class Event {
 public:
  Event() = default;  // already complete
  Event(const Api& api, PJRT_Event* raw) : api_(&api), raw_(raw) {}
  Event(Event&& other) noexcept : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event() { reset(); }

  bool is_ready() const;
  // Blocks; throws what went wrong on the device. The caller has released the GIL.
  void wait() const;
  // Runs fn once the event is complete, failed or not: at once on this thread, or later on a thread of the plugin.
  // fn must not throw and must not block.
  void on_ready(std::function<void()> fn) const;

 private:
  void reset() noexcept {
    if (raw_) destroy<&PJRT_Api::PJRT_Event_Destroy>(*api_, std::exchange(raw_, nullptr));
  }
  const Api* api_ = nullptr;
  PJRT_Event* raw_ = nullptr;
};

}  // namespace torchport::pjrt
