#pragma once
// What torch calls: a c10d::Backend whose operations weft carries out.
//
// Any thread may call; each call makes a TorchWork and starts it in the group. Names are torch's. Methods
// without `override` are new in some version of torch, and are only called by those that have them.

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "torch/distributed/group.hpp"

namespace weft::distributed {

class DeviceGroups;
class TorchStore;

/// Whether this torch asks its backends to split groups; older ones split NCCL's alone.
template <class Backend>
concept Splits = requires {
  &Backend::split;
};

class TorchBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Result = c10::intrusive_ptr<c10d::Work>;

  /// Collective over the ranks that share `store`. @throws torch's errors; naming the ranks that are missing
  static c10::intrusive_ptr<TorchBackend> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                  int size, std::chrono::milliseconds timeout,
                                                  GroupName name);
  TorchBackend(std::shared_ptr<Group> group, std::shared_ptr<TorchStore> store);
  ~TorchBackend() override;

  const std::string getBackendName() const override { return "weft"; }
  c10::intrusive_ptr<Options> getBackendOptions();
  bool supportsSplitting() const override { return Splits<c10d::Backend>; }
  /// Collective over this group's ranks; null on those that are not among `ranks`, which are this group's
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  Result endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout);
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;
  void abort() override;
  void shutdown() override;
  /// The host has no index.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  Result broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Result allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Result allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Result allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Result reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Result barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  Result allgather(std::vector<Tensors>& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  Result _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& options) override;
  Result allgather_coalesced(std::vector<Tensors>& out, Tensors& in,
                             const c10d::AllgatherOptions& options) override;
  Result allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                         const c10d::AllgatherOptions& options) override;
  Result reduce_scatter(Tensors& out, std::vector<Tensors>& in,
                        const c10d::ReduceScatterOptions& options) override;
  Result _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                              const c10d::ReduceScatterOptions& options) override;
  Result reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                         const c10d::ReduceScatterOptions& options) override;

  Result gather(std::vector<Tensors>& out, Tensors& in, const c10d::GatherOptions& options) override;
  Result gather_into_tensor(at::Tensor& out, at::Tensor& in, const c10d::GatherOptions& options);
  Result scatter(Tensors& out, std::vector<Tensors>& in, const c10d::ScatterOptions& options) override;
  Result alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_sizes,
                       std::vector<std::int64_t>& in_sizes, const c10d::AllToAllOptions& options) override;
  Result alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) override;

  Result send(Tensors& tensors, int peer, int tag) override;
  Result recv(Tensors& tensors, int peer, int tag) override;
  Result recvAnysource(Tensors& tensors, int tag) override;

  Group& group() { return *group_; }
  /// Connects the group's communicator for a device, which its first operation on a tensor there does otherwise. Messages between two
  /// ranks go over it from then on. Collective.
  void eagerConnectSingleDevice(at::Device device) override;
  const std::shared_ptr<Group>& shared_group() const { return group_; }

 private:
  template <class Options>
  static bool is_async(const Options& options) {
    if constexpr (requires { options.asyncOp; }) return options.asyncOp;
    return true;
  }
  /// For the group of the tensors' device. The first call on a device connects it. @param device of a call without tensors
  TorchWorkPtr make(Call call, c10::Device device = at::kCPU);
  Result start(TorchWorkPtr work);
  bool is_coalescing();
  Result gather_tensors(c10d::OpType type, const char* title, Tensors& out, Tensors& in,
                        const c10d::AllgatherOptions& options);
  Result reduce_scatter_tensors(c10d::OpType type, const char* title, Tensors& out, Tensors& in,
                                const c10d::ReduceScatterOptions& options);
  /// @param exception that ends the program, as the other ranks are told; empty: none
  void close(const std::string& exception);
  int checked_peer(const char* operation, std::int64_t peer) const;
  /// Ranks that have not come to the monitored barrier of these keys by the deadline: the first, or all.
  std::vector<int> find_missing(const std::string& keys, const Deadline& deadline, bool all);

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<TorchStore> store_;
  const std::unique_ptr<DeviceGroups> on_devices_;
  std::atomic<bool> is_eager_ = false;
  std::uint64_t monitored_ = 0;
  std::map<std::string, int> splits_;  // how many, by the name of the new group
  std::mutex coalesced_mutex_;
  std::optional<std::vector<TorchWorkPtr>> coalesced_;
};

}  // namespace weft::distributed
