#include "exec/cache.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace torchport::exec {

struct ProgramCache::Entry {
  const ProgramCache* owner;
  std::vector<uint64_t> words;
  ProgramPtr program;
  std::atomic<uint64_t> used;  // the clock at the last use

  bool is(const ProgramCache* cache, std::span<const uint64_t> other) const {
    return owner == cache && words.size() == other.size() &&
           std::memcmp(words.data(), other.data(), other.size_bytes()) == 0;
  }
};

// What a thread has launched: open addressing by hash. Weak, so that an idle thread keeps no program alive.
struct ProgramCache::Seen {
  uint64_t hash = 0;
  std::weak_ptr<Entry> entry;
};

std::vector<ProgramCache::Seen>& ProgramCache::seen() {
  thread_local std::vector<Seen> table(4096);
  return table;
}

uint64_t hash_words(std::span<const uint64_t> words) {
  uint64_t h = 0x9E3779B97F4A7C15ull ^ words.size();
  for (uint64_t w : words) {
    h = (h ^ w) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

ProgramPtr ProgramCache::use(const std::shared_ptr<Entry>& entry) {
  const uint64_t now = clock_.load(std::memory_order_relaxed);
  // Written only when it changes: threads that launch the same program share the line.
  if (entry->used.load(std::memory_order_relaxed) != now) entry->used.store(now, std::memory_order_relaxed);
  return entry->program;
}

ProgramPtr ProgramCache::lookup(const KeyView& key) {
  std::vector<Seen>& table = seen();
  Seen& slot = table[key.hash % table.size()];
  if (slot.hash == key.hash)
    if (const auto entry = slot.entry.lock(); entry && entry->is(this, key.words)) [[likely]]
      return use(entry);
  std::shared_lock lock(mutex_);
  const auto [begin, end] = entries_.equal_range(key.hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->is(this, key.words)) {
      slot = {key.hash, it->second};
      return use(it->second);
    }
  return nullptr;
}

ProgramPtr ProgramCache::insert(const KeyView& key, ProgramPtr program) {
  std::vector<std::shared_ptr<Entry>> gone;  // unloads code when it dies, so after the lock
  std::unique_lock lock(mutex_);
  const auto [begin, end] = entries_.equal_range(key.hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->is(this, key.words)) return use(it->second);
  const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  entries_.emplace(key.hash,
                   std::make_shared<Entry>(this, std::vector(key.words.begin(), key.words.end()), program, now));
  if (entries_.size() > limit_) gone = evict();
  lock.unlock();
  return program;
}

std::vector<std::shared_ptr<ProgramCache::Entry>> ProgramCache::evict() {
  std::vector<uint64_t> times;
  times.reserve(entries_.size());
  for (const auto& [hash, entry] : entries_) times.push_back(entry->used.load(std::memory_order_relaxed));
  const auto quarter = times.begin() + static_cast<ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  std::vector<std::shared_ptr<Entry>> gone;
  for (auto it = entries_.begin(); it != entries_.end() && gone.size() <= times.size() / 4;) {
    if (it->second->used.load(std::memory_order_relaxed) > *quarter) {
      ++it;
      continue;
    }
    gone.push_back(std::move(it->second));
    it = entries_.erase(it);
  }
  return gone;
}

size_t ProgramCache::size() const {
  std::shared_lock lock(mutex_);
  return entries_.size();
}

}  // namespace torchport::exec
