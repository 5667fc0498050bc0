// The process's runtime: cache, counters, errors, fork.
#include "exec/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "exec/launch.h"

namespace torchport::exec {
namespace {

std::shared_ptr<const Program> tiny() {
  Launch l;
  const int x = l.input(counting(Dtype::f32, {2}));
  l.result(l.call("neg", {{"self", l.value(x)}}));
  return l.compile("tiny");
}
TEST(Runtime, CountsWhatItCompiles) {
  Runtime& r = runtime();
  r.reset_counters();
  const auto p = tiny();
  EXPECT_EQ(r.counters.compiled, 1);
  EXPECT_GT(r.counters.compile_us, 0);
  ASSERT_EQ(r.programs().size(), 1u);
  EXPECT_EQ(r.programs()[0].name, "tiny");
  EXPECT_EQ(r.programs()[0].launches, p->launches);
  r.reset_counters();
  EXPECT_EQ(r.counters.compiled, 0);
  EXPECT_TRUE(r.programs().empty());
}

TEST(Runtime, SettingsFollowThePlatform) {
  Runtime& r = runtime();
  const Settings s = r.settings(Dtype::f64);
  EXPECT_EQ(s.default_dtype, Dtype::f64);
  EXPECT_TRUE(s.f64 && s.s64_dot && s.donation);
  EXPECT_EQ(s.precision, "HIGHEST");
  EXPECT_TRUE(Runtime::is_open());
  EXPECT_TRUE(Runtime::is_available());
  EXPECT_EQ(r.device_count(), 4);
}

// Which programs a new matmul precision concerns.
TEST(Runtime, OnlyFloatingPointProductsUseThePrecision) {
  for (const Dtype d : {Dtype::f32, Dtype::c64, Dtype::i32}) {
    Launch l;
    const Ref m = l.value(l.input(counting(d, {2, 2})));
    l.result(l.call("mm", {{"self", m}, {"mat2", m}}));
    EXPECT_EQ(lower(l.g, l.settings).uses_precision, !is_int(d)) << name(d);
  }
  Launch l;
  l.result(l.call("neg", {{"self", l.value(l.input(counting(Dtype::f32, {2})))}}));
  EXPECT_FALSE(lower(l.g, l.settings).uses_precision);
}

TEST(Runtime, ARefusedProgramNamesTheOp) {
  Launch dot;
  Settings bad = dot.settings;
  bad.precision = "NONSENSE";
  const Ref m = dot.value(dot.input(counting(Dtype::f32, {2, 2})));
  dot.result(dot.call("mm", {{"self", m}, {"mat2", m}}));
  const Error e = error_of([&] { runtime().compile(dot.g, bad, "mm"); });
  EXPECT_EQ(e.code, Code::compile_failed);
  EXPECT_EQ(e.where, "mm");
  EXPECT_NE(e.hint.find("TORCHPORT_DUMP"), std::string::npos);
}

TEST(Runtime, DumpKeepsTheText) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("torchport-unit-" + std::to_string(::getpid()));
  ::setenv("TORCHPORT_DUMP", folder.c_str(), 1);
  tiny();
  ::unsetenv("TORCHPORT_DUMP");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".mlir");
    EXPECT_NE(entry.path().filename().string().find("-tiny"), std::string::npos) << entry.path();
    EXPECT_GT(entry.file_size(), 50u);
  }
  EXPECT_EQ(files, 1);
  std::filesystem::remove_all(folder);
}

TEST(Runtime, AForkedChildIsToldSo) {
  runtime();
  EXPECT_FALSE(Runtime::in_bad_fork());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Runtime::after_fork();
    int told = 1;
    try {
      Runtime::get();
    } catch (const Error& e) { told = e.code == Code::forked && Runtime::in_bad_fork() ? 0 : 2; }
    ::_exit(told);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace torchport::exec
