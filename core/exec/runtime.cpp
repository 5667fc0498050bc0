#include "exec/runtime.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "exec/capture.h"

namespace torchport::exec {

namespace {

std::atomic<bool> opened{false}, forked{false};

// Keeps the StableHLO text of a program under TORCHPORT_DUMP; written under a temporary name, then renamed.
void dump(const std::string& text, const std::string& name, int64_t number) {
  const std::string folder = env("TORCHPORT_DUMP");
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  char prefix[16];
  std::snprintf(prefix, sizeof prefix, "%04lld-", static_cast<long long>(number));
  std::string clean = name;
  for (char& c : clean)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '_';
  const std::filesystem::path path = std::filesystem::path(folder) / (prefix + clean + ".mlir"),
                              part = path.string() + ".part";
  std::ofstream(part) << text;
  std::filesystem::rename(part, path);
}

}  // namespace

Runtime& Runtime::get() {
  if (forked.load(std::memory_order_relaxed)) [[unlikely]]
    fail(Code::forked, "device",
         "must not be used in a process forked after its first use, because the plugin's threads do not survive a fork",
         "multiprocessing.set_start_method('spawn')");
  static Runtime* runtime = new Runtime;  // never destroyed: buffers and plugin threads may outlive static destruction
  return *runtime;
}
bool Runtime::is_open() { return opened.load(); }
bool Runtime::is_available() {
  static std::atomic<bool> found{false};
  if (found.load(std::memory_order_relaxed)) return true;
  try {
    pjrt::choose(env("TORCHPORT_PLATFORM"));
    found.store(true);
    return true;
  } catch (const Error&) {
    return false;  // the question has an answer; the first use says why
  }
}
void Runtime::after_fork() {
  if (opened.load()) forked.store(true);
}
bool Runtime::in_bad_fork() { return forked.load(); }

Runtime::Runtime() : cache(static_cast<size_t>(env_integer("TORCHPORT_PROGRAMS", 16, 1 << 20))) {
  client_ = pjrt::Client::open(pjrt::choose(env("TORCHPORT_PLATFORM"), &note_));
  program_caps_ = pjrt::restricted(client_->caps(), env("TORCHPORT_EMULATE"));
  opened.store(true);
}

Settings settings_for(const pjrt::Caps& caps, Dtype default_dtype) {
  return {default_dtype, "HIGHEST", caps.f64, caps.s64_dot, caps.donation};
}
Settings Runtime::settings(Dtype default_dtype) const { return settings_for(program_caps_, default_dtype); }

ProgramPtr Runtime::compile(const graph::Graph& g, const Settings& s, const std::string& name) {
  const auto start = std::chrono::steady_clock::now();
  Lowered lowered = lower(g, s);
  const int64_t number = counters.compiled.fetch_add(1) + 1;
  dump(lowered.text, name, number);
  std::unique_ptr<pjrt::Executable> executable;
  try {
    executable = client_->compile(lowered.text);
  } catch (const Error& e) {
    if (e.code == Code::out_of_memory) throw;
    fail(Code::compile_failed, name, str("must compile on ", client_->platform_name(), ", got ", e.text),
         "TORCHPORT_DUMP=dump keeps the StableHLO text");
  }
  std::string text = std::exchange(lowered.text, {});
  auto program = std::make_shared<Program>(std::move(lowered), std::move(executable));
  program->name = name;
  if (Capture* capture = Capture::current()) capture->compiled(*program, std::move(text));
  const int64_t us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  counters.compile_us.fetch_add(us);
  std::lock_guard lock(mutex_);
  compiled_.push_back({name, us, program->launches});
  return program;
}

std::vector<Runtime::Compiled> Runtime::programs() const {
  std::lock_guard lock(mutex_);
  return compiled_;
}
void Runtime::reset_counters() {
  counters.compiled = counters.launches = counters.compile_us = counters.host_syncs = 0;
  std::lock_guard lock(mutex_);
  compiled_.clear();
}

}  // namespace torchport::exec
