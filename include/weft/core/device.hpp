#pragma once
// A place where memory lies and work runs: the host, or one CUDA device. A value; compare freely.

#include <iosfwd>

namespace weft {

class Device {
 public:
  enum class Kind { host, cuda };

  constexpr Device() = default;
  static constexpr Device host() { return {}; }
  static constexpr Device cuda(int index) { return Device(Kind::cuda, index); }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_host() const { return kind_ == Kind::host; }
  /// CUDA ordinal as the process sees it; 0 for the host.
  constexpr int index() const { return index_; }

  friend constexpr bool operator==(Device, Device) = default;
  /// "host" or "cuda:0".
  friend std::ostream& operator<<(std::ostream& out, Device device);

 private:
  constexpr Device(Kind kind, int index) : kind_(kind), index_(index) {}

  Kind kind_ = Kind::host;
  int index_ = 0;
};

}  // namespace weft
