// What goes from rank to rank: send and receive, gather and scatter, and all_to_all with parts of any size.

#include "torch/distributed/backend.hpp"
#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "torch/distributed/tensors.hpp"

namespace weft::distributed {
namespace {

/// Collectives of messages have a tag of their own, which no tag of a caller becomes. Between nodes the largest
/// is 4095.
constexpr std::uint32_t tag_of_collectives = 4095;
std::uint32_t tag_of(const char* operation, int tag) {
  if (tag < 0) refuse(operation, text("tag ", tag), "tags are not negative");
  const auto positive = static_cast<std::uint32_t>(tag);
  return positive < tag_of_collectives ? positive : positive + 1;
}

/// What this rank sends to each rank, and has from each; undefined and empty tensors are not sent.
struct Parts {
  std::vector<at::Tensor> out;
  std::vector<at::Tensor> in;
};

bool is_sent(const std::vector<at::Tensor>& tensors, std::size_t peer) {
  return peer < tensors.size() && tensors[peer].defined() && tensors[peer].numel() > 0;
}

/// A step that exchanges them. The parts that stay on this rank are copied at the call.
void exchange(TorchWork& work, const Parts& messages, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  if (is_sent(messages.out, own) && is_sent(messages.in, own))
    copy_elements(messages.in[own], messages.out[own]);
  work.step([messages, own](const Issue& issue) {
    weft::Group group(issue.comm);
    const std::uint32_t tag = issue.tag(tag_of_collectives);
    bool is_alone = true;
    const std::size_t ranks = std::max(messages.out.size(), messages.in.size());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer == own) continue;
      if (is_sent(messages.out, peer)) group.send(view_of(messages.out[peer]), static_cast<int>(peer), tag);
      if (is_sent(messages.in, peer)) group.receive(view_of(messages.in[peer]), static_cast<int>(peer), tag);
      is_alone = is_alone && !is_sent(messages.out, peer) && !is_sent(messages.in, peer);
    }
    if (!is_alone) issue.add(group.start(issue.stream));
  });
}

void copy_back_at_end(TorchWork& work, const std::vector<at::Tensor>& tensors,
                      const std::vector<at::Tensor>& memory) {
  work.at_end([tensors, memory] {
    for (std::size_t i = 0; i < tensors.size(); ++i) copy_elements(tensors[i], memory[i]);
  });
}

/// Parts of `whole` along its first dimension; equal ones where no sizes are given.
std::vector<at::Tensor> parts_of(const char* which, const at::Tensor& whole,
                                 const std::vector<std::int64_t>& sizes, int ranks) {
  constexpr auto operation = "all_to_all_single";
  std::vector<std::int64_t> each = sizes;
  const std::int64_t rows = whole.dim() == 0 ? whole.numel() : whole.size(0);
  if (each.empty()) {
    if (rows % ranks != 0)
      refuse(operation, text("an ", which, " of ", rows, " rows for ", ranks, " ranks"),
             "give sizes of the parts, or a number of rows that divides");
    each.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : each) sum += size;
  if (static_cast<int>(each.size()) != ranks || sum != rows)
    refuse(operation,
           text(each.size(), " sizes of parts that make ", sum, ", for an ", which, " of ", rows,
                " rows and ", ranks, " ranks"),
           "give one size for each rank, whose sum is the number of rows");
  const at::Tensor flat = whole.view({-1});
  const std::int64_t in_row = rows == 0 ? 0 : whole.numel() / rows;
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : each) {
    parts.push_back(flat.narrow(0, begin * in_row, size * in_row));
    begin += size;
  }
  return parts;
}

}  // namespace

