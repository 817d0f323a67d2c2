#include "fake_nccl/hub.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "support/fake_nccl_sums.hpp"

namespace weft::fake_nccl {
namespace {

namespace nccl = detail::nccl;

std::atomic<int> answering = 0;  // threads that write to ranks: the process waits for them at its end

struct Answer {
  std::shared_ptr<Connection> to;
  std::uint32_t request = 0;
  std::vector<std::byte> bytes{};
};

/// Sends them when it is destroyed, without the lock under which they were made.
class Answers {
 public:
  Answers() { ++answering; }
  ~Answers() {
    for (const Answer& one : all_) one.to->answer(one.request, one.bytes);
    --answering;
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  void add(Answer one) { all_.push_back(std::move(one)); }

 private:
  std::vector<Answer> all_;
};

struct Brought {
  std::shared_ptr<Connection> by;
  Frame frame;
};

/// The ranks of a communicator.
class TeamHere {
 public:
  explicit TeamHere(int size) : connections_(static_cast<std::size_t>(size)) {}

  void take(int rank, const std::shared_ptr<Connection>& connection, Frame frame, Answers& answers) {
    const std::lock_guard lock(mutex_);
    auto needed = static_cast<std::int64_t>(connections_.size());
    std::string about;
    switch (frame.header.kind) {
      case Kind::send:
      case Kind::receive:
        return exchange(rank, {connection, std::move(frame)}, answers);
      case Kind::withdraw:
        return withdraw(rank, frame.header.request);
      case Kind::join:
        connections_[static_cast<std::size_t>(rank)] = connection;
        about = "join";
        break;
      case Kind::meet:
        needed = frame.header.numbers[0];
        about = "meet " + frame.text;
        break;
      default:
        about = "operation " + std::to_string(frame.header.numbers[0]);
    }
    meet(about, needed, rank, {connection, std::move(frame)}, answers);
  }

  /// Tells the others that this rank's connection is closed.
  void lose(int rank) {
    std::vector<std::shared_ptr<Connection>> others;
    {
      const std::lock_guard lock(mutex_);
      connections_[static_cast<std::size_t>(rank)] = nullptr;
      others = connections_;
    }
    for (const auto& other : others) {
      if (other) other->write({.kind = Kind::lost, .numbers = {rank}}, {}, {});
    }
  }

 private:
  using All = std::map<int, Brought>;  // by rank

  void meet(const std::string& about, std::int64_t needed, int rank, Brought brought, Answers& answers) {
    All& all = meetings_[about];
    all[rank] = std::move(brought);
    if (static_cast<std::int64_t>(all.size()) < needed) return;
    const Frame& first = all.begin()->second.frame;
    const bool agree = std::ranges::all_of(all, [&](const auto& one) {
      return one.second.frame.header.kind == first.header.kind &&
             (first.header.kind <= Kind::meet || one.second.frame.text == first.text);
    });
    if (!agree) return;
    if (first.header.kind <= Kind::meet) {
      std::vector<std::byte> joined;
      for (const auto& [of, one] : all)
        joined.insert(joined.end(), one.frame.bytes.begin(), one.frame.bytes.end());
      for (const auto& [of, one] : all) answers.add({one.by, one.frame.header.request, joined});
    } else {
      compute(all, answers);
    }
    meetings_.erase(about);
  }

  // A kernel that was aborted takes no part any more.
  void withdraw(int rank, std::uint32_t request) {
    for (auto& [about, all] : meetings_) {
      const auto mine = all.find(rank);
      if (mine != all.end() && mine->second.frame.header.request == request) all.erase(mine);
    }
    for (auto* const lanes : {&sent_, &wanted_}) {
      for (auto& [lane, all] : *lanes)
        std::erase_if(all, [&](const Brought& one) {
          return (lanes == &sent_ ? lane.first : lane.second) == rank && one.frame.header.request == request;
        });
    }
  }

