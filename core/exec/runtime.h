// The open platform and the program cache: one a process, opened at the first use of a device.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/cache.h"
#include "pjrt/client.h"

namespace torchport::exec {

Settings settings_for(const pjrt::Caps&, Dtype default_dtype);

class Runtime {
 public:
  static Runtime& get();  // opens the platform; throws when there is none, and in a forked child
  static bool is_open();
  static bool is_available();  // a plugin can be found; opens nothing, throws nothing
  static void after_fork();    // in the child: every later use throws Code::forked
  static bool in_bad_fork();

  pjrt::Client& client() { return *client_; }
  pjrt::Device& device(int index) { return client_->device(index); }
  int device_count() const { return static_cast<int>(client_->devices().size()); }
  const std::string& note() const { return note_; }  // what "auto" passed over

  const pjrt::Caps& program_caps() const { return program_caps_; }  // what programs may use: see TORCHPORT_EMULATE
  Settings settings(Dtype default_dtype) const;
  // Compiles or finds a program by the text of its StableHLO. name: for the report.
  ProgramPtr compile(const graph::Graph&, const Settings&, const std::string& name);

  ProgramCache cache;  // of eager launches

  struct Counters {
    std::atomic<int64_t> compiled{0}, launches{0}, compile_us{0}, host_syncs{0};
  };
  Counters counters;
  struct Compiled {
    std::string name;
    int64_t us;
    std::shared_ptr<std::atomic<int64_t>> launches;
  };
  std::vector<Compiled> programs() const;  // in order of compilation
  void reset_counters();

 private:
  Runtime();
  std::string note_;
  std::unique_ptr<pjrt::Client> client_;
  pjrt::Caps program_caps_;
  mutable std::mutex mutex_;
  std::vector<Compiled> compiled_;
};

}  // namespace torchport::exec
