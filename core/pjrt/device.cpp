#include "pjrt/device.h"

#include <unistd.h>

#include <charconv>
#include <limits>

#include "base/env.h"
#include "pjrt/client.h"

namespace torchport::pjrt {

static int64_t find_limit(const Client& client, PJRT_Device* device) {
  if (const std::string set = env("TORCHPORT_MEMORY_LIMIT"); !set.empty()) {
    int64_t bytes = 0;
    const auto [end, error] = std::from_chars(set.data(), set.data() + set.size(), bytes);
    if (error != std::errc() || end != set.data() + set.size() || bytes <= 0)
      fail(Code::bad_setting, "TORCHPORT_MEMORY_LIMIT", str("must be a positive number of bytes, got '", set, "'"));
    return bytes;
  }
  if (PJRT_HAS(client.api(), PJRT_Device_MemoryStats)) {
    try {
      const auto stats = PJRT(client.api(), PJRT_Device_MemoryStats, {.device = device});
      if (stats.bytes_limit_is_set && stats.bytes_limit > 0) return stats.bytes_limit;
    } catch (const Error& error) {
      if (error.code != Code::pjrt) throw;  // a plugin without statistics answers UNIMPLEMENTED
    }
  }
  if (client.caps().host_memory) return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::numeric_limits<int64_t>::max() / 2;  // unknown: the platform itself will say when it is full
}

Device::Device(Client& client, PJRT_Device* raw, int index)
    : client_(client), raw_(raw), index_(index), limit_(find_limit(client, raw)) {}

std::string Device::kind() const {
  const Api& api = client_.api();
  auto* description = PJRT(api, PJRT_Device_GetDescription, {.device = raw_}).device_description;
  const auto kind = PJRT(api, PJRT_DeviceDescription_Kind, {.device_description = description});
  return std::string(kind.device_kind, kind.device_kind_size);
}

void Device::add(int64_t bytes) noexcept {
  const int64_t now = allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {}
  allocations.fetch_add(1, std::memory_order_relaxed);
  total.fetch_add(bytes, std::memory_order_relaxed);
}

void Device::subtract(int64_t bytes) noexcept {
  allocated.fetch_sub(bytes, std::memory_order_relaxed);
  frees.fetch_add(1, std::memory_order_relaxed);
}

static std::string human(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, kUnits[unit]);
  return text;
}

void Device::raise_out_of_memory(int64_t bytes, const char* what) const {
  fail(Code::out_of_memory, what,
       str("tried to allocate ", human(bytes), "; ", human(allocated.load(std::memory_order_relaxed)), " of ",
           human(memory_limit()), " in use on device ", index_));
}

}  // namespace torchport::pjrt
