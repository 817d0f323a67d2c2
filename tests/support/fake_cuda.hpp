#pragma once
// A fake CUDA: its device memory is the host's, its streams are threads, its kernels are their host twins. It
// stands in for the driver where the logic around it is tested: what is asynchronous on a device is so here,
// and a thread sanitizer sees every order that is missing. It says nothing about CUDA itself.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/memory/elementwise.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

class FakeCuda : public detail::cuda::Runtime {
 public:
  using NativeStream = detail::cuda::NativeStream;
  using NativeEvent = detail::cuda::NativeEvent;

  explicit FakeCuda(int devices = 8) : devices_(devices) {}

  /// Puts work on a stream, as a kernel launch does.
  static void enqueue(NativeStream stream, std::function<void()> work) { of(stream).push(std::move(work)); }

  /// The next call of this name is refused.
  void refuse_next(const std::string& call) {
    const std::lock_guard lock(mutex_);
    refused_[call] += 1;
  }
  /// From now on the device reports that work failed.
  void break_device() { broken_ = true; }
  std::size_t memory = std::size_t{1} << 30;  ///< bytes a device has
  std::atomic<std::size_t> allocated{0};
  std::atomic<int> allocations{0};  ///< on the device and of pinned memory, so far
  std::atomic<int> events_made{0};
  std::atomic<int> streams{0};
  std::atomic<int> strayed{
      0};  ///< events that were asked on a thread with another device, which opens a context there
  std::atomic<int> waits{0};  ///< of streams for events, on the device

  int devices() override {
    may("devices");
    return devices_;
  }
  std::string identity(int device) override { return text("fake ", device); }
  int current() override { return current_device; }
  void make_current(int device) override { current_device = device; }

  NativeStream make_stream(int device, bool first = false) override {
    may("make_stream");
    ++streams;
    auto* queue = new Queue;
    queue->device = device;
    queue->first = first;
    const std::lock_guard lock(mutex_);
    pending_.emplace_back(device, queue->pending());
    return reinterpret_cast<NativeStream>(queue);
  }
  void destroy(NativeStream stream) noexcept override {
    --streams;
    delete &of(stream);
  }
  bool is_on(NativeStream stream, int device) override { return of(stream).device == device; }
  bool capturing(NativeStream stream, int) override { return stream != nullptr && of(stream).captured; }
  static bool is_first(NativeStream stream) { return of(stream).first; }
  /// From now on what the stream is given goes into a graph, or no more.
  static void capture(NativeStream stream, bool captured) { of(stream).captured = captured; }

  NativeEvent make_event(int device, bool) override {
    may("make_event");
    ++events_made;
    return reinterpret_cast<NativeEvent>(new FakeEvent(device));
  }
  void destroy(NativeEvent event) noexcept override { delete &of(event); }
  void record(NativeEvent event, NativeStream stream) override {
    may("record");
    auto mark = std::make_shared<Mark>();
    of(event).set(mark);
    of(stream).push([mark] {
      mark->at = std::chrono::steady_clock::now();
      mark->passed.store(true, std::memory_order_release);
      mark->passed.notify_all();
    });
  }
  bool passed(NativeEvent event) override {
    if (broken_) throw Error(ErrorKind::system, "work on a stream failed: the fake was told so");
    if (of(event).device() != current_device) ++strayed;
    const auto mark = of(event).get();
    return !mark || mark->passed.load(std::memory_order_acquire);
  }
  double seconds_between(NativeEvent begin, NativeEvent end) override {
    return std::chrono::duration<double>(of(end).get()->at - of(begin).get()->at).count();
  }
  void wait(NativeStream stream, NativeEvent event) override {
    may("wait");
    ++waits;
    // Asleep: a stream that stands still takes no processor from the others, whose times a test may compare.
    of(stream).push([mark = of(event).get()] {
      if (mark) mark->passed.wait(false, std::memory_order_acquire);
    });
  }

