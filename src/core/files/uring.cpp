#include "core/files/uring.hpp"

#include "weft/core/error.hpp"

#if WEFT_HAS_URING

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/memory/per_process.hpp"
#include "weft/core/deadline.hpp"

namespace weft::detail {
namespace {

/// The most that one operation is asked for, because its length has 32 bits. The caller submits the rest.
constexpr std::size_t most_bytes = std::size_t{1} << 30;

[[noreturn]] void refuse(const char* what, int error, const char* advice) {
  throw Error(ErrorKind::system, text(what, ": ", std::strerror(error)), advice);
}

}  // namespace

class Uring::Ring {
 public:
  explicit Ring(unsigned operations) {
    const int status = io_uring_queue_init(operations, &ring_, 0);
    if (status == -EPERM || status == -ENOSYS || status == -EACCES)
      refuse("io_uring is not allowed here", -status,
             "a container's seccomp profile or kernel.io_uring_disabled forbids it, or Linux is older than "
             "5.11: allow it (docker run --security-opt seccomp=unconfined), or keep all state in memory");
    if (status != 0)
      refuse("cannot make an io_uring", -status, "where memory is short, `ulimit -l` may limit it");
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) {
      io_uring_queue_exit(&ring_);
      throw Error(ErrorKind::system, "this kernel's io_uring cannot wait for a time",
                  "use Linux 5.11 or newer, or keep all state in memory");
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { io_uring_queue_exit(&ring_); }

  template <class Prepare>
  void submit(std::uint64_t tag, Prepare prepare) {
    io_uring_sqe* entry = io_uring_get_sqe(get());
    if (entry == nullptr) throw Error(ErrorKind::internal, "more operations than the io_uring was made for");
    prepare(entry);
    io_uring_sqe_set_data64(entry, tag);
    int status = 0;
    do status = io_uring_submit(&ring_);
    while (status == -EINTR || status == -EAGAIN);
    if (status < 0) refuse("io_uring takes no operation", -status, "");
  }

  /// @param status of the liburing call that looked for an outcome
  std::optional<Outcome> outcome(int status, io_uring_cqe* entry) {
    if (status == -EAGAIN || status == -ETIME || status == -EINTR) return std::nullopt;
    if (status != 0) refuse("io_uring tells no outcome", -status, "");
    const Outcome found{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return found;
  }

  /// @throws Error (usage) in a child that was forked since: the outcomes are its parent's
  io_uring* get() {
    if (!origin_.is_here()) throw origin_.misuse("an io_uring", "read and write its files in the parent");
    return &ring_;
  }

 private:
  const Origin origin_;
  io_uring ring_{};
};

Uring::Uring(unsigned operations) : ring_(std::make_unique<Ring>(operations)) {}

void Uring::read(int file, std::span<std::byte> to, std::uint64_t offset, std::uint64_t tag) {
  ring_->submit(tag, [&](io_uring_sqe* entry) {
    io_uring_prep_read(entry, file, to.data(), static_cast<unsigned>(std::min(to.size(), most_bytes)),
                       offset);
  });
}

void Uring::write(int file, std::span<const std::byte> from, std::uint64_t offset, std::uint64_t tag) {
  ring_->submit(tag, [&](io_uring_sqe* entry) {
    io_uring_prep_write(entry, file, from.data(), static_cast<unsigned>(std::min(from.size(), most_bytes)),
                        offset);
  });
}

std::optional<Uring::Outcome> Uring::poll() {
  io_uring_cqe* entry = nullptr;
  const int status = io_uring_peek_cqe(ring_->get(), &entry);
  return ring_->outcome(status, entry);
}

std::optional<Uring::Outcome> Uring::wait(std::chrono::nanoseconds at_most) {
  const Deadline deadline = Deadline::in(at_most);
  do {
    const std::chrono::nanoseconds left = deadline.left();
    __kernel_timespec time{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    io_uring_cqe* entry = nullptr;
    const int status = io_uring_wait_cqe_timeout(ring_->get(), &entry, &time);
    if (const auto found = ring_->outcome(status, entry)) return found;
  } while (!deadline.passed());
  return std::nullopt;
}

}  // namespace weft::detail

#else

namespace weft::detail {

class Uring::Ring {};

Uring::Uring(unsigned) {
  throw Error(
      ErrorKind::usage, "a file is asked for in a weft that was built without io_uring",
      "install liburing-dev, configure again and look for WEFT_URING in the summary; or keep all state "
      "in memory");
}
void Uring::read(int, std::span<std::byte>, std::uint64_t, std::uint64_t) {}
void Uring::write(int, std::span<const std::byte>, std::uint64_t, std::uint64_t) {}
std::optional<Uring::Outcome> Uring::poll() {
  return std::nullopt;
}
std::optional<Uring::Outcome> Uring::wait(std::chrono::nanoseconds) {
  return std::nullopt;
}

}  // namespace weft::detail

#endif

namespace weft::detail {

Uring::~Uring() = default;
Uring::Uring(Uring&&) noexcept = default;

}  // namespace weft::detail
