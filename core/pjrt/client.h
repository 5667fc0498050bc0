// An open platform: its devices, its compiler, transfers to it. Thread-safe. Must outlive its buffers and executables.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/executable.h"
#include "pjrt/platform.h"

namespace torchport::pjrt {

class Client {
 public:
  // Loads the plugin and creates its client: plugin_missing, plugin_bad or the plugin's own error.
  static std::unique_ptr<Client> open(const Platform&);
  Client(const Client&) = delete;
  ~Client();

  const Api& api() const { return api_; }
  PJRT_Client* raw() const { return raw_; }
  const Platform& platform() const { return platform_; }  // as chosen; its caps are those of the running plugin
  const Caps& caps() const { return platform_.caps; }
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  Device& device(int index) const;    // bad_device_index when there is none
  std::string platform_name() const;  // the plugin's words
  std::string platform_version() const;

  std::unique_ptr<Executable> compile(std::string_view stablehlo_text, const CompileOptions& = {});
  // From Program::serialize() of the same plugin and version; the plugin's error when it does not like the bytes.
  std::unique_ptr<Executable> load(std::string_view serialized);

  // Copies a row-major array before it returns. data may be null when the array is empty.
  // counted: whether its bytes enter the device's memory account.
  BufferPtr to_device(const void* data, Dtype, const int64_t* dims, size_t rank, Device&, bool counted = true);

 private:
  Client(const Api&, PJRT_Client*, Platform);
  const Api& api_;
  PJRT_Client* raw_;
  Platform platform_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace torchport::pjrt
