// The cache of programs: identity, threads, and what leaves when it is full.
#include "exec/cache.h"

#include <thread>

#include "exec/launch.h"

namespace torchport::exec {
namespace {

ProgramPtr tiny() {
  Launch l;
  const int x = l.input(counting(Dtype::f32, {2}));
  l.result(l.call("neg", {{"self", l.value(x)}}));
  return l.compile("tiny");
}
KeyView key(const std::vector<uint64_t>& words) { return {words, hash_words(words)}; }

TEST(Cache, FindsWhatWasInserted) {
  const std::vector<uint64_t> a{1, 2, 3}, b{1, 2, 4}, shorter{1, 2}, none;
  ProgramCache r(100);
  EXPECT_EQ(r.lookup(key(a)), nullptr);
  const auto p = tiny(), q = tiny();
  EXPECT_EQ(r.insert(key(a), p), p);
  EXPECT_EQ(r.insert(key(a), q), p);  // the first stays
  EXPECT_EQ(r.insert(key(none), q), q);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(r.lookup(key(a)), p);
    EXPECT_EQ(r.lookup(key(b)), nullptr);
    EXPECT_EQ(r.lookup(key(shorter)), nullptr);
    EXPECT_EQ(r.lookup(key(none)), q);
  }
}

TEST(Cache, KeysOfOneHashStayApart) {
  const std::vector<uint64_t> a{100}, b{200}, c{100, 200}, d{300};
  const auto p = tiny(), q = tiny();
  ProgramCache r(100);
  r.insert({a, 42}, p), r.insert({b, 42}, q), r.insert({c, 42}, q);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(r.lookup({a, 42}), p);
    EXPECT_EQ(r.lookup({b, 42}), q);
    EXPECT_EQ(r.lookup({c, 42}), q);
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
  std::vector<std::vector<ProgramPtr>> seen(kThreads, std::vector<ProgramPtr>(kKeys));
  ProgramCache cache(kKeys);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round)
        for (int k = 0; k < kKeys; ++k) {
          // More keys than hashes, so that several share a place in the thread's own table.
          const std::vector<uint64_t> words{0xC0FFEE, static_cast<uint64_t>(k)};
          const KeyView view{words, static_cast<uint64_t>(k % 100)};
          ProgramPtr p = cache.lookup(view);
          if (!p) p = cache.insert(view, mine[t]);
          if (round == 0) seen[t][k] = p;
          wrong += seen[t][k] != p;
        }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(seen[t], seen[0]);
}

TEST(Cache, TheLongestUnusedLeave) {
  ProgramCache cache(8);
  const ProgramPtr p = tiny();
  auto words = [](uint64_t i) { return std::vector<uint64_t>{i}; };
  for (uint64_t i = 0; i < 8; ++i) cache.insert(key(words(i)), p);
  EXPECT_EQ(cache.size(), 8u);
  EXPECT_EQ(cache.lookup(key(words(0))), p);  // used again: 1 and 2 are now the oldest
  cache.insert(key(words(8)), p);
  EXPECT_LE(cache.size(), 8u);
  EXPECT_EQ(cache.lookup(key(words(1))), nullptr);
  for (const uint64_t kept : {0, 7, 8}) EXPECT_EQ(cache.lookup(key(words(kept))), p) << kept;
}

TEST(Cache, WhatLeavesIsFreedAndWhatRunsIsNot) {
  ProgramCache cache(4);
  ProgramPtr running = cache.insert(key({0}), tiny());
  const std::weak_ptr<const Program> first = running;
  EXPECT_EQ(cache.lookup(key({0})), running);  // this thread's own table has it, too
  for (uint64_t i = 1; i < 12; ++i) cache.insert(key({i}), tiny());
  EXPECT_EQ(cache.lookup(key({0})), nullptr);
  EXPECT_FALSE(first.expired());
  running.reset();
  EXPECT_TRUE(first.expired());
}

TEST(Cache, ThreadsLaunchWhileOthersEvict) {
  ProgramCache cache(16);
  const ProgramPtr p = tiny();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 20000; ++i) {
        const std::vector<uint64_t> words{(i * (t + 1)) % 40};
        const ProgramPtr got = cache.lookup(key(words));
        wrong += (got ? got : cache.insert(key(words), p)) != p;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.size(), 16u);
}

}  // namespace
}  // namespace torchport::exec
