#include "pjrt/client.h"

#include "pjrt/plugin.h"

namespace torchport::pjrt {

std::unique_ptr<Client> Client::open(const Platform& platform) {
  const Api& api = load_plugin(platform);
  Options options;
  if (platform.options) platform.options(options);
  const std::vector<PJRT_NamedValue> values = named_values(options);
  PJRT_Client* raw =
      PJRT(api, PJRT_Client_Create, {.create_options = values.data(), .num_options = values.size()}).client;
  return std::unique_ptr<Client>(new Client(api, raw, platform));
}

Client::Client(const Api& api, PJRT_Client* raw, Platform platform)
    : api_(api), raw_(raw), platform_(std::move(platform)) {
  try {
    platform_.caps = running_caps(platform_, platform_name());
    const auto list = PJRT(api_, PJRT_Client_AddressableDevices, {.client = raw_});
    for (size_t i = 0; i < list.num_addressable_devices; ++i)
      devices_.push_back(std::make_unique<Device>(*this, list.addressable_devices[i], static_cast<int>(i)));
  } catch (...) {
    destroy<&PJRT_Api::PJRT_Client_Destroy>(api_, raw_);
    throw;
  }
}

Client::~Client() { destroy<&PJRT_Api::PJRT_Client_Destroy>(api_, raw_); }

Device& Client::device(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= devices_.size()) [[unlikely]]
    fail(Code::bad_device_index, "device",
         str("must be in [0, ", static_cast<int>(devices_.size()) - 1, "], got ", index));
  return *devices_[static_cast<size_t>(index)];
}

std::string Client::platform_name() const {
  const auto name = PJRT(api_, PJRT_Client_PlatformName, {.client = raw_});
  return std::string(name.platform_name, name.platform_name_size);
}

std::string Client::platform_version() const {
  const auto version = PJRT(api_, PJRT_Client_PlatformVersion, {.client = raw_});
  return std::string(version.platform_version, version.platform_version_size);
}

std::unique_ptr<Executable> Client::compile(std::string_view stablehlo_text, const CompileOptions& options) {
  const PJRT_Program program = mlir_program(stablehlo_text);
  CompileOptions with_flags = options;
  with_flags.flags.insert(with_flags.flags.end(), caps().flags.begin(), caps().flags.end());
  const std::string encoded = encode(with_flags);
  auto* loaded = PJRT(api_, PJRT_Client_Compile,
                      {.client = raw_,
                       .program = &program,
                       .compile_options = encoded.data(),
                       .compile_options_size = encoded.size()})
                     .executable;
  return std::make_unique<Executable>(api_, loaded);
}

std::unique_ptr<Executable> Client::load(std::string_view serialized) {
  auto* loaded =
      PJRT(
          api_, PJRT_Executable_DeserializeAndLoad,
          {.client = raw_, .serialized_executable = serialized.data(), .serialized_executable_size = serialized.size()})
          .loaded_executable;
  return std::make_unique<Executable>(api_, loaded);
}

BufferPtr Client::to_device(const void* data, Dtype dtype, const int64_t* dims, size_t rank, Device& device,
                            bool counted) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (size_t i = 0; i < rank; ++i) bytes *= dims[i];
  device.reserve(bytes, "copy to device");
  static constexpr char kNothing = 0;  // plugins want an address even for no bytes
  const auto copy = PJRT(api_, PJRT_Client_BufferFromHostBuffer,
                         {.client = raw_,
                          .data = data ? data : &kNothing,
                          .type = element_type(dtype),
                          .dims = dims,
                          .num_dims = rank,
                          .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                          .device = device.raw()});
  destroy<&PJRT_Api::PJRT_Event_Destroy>(api_, copy.done_with_host_buffer);
  return Buffer::adopt(copy.buffer, &device, dtype, counted ? bytes : 0);
}

}  // namespace torchport::pjrt