  void* allocate(int device, std::size_t bytes) override {
    may("allocate");
    ++allocations;
    if (allocated + bytes > memory)
      throw Error(ErrorKind::system, text("cannot allocate ", bytes, " bytes on ", Device::cuda(device)));
    const std::lock_guard lock(mutex_);
    void* result = std::calloc(1, bytes);
    sizes_[result] = bytes;
    allocated += bytes;
    return result;
  }
  // As cudaFree: what the device was given to do may use the memory, also after an error.
  void release(int device, void* address) noexcept override {
    drain(device);
    const std::lock_guard lock(mutex_);
    allocated -= sizes_[address];
    sizes_.erase(address);
    std::free(address);
  }
  void drain(int device) noexcept override {
    for (const auto& work : pending_on(device)) {
      while (*work > 0) std::this_thread::yield();
    }
  }
  void* allocate_on_host(int, std::size_t bytes) override {
    may("allocate_on_host");
    ++allocations;
    return std::calloc(1, bytes);
  }
  void release_on_host(int device, void* address) noexcept override {
    drain(device);
    std::free(address);
  }

  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    may("copy");
    enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  void fill_zero(void* address, std::size_t bytes, NativeStream stream) override {
    enqueue(stream, [=] { std::memset(address, 0, bytes); });
  }
  void divide(View data, std::int64_t divisor, NativeStream stream) override {
    may("divide");
    enqueue(stream, [=] { detail::on_host::divide(data, divisor); });
  }
  void scale(View data, double factor, NativeStream stream) override {
    enqueue(stream, [=] { detail::on_host::scale(data, factor); });
  }
  void add(View to, ConstView from, NativeStream stream) override {
    enqueue(stream, [=] { detail::on_host::add(to, from); });
  }
  void square_sums(View sums, ConstView data, std::int64_t block, NativeStream stream) override {
    enqueue(stream, [=] {
      detail::on_host::square_sums(View(sums.data(), sums.count(), sums.dtype()), data, block);
    });
  }
  void count_bad(View counts, ConstView data, NativeStream stream) override {
    enqueue(stream,
            [=] { detail::on_host::count_bad(View(counts.data(), counts.count(), counts.dtype()), data); });
  }
  void cast(View to, ConstView from, NativeStream stream) override {
    enqueue(stream, [=] { detail::on_host::cast(to, from); });
  }
  void fill(View data, double value, NativeStream stream) override {
    enqueue(stream, [=] { detail::on_host::fill(data, value); });
  }
  void pack(View flat, std::span<const ConstView> pieces, NativeStream stream) override {
    enqueue(stream, [flat, some = std::vector<ConstView>(pieces.begin(), pieces.end())] {
      detail::on_host::pack(flat, some);
    });
  }

 private:
  class Queue {
   public:
    int device = 0;
    bool first = false;
    std::atomic<bool> captured{false};
    ~Queue() {
      push(nullptr);
      worker_.join();
    }
    std::shared_ptr<std::atomic<int>> pending() const { return pending_; }
    void push(std::function<void()> work) {
      ++*pending_;
      {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(work));
      }
      wake_.notify_one();
    }

   private:
    void work() {
      for (;;) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        const auto next = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        if (next) next();
        --*pending_;
        if (!next) return;
      }
    }

    std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> queue_;
    std::thread worker_{[this] { work(); }};
  };

  struct Mark {
    std::atomic<bool> passed{false};
    std::chrono::steady_clock::time_point at;
  };
  class FakeEvent {
   public:
    explicit FakeEvent(int device) : device_(device) {}
    int device() const { return device_; }
    void set(std::shared_ptr<Mark> mark) {
      const std::lock_guard lock(mutex_);
      mark_ = std::move(mark);
    }
    std::shared_ptr<Mark> get() {
      const std::lock_guard lock(mutex_);
      return mark_;
    }

   private:
    int device_;
    std::mutex mutex_;
    std::shared_ptr<Mark> mark_;
  };

  /// Null is the default stream of the current device.
  static Queue& of(NativeStream stream) {
    if (stream != nullptr) return *reinterpret_cast<Queue*>(stream);
    static std::mutex mutex;
    static std::map<int, Queue> by_device;
    const std::lock_guard lock(mutex);
    return by_device[current_device];
  }
  static FakeEvent& of(NativeEvent event) { return *reinterpret_cast<FakeEvent*>(event); }

  void may(const std::string& call) {
    const std::lock_guard lock(mutex_);
    const auto refused = refused_.find(call);
    if (refused == refused_.end() || refused->second == 0) return;
    --refused->second;
    throw Error(ErrorKind::system, text("the fake refuses ", call));
  }

  std::vector<std::shared_ptr<std::atomic<int>>> pending_on(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<std::atomic<int>>> result;
    for (const auto& [where, work] : pending_) {
      if (where == device) result.push_back(work);
    }
    return result;
  }

  static inline thread_local int current_device = 0;

  int devices_;
  std::mutex mutex_;
  std::map<std::string, int> refused_;
  std::map<void*, std::size_t> sizes_;
  std::vector<std::pair<int, std::shared_ptr<std::atomic<int>>>> pending_;  // device, work of a stream
  std::atomic<bool> broken_{false};
};

/// Puts a fake in force for a scope.
class WithFakeCuda {
 public:
  explicit WithFakeCuda(int devices = 8) : fake_(std::make_shared<FakeCuda>(devices)) {
    detail::cuda::replace_runtime(fake_);
  }
  ~WithFakeCuda() { detail::cuda::replace_runtime(nullptr); }
  WithFakeCuda(const WithFakeCuda&) = delete;
  WithFakeCuda& operator=(const WithFakeCuda&) = delete;

  FakeCuda* operator->() const { return fake_.get(); }

 private:
  std::shared_ptr<FakeCuda> fake_;
};

}  // namespace weft::test
