// Transfers, waiting, the memory account.
#include <atomic>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace torchport::pjrt {

TEST(Buffer, RoundTripKeepsEveryBitOfEveryDtype) {
  for (int d = 0; d < static_cast<int>(Dtype::kCount); ++d) {
    const auto dtype = static_cast<Dtype>(d);
    const size_t bytes = 6 * size_of(dtype);
    std::vector<unsigned char> in(bytes), out(bytes, 0xEE);
    for (size_t i = 0; i < bytes; ++i) in[i] = dtype == Dtype::b1 ? i % 2 : static_cast<unsigned char>(i * 7 + 1);
    const int64_t dims[] = {2, 3};
    const BufferPtr buffer = cpu().to_device(in.data(), dtype, dims, 2, cpu().device(0));
    EXPECT_EQ(buffer->bytes(), static_cast<int64_t>(bytes));
    buffer->to_host(out.data(), bytes);
    EXPECT_EQ(in, out) << name(dtype);
    EXPECT_EQ(std::memcmp(buffer->host_pointer(), in.data(), bytes), 0) << name(dtype);
  }
}

TEST(Buffer, SourceMayChangeAfterTheCopy) {
  std::vector<float> big(1 << 20, 1.0f);
  const BufferPtr buffer = floats(big, cpu().device(0));
  std::fill(big.begin(), big.end(), 2.0f);
  const std::vector<float> back = read(buffer);
  EXPECT_EQ(back, std::vector<float>(1 << 20, 1.0f));
}

TEST(Buffer, EmptyAndScalar) {
  const int64_t dims[] = {0, 3};
  const BufferPtr empty = cpu().to_device(nullptr, Dtype::f64, dims, 2, cpu().device(0));
  EXPECT_EQ(empty->bytes(), 0);
  EXPECT_EQ(empty->host_pointer(), nullptr);
  empty->to_host(nullptr, 0);
  const double pi = 3.25;
  double back = 0;
  const BufferPtr scalar = cpu().to_device(&pi, Dtype::f64, nullptr, 0, cpu().device(0));
  scalar->to_host(&back, sizeof back);
  EXPECT_EQ(back, pi);
}

TEST(Buffer, WrongSizeIsRefused) {
  float out[8];
  const BufferPtr buffer = floats({1, 2, 3, 4}, cpu().device(0));
  EXPECT_EQ(error_of([&] { buffer->to_host(out, sizeof out); }).code, Code::internal);
}

TEST(Buffer, CopiesBetweenDevices) {
  ASSERT_GE(cpu().devices().size(), 2u);
  const BufferPtr here = floats({1, 2, 3, 4}, cpu().device(0));
  const BufferPtr there = here->copy_to(cpu().device(1));
  EXPECT_EQ(there->device(), &cpu().device(1));
  EXPECT_EQ(read(there), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Buffer, PointerCountsItsHolders) {
  BufferPtr a = floats({1}, cpu().device(0));
  EXPECT_EQ(a.use_count(), 1);
  BufferPtr b = a;
  EXPECT_EQ(a.use_count(), 2);
  BufferPtr c = std::move(b);
  EXPECT_FALSE(b);
  EXPECT_EQ(a.use_count(), 2);
  c = c;
  EXPECT_EQ(c.use_count(), 2);
  c = nullptr;
  EXPECT_EQ(a.use_count(), 1);
  a = BufferPtr();
  EXPECT_EQ(a.use_count(), 0);
}

TEST(Buffer, EventTellsCompletion) {
  const BufferPtr buffer = floats({1, 2}, cpu().device(0));
  buffer->wait();
  EXPECT_TRUE(buffer->is_ready());
  Event event = buffer->ready();
  event.wait();
  EXPECT_TRUE(event.is_ready());
  std::atomic<int> calls{0};
  event.on_ready([&] { ++calls; });
  Event moved = std::move(event);
  moved.wait();
  while (!calls) std::this_thread::yield();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(Event().is_ready());
  Event().wait();
}

TEST(Memory, AccountFollowsBuffers) {
  Device& device = cpu().device(0);
  const int64_t held = device.allocated, made = device.allocations, freed = device.frees, total = device.total;
  device.reset_peak();
  {
    const BufferPtr a = floats(std::vector<float>(256), device);
    const BufferPtr same = a;
    EXPECT_EQ(device.allocated - held, 1024);
    const BufferPtr b = floats(std::vector<float>(256), device);
    EXPECT_EQ(device.allocated - held, 2048);
  }
  EXPECT_EQ(device.allocated, held);
  EXPECT_EQ(device.peak - held, 2048);
  EXPECT_EQ(device.allocations - made, 2);
  EXPECT_EQ(device.frees - freed, 2);
  EXPECT_EQ(device.total - total, 2048);
  device.reset_peak();
  EXPECT_EQ(device.peak, held);
}

TEST(Memory, ReserveRefusesWhatDoesNotFit) {
  Device& device = cpu().device(0);
  const int64_t limit = device.memory_limit();
  EXPECT_GT(limit, 64 << 20);
  device.set_memory_limit(device.allocated + 1000);
  const Error error = error_of([&] { floats(std::vector<float>(256), device); });
  device.reserve(1000, "nothing");
  device.set_memory_limit(limit);
  EXPECT_EQ(error.code, Code::out_of_memory);
  EXPECT_NE(error.text.find("tried to allocate 1.00 KiB; "), std::string::npos) << error.what();
  EXPECT_NE(error.text.find(" in use"), std::string::npos) << error.what();
  EXPECT_EQ(read(floats({5}, device)), std::vector<float>{5});
}

TEST(Memory, AccountIsExactUnderThreads) {
  Device& device = cpu().device(0);
  const int64_t held = device.allocated;
  const BufferPtr shared = floats(std::vector<float>(16), device);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const BufferPtr copy = shared, own = floats({1, 2, 3}, device);
        EXPECT_EQ(read(own).size(), 3u);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device.allocated - held, 64);
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace torchport::pjrt
