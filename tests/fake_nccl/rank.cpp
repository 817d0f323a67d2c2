#include "fake_nccl/rank.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "fake_nccl/hub.hpp"
#include "fake_nccl/streams.hpp"

namespace weft::fake_nccl {
namespace {

using namespace std::chrono_literals;
namespace nccl = detail::nccl;

// misc/utils.cc:79
std::uint64_t find_host_hash() {
  if (const char* id = std::getenv("NCCL_HOSTID")) return std::hash<std::string>{}(id);
  char name[256]{};
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::hash<std::string>{}(name + boot);
}

// Once a process (misc/utils.cc:112): what is set later is not seen.
std::uint64_t host_hash() {
  static const std::uint64_t hash = find_host_hash();
  return hash;
}

// misc/socket.cc:580: a refused connection is tried again, 34 times.
std::shared_ptr<Connection> connect_with_patience(Address address) {
  constexpr int times = 34;
  for (int i = 1; i <= times; ++i) {
    if (auto connection = Connection::to(address)) return connection;
    std::this_thread::sleep_for(i * 100ms);
  }
  return nullptr;
}

}  // namespace

Rank::Rank(Team team, int rank, std::shared_ptr<Connection> connection)
    : team_(std::move(team)), rank_(rank), connection_(std::move(connection)) {}

Result Rank::connect(const Team& team, int size, int rank, const Rank* parent, std::shared_ptr<Rank>& made) {
  auto connection = connect_with_patience(team.hub);
  if (!connection) return nccl::system_error;
  const std::shared_ptr<Rank> one(new Rank(team, rank, std::move(connection)));
  std::thread([one] { one->read(); }).detach();
  const Member me{.hub = own_hub(), .host = host_hash(), .device = current_device(), .version = version()};
  const auto request =
      one->ask({.kind = Kind::join, .numbers = {size, rank}}, team.name, std::as_bytes(std::span(&me, 1)));
  std::vector<std::byte> all;
  if (const Result result = one->wait_in_call(request, parent, &all); result != nccl::success) {
    one->connection_->close();
    return result;
  }
  one->members_.resize(all.size() / sizeof(Member));
  std::memcpy(one->members_.data(), all.data(), all.size());
  for (int other = 0; other < size; ++other) {  // init.cc:895 to 907
    const Member& peer = one->members_[static_cast<std::size_t>(other)];
    if (peer.version != me.version || (other != rank && peer.host == me.host && peer.device == me.device)) {
      say(peer.version != me.version ? "Mismatched NCCL version detected" : "Duplicate GPU detected");
      one->end(false);
      return nccl::invalid_usage;
    }
  }
  {
    const std::lock_guard lock(wishes().mutex);
    if (wishes().observer) one->observed_ = wishes().observer(team.name, size, rank);
  }
  made = one;
  return nccl::success;
}

void Rank::read() {
  const auto self = shared_from_this();
  while (auto frame = connection_->read()) {
    const std::lock_guard lock(mutex_);
    if (frame->header.kind == Kind::lost) {
      somebody_is_lost_ = true;
    } else if (const auto asked = answers_.find(frame->header.request); asked != answers_.end()) {
      asked->second = std::move(*frame);
    }
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  somebody_is_lost_ = true;  // whose hub it was
  changed_.notify_all();
}

bool Rank::reaches_all() const {
  return std::ranges::all_of(members_, [&](const Member& one) { return one.host == members_.front().host; });
}

void Rank::later(std::function<void()> store) {
  static std::atomic<unsigned> delays = 0;
  constexpr unsigned most_polls = 3;
  const std::lock_guard lock(mutex_);
  polls_ = static_cast<int>(++delays % (most_polls + 1));
  store_ = std::move(store);
}

Result Rank::poll() {
  {
    const std::lock_guard lock(mutex_);
    if (wishes().non_blocking && is_stuck()) return nccl::in_progress;
    if (store_) {
      if (polls_-- > 0) return nccl::in_progress;
      std::exchange(store_, {})();
    }
  }
  return state();
}

Result Rank::hold() {
  std::unique_lock lock(mutex_);
  while (is_stuck() && !aborted_ && generation_ == wishes().generation) changed_.wait_for(lock, 5ms);
  return aborted_ ? nccl::internal_error : nccl::success;
}

Result Rank::state() const {
  const Result wished = wishes().states[static_cast<std::size_t>(rank_) % Wishes::most_ranks];
  if (wished != nccl::success) return wished;
  const std::lock_guard lock(mutex_);
  return somebody_is_lost_ && !deaths_are_silent() ? nccl::remote_error : nccl::success;
}

Result Rank::ready() const {
  {
    const std::lock_guard lock(mutex_);
    if (revoked_) return nccl::invalid_usage;
    if (store_) return nccl::invalid_argument;
  }
  return state();
}

std::uint32_t Rank::ask(Header header, const std::string& text, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    header.request = ++requests_;
    answers_[header.request];
  }
  connection_->write(header, text, bytes);  // where that fails, the reader hears of it
  return header.request;
}

// Bootstrap's sockets tell of a rank that is gone; the flag for aborting ends every wait.
Result Rank::wait_in_call(std::uint32_t request, const Rank* parent, std::vector<std::byte>* all) {
  std::unique_lock lock(mutex_);
  std::optional<Frame>& answer = answers_[request];
  for (;;) {
    if (answer && !is_stuck()) break;
    if (aborted_ || generation_ != wishes().generation) {
      lock.unlock();
      withdraw(request);
      return nccl::internal_error;
    }
    if (somebody_is_lost_ && !deaths_are_silent()) return nccl::remote_error;
    changed_.wait_for(lock, 5ms);
    if (parent == nullptr) continue;
    lock.unlock();
    const bool over = [&] {
      const std::lock_guard of_parent(parent->mutex_);
      return parent->aborted_;
    }();
    lock.lock();
    if (over) return nccl::internal_error;
  }
  if (all != nullptr) *all = std::move(answer->bytes);
  answers_.erase(request);
  return nccl::success;
}

std::uint32_t Rank::come_to(const std::string& about, int needed, std::span<const std::byte> mine) {
  return ask({.kind = Kind::meet, .numbers = {needed}}, about, mine);
}
Result Rank::meet(const std::string& about, int needed, std::span<const std::byte> mine,
                  std::vector<std::byte>* all) {
  return wait_in_call(come_to(about, needed, mine), nullptr, all);
}

std::optional<std::uint32_t> Rank::connect_collectives() {
  if (std::exchange(collectives_are_connected_, true)) return std::nullopt;
  return come_to("collectives", size(), {});
}

std::optional<std::uint32_t> Rank::connect_message(int from, int to) {
  if (from == to || std::exchange(connected_[{from, to}], true)) return std::nullopt;
  return come_to("message " + std::to_string(from) + " " + std::to_string(to), 2, {});
}

Result Rank::enqueue(Stream stream, Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    ++on_streams_;
  }
  const bool is_taken = on_stream(stream, [self = shared_from_this(), work = std::move(operation)] {
    work(*self);
    const std::lock_guard lock(self->mutex_);
    --self->on_streams_;
    self->changed_.notify_all();
  });
  if (is_taken) return wishes().non_blocking && is_stuck() ? nccl::in_progress : nccl::success;
  const std::lock_guard lock(mutex_);
  --on_streams_;
  return nccl::unhandled_cuda_error;
}

std::optional<Frame> Rank::wait(std::uint32_t request) {
  std::unique_lock lock(mutex_);
  std::optional<Frame>& answer = answers_[request];
  changed_.wait(lock, [&] { return answer || aborted_; });
  std::optional<Frame> result = std::move(answer);
  answers_.erase(request);
  lock.unlock();
  if (!result) withdraw(request);
  return result;
}

void Rank::withdraw(std::uint32_t request) {
  connection_->write({.kind = Kind::withdraw, .request = request}, {}, {});
}

void Rank::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}
void Rank::revoke() {
  abort();
  std::unique_lock lock(mutex_);
  revoked_ = true;
  changed_.wait(lock, [this] { return on_streams_ == 0; });
}
void Rank::let_go_on() {
  std::unique_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return on_streams_ == 0; });
  aborted_ = false;
}

void Rank::end(bool leave_well) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return on_streams_ == 0; });
  }
  observed_.reset();
  if (leave_well) connection_->write({.kind = Kind::leave}, {}, {});
  connection_->close();
}

}  // namespace weft::fake_nccl