TorchBackend::Result TorchBackend::gather(std::vector<Tensors>& out, Tensors& in,
                                          const c10d::GatherOptions& options) {
  constexpr auto operation = "gather";
  const at::Tensor& source = the_one(operation, in);
  expect_dense(operation, source);
  const int root = checked_peer(operation, options.rootRank);
  if (root == getRank() && (out.size() != 1 || static_cast<int>(out.front().size()) != getSize()))
    refuse(operation,
           text(out.empty() ? 0 : out.front().size(), " outputs on the root for ", getSize(), " ranks"),
           "give one for each rank");
  if (root != getRank() && !out.empty() && !out.front().empty())
    refuse(operation, "outputs on a rank that is not the root", "leave them out");
  auto work = make({c10d::OpType::GATHER, "weft:gather", in, out, options.timeout, is_async(options)});
  Parts messages;
  messages.out.resize(static_cast<std::size_t>(getSize()));
  messages.out[static_cast<std::size_t>(root)] = plain(source);
  if (root == getRank()) {
    expect_alike(operation, out.front());
    expect_alike(operation, {source, out.front().front()});
    expect_writable(operation, out.front());
    messages.in = plain(out.front());
    separate(messages.in, {});  // the source is copied at the call
    copy_back_at_end(*work, out.front(), messages.in);
  }
  exchange(*work, messages, getRank());
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::gather_into_tensor(at::Tensor& out, at::Tensor& in,
                                                      const c10d::GatherOptions& options) {
  std::vector<Tensors> outs;
  Tensors ins{in};
  if (options.rootRank != getRank()) return gather(outs, ins, options);
  expect_dense("gather", out);
  if (!out.is_contiguous())
    refuse("gather", "an output of all parts that is not contiguous", "give a contiguous one");
  outs.push_back(parts_of("output", out, {}, getSize()));
  return gather(outs, ins, options);
}

TorchBackend::Result TorchBackend::scatter(Tensors& out, std::vector<Tensors>& in,
                                           const c10d::ScatterOptions& options) {
  constexpr auto operation = "scatter";
  const at::Tensor& place = the_one(operation, out);
  expect_dense(operation, place);
  expect_writable(operation, place);
  const int root = checked_peer(operation, options.rootRank);
  if (root == getRank() && (in.size() != 1 || static_cast<int>(in.front().size()) != getSize()))
    refuse(operation,
           text(in.empty() ? 0 : in.front().size(), " inputs on the root for ", getSize(), " ranks"),
           "give one for each rank");
  if (root != getRank() && !in.empty() && !in.front().empty())
    refuse(operation, "inputs on a rank that is not the root", "leave them out");
  const Tensors inputs = root == getRank() ? in.front() : Tensors{};
  auto work =
      make({c10d::OpType::SCATTER, "weft:scatter", inputs, {out}, options.timeout, is_async(options)});
  Parts messages;
  Tensors memory{plain(place)};
  if (root == getRank()) {
    expect_alike(operation, inputs);
    expect_alike(operation, {place, inputs.front()});
    messages.out = plain(inputs);
    separate(memory, messages.out);
  }
  messages.in.resize(static_cast<std::size_t>(getSize()));
  messages.in[static_cast<std::size_t>(root)] = memory.front();
  copy_back_at_end(*work, {place}, memory);
  exchange(*work, messages, getRank());
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::alltoall_base(at::Tensor& out, at::Tensor& in,
                                                 std::vector<std::int64_t>& out_sizes,
                                                 std::vector<std::int64_t>& in_sizes,
                                                 const c10d::AllToAllOptions& options) {
  constexpr auto operation = "all_to_all_single";
  expect_alike(operation, {in, out});
  expect_writable(operation, out);
  const at::Tensor source = plain(in);
  const at::Tensor place = separated(plain(out), source);
  auto work = make(
      {c10d::OpType::ALLTOALL_BASE, "weft:all_to_all", {in}, {{out}}, options.timeout, is_async(options)});
  exchange(*work,
           {parts_of("input", source, in_sizes, getSize()), parts_of("output", place, out_sizes, getSize())},
           getRank());
  copy_back_at_end(*work, {out}, {place});
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) {
  constexpr auto operation = "all_to_all";
  if (static_cast<int>(in.size()) != getSize() || static_cast<int>(out.size()) != getSize())
    refuse(operation, text(in.size(), " inputs and ", out.size(), " outputs for ", getSize(), " ranks"),
           "give one of each for each rank");
  expect_alike(operation, in);
  expect_alike(operation, out);
  expect_alike(operation, {in.front(), out.front()});
  expect_writable(operation, out);
  auto work =
      make({c10d::OpType::ALLTOALL, "weft:all_to_all", in, {out}, options.timeout, is_async(options)});
  const Tensors sources = plain(in);
  Tensors places = plain(out);
  separate(places, sources);
  exchange(*work, {sources, places}, getRank());
  copy_back_at_end(*work, out, places);
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::send(Tensors& tensors, int peer, int tag) {
  constexpr auto operation = "send";
  const at::Tensor& tensor = the_one(operation, tensors);
  expect_dense(operation, tensor);
  checked_peer(operation, peer);
  auto work = make({.type = c10d::OpType::SEND,
                    .title = "weft:send",
                    .inputs = tensors,
                    .outputs = {tensors},
                    .peer = peer});
  const at::Tensor memory = plain(tensor);
  work->step([memory, peer, label = tag_of(operation, tag)](const Issue& issue) {
    issue.send(view_of(memory), peer, label);
  });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::recv(Tensors& tensors, int peer, int tag) {
  constexpr auto operation = "recv";
  const at::Tensor& tensor = the_one(operation, tensors);
  expect_dense(operation, tensor);
  expect_writable(operation, tensor);
  checked_peer(operation, peer);
  auto work = make({.type = c10d::OpType::RECV,
                    .title = "weft:recv",
                    .inputs = tensors,
                    .outputs = {tensors},
                    .peer = peer});
  const at::Tensor memory = plain(tensor);
  work->came_from(peer);
  work->step([memory, peer, label = tag_of(operation, tag)](const Issue& issue) {
    issue.receive(view_of(memory), peer, label);
  });
  copy_back_at_end(*work, tensors, {memory});
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::recvAnysource(Tensors& tensors, int tag) {
  constexpr auto operation = "recv";
  const at::Tensor& tensor = the_one(operation, tensors);
  expect_dense(operation, tensor);
  expect_writable(operation, tensor);
  if (!device_of(tensor.device())->is_host())
    refuse(operation, text("a tensor on ", tensor.device().str(), " from any rank"),
           "name the rank that sends: NCCL receives from no other");
  auto work = make({c10d::OpType::RECVANYSOURCE, "weft:recvAnySource", tensors, {tensors}});
  const at::Tensor memory = plain(tensor);
  work->step([memory, label = tag_of(operation, tag)](const Issue& issue) {
    issue.receive_any(view_of(memory), label);
  });
  copy_back_at_end(*work, tensors, {memory});
  return start(std::move(work));
}

}  // namespace weft::distributed
