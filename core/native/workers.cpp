#include "workers.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tftf {

void run_workers(uint32_t count, const std::function<void()>& work, const std::function<void()>& report) {
  if (count == 0) return;
  std::mutex mutex;
  std::condition_variable idle;
  uint32_t running = count;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (uint32_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      work();
      const std::lock_guard lock(mutex);
      if (--running == 0) idle.notify_one();
    });
  {
    std::unique_lock lock(mutex);
    while (!idle.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
      lock.unlock();
      report();
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  report();
}

}  // namespace tftf
