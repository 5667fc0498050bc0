#include "pjrt/platform.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"

namespace fs = std::filesystem;

namespace torchport::pjrt {

// Function-local, since the files of core/devices register before main in no given order.
static std::vector<Platform>& registry() {
  static std::vector<Platform> table;
  return table;
}

static std::vector<std::string>& search_path() {
  static std::vector<std::string> path;
  return path;
}

static void insert(Platform platform) {
  auto& table = registry();
  const auto behind = std::find_if(table.begin(), table.end(), [&](const Platform& p) {
    return std::pair(-p.priority, p.name) > std::pair(-platform.priority, platform.name);
  });
  table.insert(behind, std::move(platform));
}

bool Registration::operator<<(Platform platform) const {
  platform.name = name;
  insert(std::move(platform));
  return true;
}

const std::vector<Platform>& platforms() { return registry(); }

void set_search_path(std::vector<std::string> path) { search_path() = std::move(path); }

void add_plugin(std::string name, std::string path) {
  for (Platform& p : registry()) {
    if (p.name != name) continue;
    if (std::find(p.plugin.begin(), p.plugin.end(), path) == p.plugin.end()) p.plugin.push_back(std::move(path));
    return;
  }
  insert({.name = std::move(name), .plugin = {std::move(path)}});
}

bool any_exists(std::initializer_list<const char*> paths) {
  std::error_code ignored;  // an unreadable directory has no device for us
  return std::any_of(paths.begin(), paths.end(), [&](const char* path) { return fs::exists(path, ignored); });
}

static bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

namespace {
struct Looked {
  std::string path;    // empty: not found
  std::string report;  // "$TPU_LIBRARY_PATH (unset)"
};
}  // namespace

static Looked look(const std::string& candidate) {
  if (candidate.starts_with("env:")) {
    const std::string variable = candidate.substr(4);
    const char* value = std::getenv(variable.c_str());
    if (!value || !*value) return {"", "$" + variable + " (unset)"};
    if (is_file(value)) return {value, ""};
    return {"", "$" + variable + " (no such file: " + value + ")"};
  }
  if (candidate.starts_with("python:")) {
    const std::string file = candidate.substr(7);
    const std::string folder = fs::path(file).parent_path();
    std::string package = folder;
    std::replace(package.begin(), package.end(), '/', '.');
    bool installed = false;
    for (const std::string& entry : search_path()) {
      const fs::path root(entry.empty() ? "." : entry);
      if (is_file(root / file)) return {root / file, ""};
      std::error_code ignored;
      installed = installed || fs::is_directory(root / folder, ignored);
    }
    return {"", "python package " + package +
                    (installed ? " (without " + fs::path(file).filename().string() + ")" : " (not installed)")};
  }
  if (is_file(candidate)) return {candidate, ""};
  return {"", candidate + " (no such file)"};
}

// Fills in path; false, with what was looked at, when there is no plugin.
static bool locate(Platform& platform, std::string& looked_at) {
  for (const std::string& candidate : platform.plugin) {
    Looked looked = look(candidate);
    if (!looked.path.empty()) {
      platform.path = std::move(looked.path);
      return true;
    }
    looked_at += (looked_at.empty() ? "" : ", ") + looked.report;
  }
  return false;
}

static std::string names() {
  std::string out;
  for (const Platform& p : registry()) out += p.name + ", ";
  return out;
}

Platform find(const std::string& name) {
  for (Platform platform : registry()) {
    if (platform.name != name) continue;
    std::string looked_at;
    if (!locate(platform, looked_at))
      fail(Code::plugin_missing, "platform " + name, "no plugin found; looked at " + looked_at, platform.install);
    return platform;
  }
  fail(Code::bad_setting, "TORCHPORT_PLATFORM",
       str("must be auto, ", names(), "or the path of a plugin, got '", name, "'"));
}

// A plugin by path: its file's name suggests which registered platform's variables and options it takes ("libtpu.so");
// what it calls itself, once it runs, decides the caps.
static Platform from_path(const std::string& path) {
  if (!is_file(path)) fail(Code::plugin_missing, "platform " + path, "must be the path of a plugin, got no such file");
  const std::string file = fs::path(path).filename();
  for (Platform platform : registry()) {
    if (file.find(platform.name) == std::string::npos) continue;
    platform.path = path;
    platform.caps = {};
    return platform;
  }
  return {.name = fs::path(path).stem(), .path = path};
}

static Platform choose_present(std::string* why) {
  std::string passed, missing;
  for (Platform platform : registry()) {
    std::string looked_at;
    const bool present = platform.present && platform.present();
    const bool located = locate(platform, looked_at);
    if (present && located) {
      if (why) *why = "using " + platform.name + (passed.empty() ? "" : " (" + passed + ")");
      return platform;
    }
    passed +=
        (passed.empty() ? "" : "; ") + platform.name + (present ? ": device present, but no plugin" : ": no device");
    if (!located) missing += (missing.empty() ? "" : ", ") + looked_at;
  }
  fail(Code::plugin_missing, "platform auto", "no plugin found; looked at " + missing,
       registry().empty() ? "" : registry().back().install);
}

Platform choose(const std::string& setting, std::string* why) {
  if (setting == "auto") return choose_present(why);
  if (setting.find('/') != std::string::npos || setting.ends_with(".so")) return from_path(setting);
  Platform platform = find(setting);
  // Opening a plugin without its device can hang or abort, so it is refused here.
  if (platform.present && !platform.present())
    fail(Code::plugin_missing, "platform " + setting, "must have a device on this machine, found none",
         "TORCHPORT_PLATFORM=auto");
  return platform;
}

Caps running_caps(const Platform& opened, const std::string& reported_name) {
  for (const Platform& p : registry())
    if (p.name == reported_name) return p.caps;
  return opened.caps;
}

Caps restricted(Caps caps, const std::string& list) {
  std::istringstream items(list);
  for (std::string name; std::getline(items, name, ',');) {
    const auto p =
        std::find_if(registry().begin(), registry().end(), [&](const Platform& p) { return p.name == name; });
    if (p == registry().end())
      fail(Code::bad_setting, "TORCHPORT_EMULATE",
           str("must be of ", names(), "several separated by commas, got '", name, "'"));
    for (bool Caps::* can : {&Caps::f64, &Caps::s64_dot, &Caps::donation}) caps.*can = caps.*can && p->caps.*can;
  }
  return caps;
}

}  // namespace torchport::pjrt
