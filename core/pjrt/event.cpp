#include "pjrt/event.h"

#include <memory>

namespace torchport::pjrt {

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    reset();
    api_ = other.api_;
    raw_ = std::exchange(other.raw_, nullptr);
  }
  return *this;
}

bool Event::is_ready() const { return !raw_ || PJRT(*api_, PJRT_Event_IsReady, {.event = raw_}).is_ready; }

void Event::wait() const {
  if (raw_) PJRT(*api_, PJRT_Event_Await, {.event = raw_});
}

namespace {
struct Callback {
  const Api& api;
  std::function<void()> fn;
};
}  // namespace

static void run_callback(PJRT_Error* error, void* arg) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(arg));
  if (error) take_message(callback->api, error);  // whoever waits for the value is told; this is only the signal
  callback->fn();
}

void Event::on_ready(std::function<void()> fn) const {
  if (!raw_) return fn();
  auto callback = std::make_unique<Callback>(*api_, std::move(fn));
  PJRT(*api_, PJRT_Event_OnReady, {.event = raw_, .callback = run_callback, .user_arg = callback.get()});
  callback.release();  // run_callback owns it now
}

}  // namespace torchport::pjrt
