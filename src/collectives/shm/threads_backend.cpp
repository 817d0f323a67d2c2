#include "collectives/shm/threads_backend.hpp"

#include <exception>
#include <thread>

#include "collectives/shm/cores.hpp"
#include "collectives/shm/shm_backend.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class ThreadsSegment final : public ShmSegment {
 public:
  ThreadsSegment(int rank, int size, std::shared_ptr<SharedMapping> memory, const ThreadsOptions& options)
      : ShmSegment(rank, size, std::move(memory), options.timeout, Cores::of_this_thread().count()),
        options_(options) {}

  const ThreadsOptions& options() const { return options_; }

  Address publish(const void* memory, std::size_t bytes) const override {
    return {options_.shared_memory || bytes == 0, reinterpret_cast<std::uintptr_t>(memory)};
  }
  std::byte* resolve(int, Address address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address.token));  // NOLINT: it was one
  }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return Buffer::on_host(dtype, count, contents);
  }

 private:
  ThreadsOptions options_;
};

class ThreadsBackend final : public ShmBackend {
 public:
  explicit ThreadsBackend(std::shared_ptr<ThreadsSegment> segment)
      : ShmBackend(segment), options_(segment->options()), size_(segment->size()) {}

  std::string name() const override { return size_ == 1 ? "self" : "threads"; }
  std::shared_ptr<Backend> split(const std::vector<int>&,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_threads_backend(rendezvous, options_);
  }

 private:
  ThreadsOptions options_;
  int size_;
};

}  // namespace

std::shared_ptr<Backend> make_threads_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                              const ThreadsOptions& options) {
  const Deadline deadline = Deadline::in(options.timeout);
  // The first rank makes the memory; the others find its owner by address and become owners too. One mapping
  // for all, for a thread sanitizer knows synchronization by address.
  std::shared_ptr<SharedMapping> memory;
  if (rendezvous->rank() == 0) {
    memory = std::make_shared<SharedMapping>(
        MemoryFile("weft-threads", ShmSegment::bytes_for(rendezvous->size())).map());
    ShmSegment::mark(*memory, rendezvous->size(), reinterpret_cast<std::uintptr_t>(memory.get()));
  }
  const auto owner = text(reinterpret_cast<std::uintptr_t>(&memory));
  const auto notes = rendezvous->all_gather(owner, "connect threads", deadline);
  const auto* first =
      reinterpret_cast<const std::shared_ptr<SharedMapping>*>(std::stoull(notes[0]));  // NOLINT: it was one
  ShmSegment::expect(**first, rendezvous->size(), reinterpret_cast<std::uintptr_t>(first->get()));
  auto segment = std::make_shared<ThreadsSegment>(rendezvous->rank(), rendezvous->size(), *first, options);
  rendezvous->all_gather("", "connect threads: memory is mapped", deadline);
  return std::make_shared<ThreadsBackend>(std::move(segment));
}

void on_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace weft::detail
