// The process's runtime: cache, counters, errors, fork.
#include "exec/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "exec/launch.h"

namespace torchport::exec {
namespace {

std::shared_ptr<const Program> tiny() {
  Launch l;
  const int x = l.input(counting(Dtype::f32, {2}));
  l.result(l.call("neg", {{"self", l.value(x)}}));
  return l.compile("tiny");
}
KeyView key(const std::vector<uint64_t>& words) { return {words, hash_words(words)}; }

TEST(Cache, FindsWhatWasInserted) {
  const std::vector<uint64_t> a{1, 2, 3}, b{1, 2, 4}, shorter{1, 2}, none;
  Runtime& r = runtime();
  EXPECT_EQ(r.lookup(key(a)), nullptr);
  const auto p = tiny(), q = tiny();
  EXPECT_EQ(r.insert(key(a), p), p.get());
  EXPECT_EQ(r.insert(key(a), q), p.get());  // the first stays
  EXPECT_EQ(r.insert(key(none), q), q.get());
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(r.lookup(key(a)), p.get());
    EXPECT_EQ(r.lookup(key(b)), nullptr);
    EXPECT_EQ(r.lookup(key(shorter)), nullptr);
    EXPECT_EQ(r.lookup(key(none)), q.get());
  }
}

TEST(Cache, KeysOfOneHashStayApart) {
  const std::vector<uint64_t> a{100}, b{200}, c{100, 200}, d{300};
  const auto p = tiny(), q = tiny();
  Runtime& r = runtime();
  r.insert({a, 42}, p), r.insert({b, 42}, q), r.insert({c, 42}, q);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(r.lookup({a, 42}), p.get());
    EXPECT_EQ(r.lookup({b, 42}), q.get());
    EXPECT_EQ(r.lookup({c, 42}), q.get());
    EXPECT_EQ(r.lookup({d, 42}), nullptr);
  }
}

TEST(Cache, HashSeesEveryWordAndTheLength) {
  const std::vector<uint64_t> base(8, 7);
  for (size_t i = 0; i < base.size(); ++i)
    for (int bit = 0; bit < 64; ++bit) {
      std::vector<uint64_t> other = base;
      other[i] ^= uint64_t{1} << bit;
      EXPECT_NE(hash_words(other), hash_words(base)) << i << " " << bit;
    }
  const std::vector<uint64_t> zeros(3, 0), more(4, 0);
  EXPECT_NE(hash_words(zeros), hash_words(more));
}

TEST(Cache, ThreadsAgree) {
  constexpr int kThreads = 8, kKeys = 300;
  std::vector<std::shared_ptr<const Program>> mine;
  for (int t = 0; t < kThreads; ++t) mine.push_back(tiny());
  std::vector<std::vector<const Program*>> seen(kThreads, std::vector<const Program*>(kKeys));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round)
        for (int k = 0; k < kKeys; ++k) {
          // More keys than hashes, so that several share a place in the thread's own table.
          const std::vector<uint64_t> words{0xC0FFEE, static_cast<uint64_t>(k)};
          const KeyView view{words, static_cast<uint64_t>(k % 100)};
          const Program* p = runtime().lookup(view);
          if (!p) p = runtime().insert(view, mine[t]);
          if (round == 0) seen[t][k] = p;
          wrong += seen[t][k] != p;
        }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(seen[t], seen[0]);
}

TEST(Runtime, CountsWhatItCompiles) {
  Runtime& r = runtime();
  r.reset_counters();
  const auto p = tiny();
  EXPECT_EQ(r.counters.compiled, 1);
  EXPECT_GT(r.counters.compile_us, 0);
  ASSERT_EQ(r.programs().size(), 1u);
  EXPECT_EQ(r.programs()[0].name, "tiny");
  EXPECT_EQ(r.programs()[0].program, p);
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
