#pragma once
// What NCCL does with a tuner, of five releases: it finds the library by its name, asks for the highest interface that it knows, starts a tuner
// for each communicator, and asks it for each collective. Each act names the line of NCCL's source that does so.
//
//   LoadingNccl nccl(Release::v2_28, "weft");
//   Communicator communicator(nccl, 16, 2);                  // ranks, nodes
//   CostTable costs = ...;
//   const Choice choice = communicator.choose(allreduce, 1 << 20, 1, costs, 0);

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::tuner {

enum class Release { v2_21, v2_22, v2_24, v2_28, v2_30 };

inline constexpr int broadcast = 0, reduce = 1, all_gather = 2, reduce_scatter = 3, all_reduce = 4;
inline constexpr int tree = 0, ring = 1, collnet_direct = 2, nvls = 4, nvls_tree = 5, pat = 6;
inline constexpr int ll = 0, ll128 = 1, simple = 2;

/// Flat, as NCCL's; where a release has six algorithms the last row is none of its own.
using CostTable = std::array<float, 21>;

struct Choice {
  int algorithm = -1;
  int protocol = -1;
  int channels = 0;  ///< 0: NCCL's own number
  CostTable after{};

  friend bool operator==(const Choice&, const Choice&) = default;
};

class LoadingNccl {
 public:
  /// @param name of NCCL_TUNER_PLUGIN
  LoadingNccl(Release release, const std::string& name);
  ~LoadingNccl();
  LoadingNccl(const LoadingNccl&) = delete;
  LoadingNccl& operator=(const LoadingNccl&) = delete;

  bool loaded() const { return library_ != nullptr; }
  /// 2 to 6
  int interface() const { return interface_; }
  std::string tuner_name() const;
  Release release() const { return release_; }
  const void* symbol() const { return symbol_; }

  /// What tuners have logged in this process: "WARN file:line text"
  static std::vector<std::string> log();
  static void clear_log();

 private:
  Release release_;
  void* library_ = nullptr;
  const void* symbol_ = nullptr;
  int interface_ = 0;
};

class Communicator {
 public:
  /// @throws std::runtime_error where the tuner's init fails
  Communicator(const LoadingNccl& nccl, std::size_t ranks, std::size_t nodes);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// @throws std::runtime_error where the tuner fails, or has written beside the table
  Choice choose(int collective, std::size_t bytes, int pipe_ops, const CostTable& costs, int registered);
  /// The same, without looking for the least entry. It is what takes the time in many calls.
  Choice ask(int collective, std::size_t bytes, int pipe_ops, const CostTable& costs, int registered);

 private:
  const LoadingNccl& nccl_;
  void* context_ = nullptr;
};

}  // namespace weft::tuner
