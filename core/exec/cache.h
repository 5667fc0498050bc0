// The programs of eager launches by key. Bounded: compiled code costs memory and, on CPUs, mappings, of which a process
// has only so many (65,530 on Linux; a program of the CPU plugin takes 4 to 9).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>

#include "exec/program.h"

namespace torchport::exec {

// A launch's identity: the words that aten/ collects while it walks the arguments.
struct KeyView {
  std::span<const uint64_t> words;
  uint64_t hash;
};
uint64_t hash_words(std::span<const uint64_t>);

using ProgramPtr = std::shared_ptr<const Program>;

class ProgramCache {
 public:
  explicit ProgramCache(size_t limit) : limit_(limit) {}

  // Takes no lock on a thread that has seen the key before. Null when there is none.
  ProgramPtr lookup(const KeyView&);
  // The program that the key has from now on: of the first thread that came. Beyond the limit the quarter that went
  // unused for longest leaves, and is compiled again at its next launch.
  ProgramPtr insert(const KeyView&, ProgramPtr);
  size_t size() const;

 private:
  struct Entry;
  struct Seen;
  static std::vector<Seen>& seen();
  ProgramPtr use(const std::shared_ptr<Entry>&);
  std::vector<std::shared_ptr<Entry>> evict();  // needs the lock; what it returns dies without

  const size_t limit_;
  std::atomic<uint64_t> clock_{0};  // counts insertions
  mutable std::shared_mutex mutex_;
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace torchport::exec
