// What a file of core/devices says about its platform, and the choice among them. The rest of the core asks caps() and
// never names a platform.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace torchport::pjrt {

// The defaults are what is safe to assume of a plugin nobody has described.
struct Caps {
  bool host_memory = false;   // a buffer's memory is the host's: its pointer can be read directly
  bool f64 = false;           // takes float64
  bool c128 = false;          // takes complex128
  bool f64_emulated = false;  // float64 is a pair of float32: fewer bits and less range than IEEE, to be reported
  bool f8 = false;            // takes float8 e4m3fn and e5m2
  bool s64_dot = false;       // dot_general takes 64-bit integers
  bool donation = false;      // tf.aliasing_output makes an output reuse an input's memory
  bool compile_only = false;  // compiles for a topology with no device present
  bool in_order = false;      // launches on one device run in launch order, even when they share no buffer
  bool portable = false;      // one program compiled as portable runs on any device of the client
  std::vector<std::pair<std::string, bool>> flags = {};  // the compiler's debug options that every program needs
};

// Create options of a client.
using OptionValue = std::variant<int64_t, bool, std::string>;
class Options {
 public:
  void set(std::string name, int64_t value) { values_.emplace_back(std::move(name), value); }
  void set(std::string name, int value) { set(std::move(name), int64_t{value}); }
  void set(std::string name, bool value) { values_.emplace_back(std::move(name), value); }
  void set(std::string name, const char* value) { values_.emplace_back(std::move(name), std::string(value)); }
  void set(std::string name, std::string value) { values_.emplace_back(std::move(name), std::move(value)); }
  const std::vector<std::pair<std::string, OptionValue>>& values() const { return values_; }

 private:
  std::vector<std::pair<std::string, OptionValue>> values_;
};

struct Platform {
  std::string name = {};
  // Where its plugin may be, first that exists: "env:VAR", "python:package/file.so", "/absolute/path.so".
  std::vector<std::string> plugin = {};
  bool (*present)() = nullptr;          // is there a device on this machine? null: cannot tell, so "auto" leaves it out
  int priority = 0;                     // "auto" takes the highest that is present and has a plugin
  void (*prepare)() = nullptr;          // before the plugin is loaded: its environment variables
  void (*options)(Options&) = nullptr;  // create options of the client
  Caps caps = {};
  std::string install = {};                                     // what to try when there is no plugin: "pip install x"
  std::vector<std::pair<std::string, std::string>> skips = {};  // conformance tests that do not apply, with the reason
  std::string path = {};                                        // the plugin's file, once found
};

// All registered platforms, highest priority first.
const std::vector<Platform>& platforms();

// TORCHPORT_PLATFORM: "auto", a platform's name, or the path of a plugin. Throws plugin_missing (no plugin, or no
// device), or bad_setting. why, if given, receives one line on what "auto" passed over.
Platform choose(const std::string& setting, std::string* why = nullptr);
// The platform of that name with its plugin found, whether or not a device is present: for compile-only work.
Platform find(const std::string& name);

// The caps of a running client: those of the registered platform that the plugin says it is (a plugin given by path may
// call itself by a registered name), else what the platform was opened with.
Caps running_caps(const Platform& opened, const std::string& reported_name);

// TORCHPORT_EMULATE: `caps`, less what the platforms of this list of names cannot put into a program: f64, s64_dot,
// donation. For programs that run here and are meant for there. Throws bad_setting.
Caps restricted(Caps caps, const std::string& list);

// Where "python:" plugins are looked for: the entries of sys.path. The Python layer gives them once, before choose().
void set_search_path(std::vector<std::string>);
// A plugin that Python found through entry points: one more place for a registered platform, or a platform of its own.
void add_plugin(std::string name, std::string path);

bool any_exists(std::initializer_list<const char*> paths);

// DEVICE("x") { .plugin = {...}, ... };  at namespace level of a file of core/devices.
struct Registration {
  const char* name;
  bool operator<<(Platform) const;
};
#define DEVICE(name) \
  [[maybe_unused]] static const bool registered = ::torchport::pjrt::Registration{name} << ::torchport::pjrt::Platform

}  // namespace torchport::pjrt
