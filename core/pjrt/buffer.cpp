#include "pjrt/buffer.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "pjrt/client.h"

namespace torchport::pjrt {

PJRT_Buffer_Type element_type(Dtype d) {
  switch (d) {
    case Dtype::b1: return PJRT_Buffer_Type_PRED;
    case Dtype::u8: return PJRT_Buffer_Type_U8;
    case Dtype::u16: return PJRT_Buffer_Type_U16;
    case Dtype::u32: return PJRT_Buffer_Type_U32;
    case Dtype::u64: return PJRT_Buffer_Type_U64;
    case Dtype::i8: return PJRT_Buffer_Type_S8;
    case Dtype::i16: return PJRT_Buffer_Type_S16;
    case Dtype::i32: return PJRT_Buffer_Type_S32;
    case Dtype::i64: return PJRT_Buffer_Type_S64;
    case Dtype::f16: return PJRT_Buffer_Type_F16;
    case Dtype::bf16: return PJRT_Buffer_Type_BF16;
    case Dtype::f32: return PJRT_Buffer_Type_F32;
    case Dtype::f64: return PJRT_Buffer_Type_F64;
    case Dtype::c64: return PJRT_Buffer_Type_C64;
    case Dtype::c128: return PJRT_Buffer_Type_C128;
    case Dtype::f8e4m3fn: return PJRT_Buffer_Type_F8E4M3FN;
    case Dtype::f8e5m2: return PJRT_Buffer_Type_F8E5M2;
    case Dtype::kCount: break;
  }
  fail(Code::internal, "element_type", str("must be an element type, got ", static_cast<int>(d)));
}

BufferPtr Buffer::adopt(PJRT_Buffer* raw, Device* device, Dtype dtype, int64_t bytes) {
  Buffer* buffer = new Buffer(raw, device, dtype, bytes);
  device->add(bytes);
  return BufferPtr(buffer);
}

uint64_t Buffer::serial() const {
  static std::atomic<uint64_t> last{0};
  uint64_t mine = serial_.load(std::memory_order_acquire);
  if (mine != 0) return mine;
  const uint64_t fresh = last.fetch_add(1) + 1;
  return serial_.compare_exchange_strong(mine, fresh) ? fresh : mine;
}

Buffer::~Buffer() {
  destroy<&PJRT_Api::PJRT_Buffer_Destroy>(device_->client().api(), raw_);
  if (!is_donated()) device_->subtract(bytes_);
}

void Buffer::donated() const noexcept {
  if (!donated_.exchange(true, std::memory_order_relaxed)) device_->subtract(bytes_);
}

void Buffer::check_holds_value() const {
  if (is_donated()) [[unlikely]]
    fail(Code::internal, "buffer",
         str("must still hold its value, got a ", name(dtype), " buffer that a launch consumed"));
}

Event Buffer::ready() const {
  check_holds_value();
  const Api& api = device_->client().api();
  return Event(api, PJRT(api, PJRT_Buffer_ReadyEvent, {.buffer = raw_}).event);
}

bool Buffer::is_ready() const { return ready_.load(std::memory_order_acquire) || ready().is_ready(); }

void Buffer::wait() const {
  if (ready_.load(std::memory_order_acquire)) return check_holds_value();
  ready().wait();
  ready_.store(true, std::memory_order_release);
}

const void* Buffer::host_pointer() const {
  wait();
  if (bytes_ == 0) return nullptr;
  const void* host = host_.load(std::memory_order_relaxed);
  if (host) return host;
  host = PJRT(device_->client().api(), PJRT_Buffer_OpaqueDeviceMemoryDataPointer, {.buffer = raw_}).device_memory_ptr;
  host_.store(host, std::memory_order_relaxed);
  return host;
}

void Buffer::to_host(void* dst, size_t bytes) const {
  if (bytes != static_cast<size_t>(bytes_)) [[unlikely]]
    fail(Code::internal, "to_host", str("must copy the buffer's ", bytes_, " bytes, got ", bytes));
  // The pointer costs under a microsecond where the plugin's own copy goes through its thread pool (20 us).
  if (bytes == 0) return wait();
  if (device_->client().caps().host_memory) {
    std::memcpy(dst, host_pointer(), bytes);
    return;
  }
  check_holds_value();
  const Api& api = device_->client().api();
  const size_t rank = PJRT(api, PJRT_Buffer_Dimensions, {.buffer = raw_}).num_dims;
  std::vector<int64_t> minor_to_major(rank);
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = rank;
  const auto copy =
      PJRT(api, PJRT_Buffer_ToHostBuffer, {.src = raw_, .host_layout = &layout, .dst = dst, .dst_size = bytes});
  Event(api, copy.event).wait();
}

BufferPtr Buffer::copy_to(Device& device) const {
  check_holds_value();
  device.reserve(bytes_, "copy between devices");
  const auto copy = PJRT(device.client().api(), PJRT_Buffer_CopyToDevice, {.buffer = raw_, .dst_device = device.raw()});
  return adopt(copy.dst_buffer, &device, dtype, bytes_);
}

}  // namespace torchport::pjrt
