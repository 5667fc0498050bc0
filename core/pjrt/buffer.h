// Device memory with an immutable value. Counted intrusively: a launch touches a handful of these, so a BufferPtr is
// one pointer and one atomic. The client must outlive its buffers.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/dtype.h"
#include "pjrt/event.h"

namespace torchport::pjrt {

class Buffer;
class Device;

class BufferPtr {
 public:
  BufferPtr() = default;
  BufferPtr(std::nullptr_t) {}
  BufferPtr(const BufferPtr& other) noexcept : buffer_(other.buffer_) { retain(); }
  BufferPtr(BufferPtr&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferPtr& operator=(BufferPtr other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferPtr() { release(); }

  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  Buffer& operator*() const { return *buffer_; }
  explicit operator bool() const { return buffer_ != nullptr; }
  bool operator==(const BufferPtr& other) const { return buffer_ == other.buffer_; }
  int64_t use_count() const;

 private:
  friend class Buffer;
  explicit BufferPtr(Buffer* counted) : buffer_(counted) {}  // takes over one count
  void retain() const noexcept;
  void release() const noexcept;
  Buffer* buffer_ = nullptr;
};

class Buffer {
 public:
  // Takes over the handle and adds bytes to the device's memory account until the buffer dies or is donated.
  static BufferPtr adopt(PJRT_Buffer*, Device*, Dtype, int64_t bytes);
  Buffer(const Buffer&) = delete;
  ~Buffer();

  PJRT_Buffer* raw() const { return raw_; }
  Device* device() const { return device_; }
  int64_t bytes() const { return bytes_; }  // dense, as the tensor counts them
  uint64_t serial() const;                  // a number no other buffer of this process has or will have
  const Dtype dtype;

  Event ready() const;
  bool is_ready() const;  // also true when the computation failed; to_host() says so
  void wait() const;

  // Waits, then copies the value row-major to dst; bytes must be this buffer's. The caller has released the GIL.
  void to_host(void* dst, size_t bytes) const;
  // Only where caps().host_memory: waits, then gives the value's address, valid while the buffer lives undonated.
  // Null for an empty buffer.
  const void* host_pointer() const;
  BufferPtr copy_to(Device&) const;  // asynchronous, within one client

  // To be called after a launch that consumed this buffer and before its outputs are adopted: the bytes leave the
  // account now, since the output that reuses the memory brings them in again. The handle stays until the destructor;
  // reading the value afterwards is an error.
  void donated() const noexcept;
  bool is_donated() const { return donated_.load(std::memory_order_relaxed); }

 private:
  friend class BufferPtr;
  Buffer(PJRT_Buffer* raw, Device* device, Dtype d, int64_t bytes)
      : dtype(d), raw_(raw), device_(device), bytes_(bytes) {}
  void check_holds_value() const;

  PJRT_Buffer* raw_;
  Device* device_;
  int64_t bytes_;
  mutable std::atomic<int64_t> count_{1};
  mutable std::atomic<const void*> host_{nullptr};  // host_pointer() once known
  mutable std::atomic<bool> ready_{false};          // known to have completed without an error
  mutable std::atomic<bool> donated_{false};
  mutable std::atomic<uint64_t> serial_{0};  // given when first asked for
};

inline int64_t BufferPtr::use_count() const { return buffer_ ? buffer_->count_.load(std::memory_order_acquire) : 0; }
inline void BufferPtr::retain() const noexcept {
  if (buffer_) buffer_->count_.fetch_add(1, std::memory_order_relaxed);
}
inline void BufferPtr::release() const noexcept {
  if (buffer_ && buffer_->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer_;
}

PJRT_Buffer_Type element_type(Dtype);

}  // namespace torchport::pjrt
