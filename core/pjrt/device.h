// One addressable device of a client, and the account of the memory that our buffers hold on it.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "pjrt/api.h"

namespace torchport::pjrt {

class Client;

class Device {
 public:
  Device(Client&, PJRT_Device*, int index);
  Device(const Device&) = delete;

  int index() const { return index_; }  // among the addressable devices
  PJRT_Device* raw() const { return raw_; }
  Client& client() const { return client_; }
  std::string kind() const;  // the plugin's words: "cpu", "TPU v6 lite"

  // The account: relaxed, so a reader may see one counter ahead of another.
  std::atomic<int64_t> allocated{0};    // bytes held now
  std::atomic<int64_t> peak{0};         // most bytes held at once since the last reset
  std::atomic<int64_t> allocations{0};  // buffers ever adopted
  std::atomic<int64_t> frees{0};        // buffers ever released or donated
  std::atomic<int64_t> total{0};        // bytes ever adopted
  void add(int64_t bytes) noexcept;
  void subtract(int64_t bytes) noexcept;
  void reset_peak() noexcept { peak.store(allocated.load(std::memory_order_relaxed), std::memory_order_relaxed); }

  // TORCHPORT_MEMORY_LIMIT, else what the platform reports, else the machine's memory where that is the device's.
  int64_t memory_limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_memory_limit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  // Throws out_of_memory when bytes more would pass the limit. Only asks; adopting a buffer is what counts.
  void reserve(int64_t bytes, const char* what) const {
    if (allocated.load(std::memory_order_relaxed) + bytes > memory_limit()) [[unlikely]]
      raise_out_of_memory(bytes, what);
  }

 private:
  [[noreturn]] void raise_out_of_memory(int64_t bytes, const char* what) const;
  Client& client_;
  PJRT_Device* raw_;
  int index_;
  std::atomic<int64_t> limit_;
};

}  // namespace torchport::pjrt