  static void compute(const All& all, Answers& answers) {
    const Header& asked = all.begin()->second.frame.header;
    const auto count = static_cast<std::size_t>(asked.numbers[1]);
    const auto type = static_cast<nccl::Type>(asked.numbers[2]);
    const auto op = static_cast<nccl::Op>(asked.numbers[3]);
    const auto root = static_cast<int>(asked.numbers[4]);
    std::vector<const std::byte*> inputs;
    std::vector<std::byte> gathered;
    for (const auto& [rank, one] : all) {
      inputs.push_back(one.frame.bytes.data());
      if (asked.kind == Kind::all_gather)
        gathered.insert(gathered.end(), one.frame.bytes.begin(), one.frame.bytes.end());
    }
    std::vector<std::byte> sum;
    if (asked.kind == Kind::all_reduce || asked.kind == Kind::reduce)
      sum = test::fake_nccl_sum(inputs, count, type, op);
    if (asked.kind == Kind::reduce_scatter) sum = test::fake_nccl_sum(inputs, count * all.size(), type, op);
    const std::size_t share = count * test::fake_nccl_size(type);
    for (const auto& [rank, one] : all) {
      Answer answer{one.by, one.frame.header.request};
      if (asked.kind == Kind::all_reduce || (asked.kind == Kind::reduce && rank == root)) answer.bytes = sum;
      if (asked.kind == Kind::reduce_scatter) {
        const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank) * share);
        answer.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(share));
      }
      if (asked.kind == Kind::all_gather) answer.bytes = gathered;
      if (asked.kind == Kind::broadcast) answer.bytes = all.at(root).frame.bytes;
      answers.add(std::move(answer));
    }
  }

  // Messages between two ranks in their order. One whose length is not the receiver's is never delivered.
  void exchange(int rank, Brought brought, Answers& answers) {
    const auto other = static_cast<int>(brought.frame.header.numbers[0]);
    const bool sends = brought.frame.header.kind == Kind::send;
    const auto lane = sends ? std::pair(rank, other) : std::pair(other, rank);
    (sends ? sent_ : wanted_)[lane].push_back(std::move(brought));
    auto& letters = sent_[lane];
    auto& receivers = wanted_[lane];
    while (!letters.empty() && !receivers.empty()) {
      Brought& letter = letters.front();
      const Brought& receiver = receivers.front();
      if (static_cast<std::int64_t>(letter.frame.bytes.size()) != receiver.frame.header.numbers[1]) return;
      answers.add({letter.by, letter.frame.header.request});
      answers.add({receiver.by, receiver.frame.header.request, std::move(letter.frame.bytes)});
      letters.pop_front();
      receivers.pop_front();
    }
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::map<std::string, All> meetings_;
  std::map<std::pair<int, int>, std::deque<Brought>> sent_;  // from, to
  std::map<std::pair<int, int>, std::deque<Brought>> wanted_;
};

class Hub {
 public:
  Hub() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    listen(listener_, SOMAXCONN);  // at a port that the system chooses
    sockaddr_in mine{};
    socklen_t length = sizeof(mine);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&mine), &length);
    address_ = {interface(), ntohs(mine.sin_port)};
    std::thread([this] {
      for (;;) {
        const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) continue;
        std::thread([this, one = std::make_shared<Connection>(socket)] { serve(one); }).detach();
      }
    }).detach();
  }
  Address address() const { return address_; }

 private:
  // As NCCL finds it (misc/socket.cc, ncclFindInterfaces): NCCL_SOCKET_IFNAME, else a network, else loopback.
  static std::uint32_t interface() {
    const char* wanted = std::getenv("NCCL_SOCKET_IFNAME");
    ifaddrs* all = nullptr;
    std::uint32_t result = INADDR_LOOPBACK;
    if (getifaddrs(&all) != 0) return result;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0)
        continue;
      const bool fits = wanted != nullptr ? std::string_view(one->ifa_name).starts_with(wanted)
                                          : (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!fits) continue;
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof(address));
      result = ntohl(address.sin_addr.s_addr);
      break;
    }
    freeifaddrs(all);
    return result;
  }

  void serve(const std::shared_ptr<Connection>& connection) {
    std::shared_ptr<TeamHere> team;
    int rank = 0;
    while (auto frame = connection->read()) {
      if (frame->header.kind == Kind::leave) return;
      if (frame->header.kind == Kind::join) {
        rank = static_cast<int>(frame->header.numbers[1]);
        const std::lock_guard lock(mutex_);
        auto& one = teams_[frame->text];
        if (!one) one = std::make_shared<TeamHere>(static_cast<int>(frame->header.numbers[0]));
        team = one;
      }
      Answers answers;
      team->take(rank, connection, std::move(*frame), answers);
    }
    if (team) team->lose(rank);
  }

  const int listener_;
  Address address_{};
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<TeamHere>> teams_;
};

/// What has been computed for others leaves before the process ends.
struct AtTheEnd {
  ~AtTheEnd() {
    for (int i = 0; answering > 0 && i < 5000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
} at_the_end;

}  // namespace

Address own_hub() {
  static auto* const hub = new Hub;  // never destroyed: its threads go on until the process ends
  return hub->address();
}

}  // namespace weft::fake_nccl
