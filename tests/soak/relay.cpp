// A switch that spoils what it carries, between network namespaces of this machine, for tests/spoiled.py.
//
//   relay SEED LOST DOUBLED LATE FLIPPED HOLDS|MENDED NAMESPACE...
//
// Makes a device eth0 in each namespace (of /run/netns), says "ready", and carries frames between them until its standard input
// ends; then says how many it spoiled. LOST, DOUBLED, LATE and FLIPPED are shares of the packets of IPv4 that are dropped, sent twice,
// sent after up to four later ones, and changed in one bit. HOLDS: the bit is anywhere behind the Ethernet header, and checksums
// stay as they were, so that the receiver's kernel sees it. MENDED: the bit is in TCP's payload, and TCP's checksum is made right
// again, so that the receiver's program gets it. Needs root. The devices go with this process.

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Frame = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t ethernet = 14;  // bytes of its header
constexpr std::size_t ip_header = 20;

/// A network device whose other end this process is. The kernel completes checksums and cuts large packets before it hands them
/// out here, and believes no checksum of what it gets.
int device_in(const std::string& name) {
  const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0)
    throw std::runtime_error("cannot enter the network namespace " + name + ": " + std::strerror(errno));
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strcpy(request.ifr_name, "eth0");
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0)
    throw std::runtime_error(std::string("cannot make a network device: ") + std::strerror(errno));
  return device;
}

std::uint32_t sum_of(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  return sum;
}

bool is_ip(const Frame& frame) {
  return frame.size() >= ethernet + ip_header && frame[12] == 0x08 && frame[13] == 0x00;
}

/// Where TCP's header and its payload are; payload is 0 where the frame has none.
struct Tcp {
  std::size_t header = 0, payload = 0, end = 0;

  explicit Tcp(const Frame& frame) {
    const std::size_t ip = ethernet;
    if ((frame[ip] >> 4) != 4 || frame[ip + 9] != IPPROTO_TCP) return;
    header = ip + (frame[ip] & 15U) * 4U;
    end = ip + (static_cast<std::size_t>(frame[ip + 2]) << 8 | frame[ip + 3]);
    if (end > frame.size() || header + 20 > end) return;
    const std::size_t begin = header + (frame[header + 12] >> 4) * 4U;
    if (begin < end) payload = begin;
  }

  void mend_checksum(Frame& frame) const {
    frame[header + 16] = frame[header + 17] = 0;
    std::uint32_t sum = IPPROTO_TCP + static_cast<std::uint32_t>(end - header);
    sum += sum_of(&frame[ethernet + 12], 8);  // both addresses
    sum += sum_of(&frame[header], end - header);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    frame[header + 16] = static_cast<std::uint8_t>(~sum >> 8);
    frame[header + 17] = static_cast<std::uint8_t>(~sum);
  }
};

struct Shares {
  double lost, doubled, late, flipped;
  bool mended;
};

class Switch {
 public:
  Switch(std::vector<int> ports, Shares shares, std::uint64_t seed)
      : ports_(std::move(ports)), shares_(shares), random_(seed), late_(ports_.size()) {}

  void run() {
    std::vector<pollfd> queries{{STDIN_FILENO, POLLIN, 0}};
    for (const int port : ports_) queries.push_back({port, POLLIN, 0});
    while (queries[0].revents == 0) {
      if (poll(queries.data(), queries.size(), 2) < 0 && errno != EINTR)
        throw std::runtime_error("poll failed");
      for (std::size_t i = 0; i < ports_.size(); ++i) {
        if (queries[i + 1].revents != 0) take(i);
        release(i, 0);
      }
    }
    std::printf("carried %ld lost %ld doubled %ld late %ld flipped %ld\n", carried_, lost_, doubled_,
                overtaken_, flipped_);
  }

 private:
  struct Late {
    Frame frame;
    int after;  // so many later ones
    Clock::time_point latest;
  };

  bool chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void take(std::size_t from) {
    Frame frame(65536);
    for (int i = 0; i < 64; ++i) {
      frame.resize(65536);
      const ssize_t got = read(ports_[from], frame.data(), frame.size());
      if (got < static_cast<ssize_t>(ethernet)) return;
      frame.resize(static_cast<std::size_t>(got));
      std::array<std::uint8_t, 6> source{};
      std::memcpy(source.data(), &frame[6], 6);
      place_[source] = from;
      spoil(from, frame);
    }
  }

  void spoil(std::size_t from, Frame& frame) {
    if (!is_ip(frame)) return send(from, frame);
    ++carried_;
    if (chance(shares_.lost)) {
      ++lost_;
      return;
    }
    if (chance(shares_.flipped)) flip(frame);
    if (chance(shares_.late)) {
      ++overtaken_;
      late_[from].push_back(
          {frame, static_cast<int>(below(4)) + 1, Clock::now() + std::chrono::milliseconds(5)});
      return;
    }
    send(from, frame);
    if (chance(shares_.doubled)) {
      ++doubled_;
      send(from, frame);
    }
    release(from, 1);
  }

  void flip(Frame& frame) {
    const Tcp tcp(frame);
    std::size_t begin = ethernet;
    std::size_t end = frame.size();
    if (shares_.mended) {
      if (tcp.payload == 0) return;
      begin = tcp.payload;
      end = tcp.end;
    }
    frame[begin + below(end - begin)] ^= static_cast<std::uint8_t>(1U << below(8));
    if (shares_.mended) tcp.mend_checksum(frame);
    ++flipped_;
  }

  /// Sends what has waited long enough, after `passed` more have gone by.
  void release(std::size_t from, int passed) {
    auto& waiting = late_[from];
    for (std::size_t i = 0; i < waiting.size();) {
      waiting[i].after -= passed;
      if (waiting[i].after > 0 && Clock::now() < waiting[i].latest) {
        ++i;
        continue;
      }
      send(from, waiting[i].frame);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// To the port where its destination was last seen, or to all others.
  void send(std::size_t from, const Frame& frame) {
    std::array<std::uint8_t, 6> target{};
    std::memcpy(target.data(), frame.data(), 6);
    const auto known = place_.find(target);
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      if (i == from || (known != place_.end() && known->second != i)) continue;
      // A queue that is full loses it, as on any line.
      if (write(ports_[i], frame.data(), frame.size()) < 0 && errno != EAGAIN && errno != EIO &&
          errno != ENOBUFS)
        throw std::runtime_error(std::string("cannot send: ") + std::strerror(errno));
    }
  }

  std::vector<int> ports_;
  Shares shares_;
  std::mt19937_64 random_;
  std::vector<std::deque<Late>> late_;
  std::map<std::array<std::uint8_t, 6>, std::size_t> place_;
  long carried_ = 0, lost_ = 0, doubled_ = 0, overtaken_ = 0, flipped_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 7 || (words[5] != "HOLDS" && words[5] != "MENDED")) {
    std::fputs("usage: relay SEED LOST DOUBLED LATE FLIPPED HOLDS|MENDED NAMESPACE...\n", stderr);
    return 42;
  }
  try {
    std::vector<int> ports;
    for (std::size_t i = 6; i < words.size(); ++i) ports.push_back(device_in(words[i]));
    std::puts("ready");
    std::fflush(stdout);
    Switch(std::move(ports),
           {std::stod(words[1]), std::stod(words[2]), std::stod(words[3]), std::stod(words[4]),
            words[5] == "MENDED"},
           std::stoull(words[0]))
        .run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "relay: %s\n", error.what());
    return 70;
  }
}
