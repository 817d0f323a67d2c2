// Collectives in which each rank has a part of its own: all_gather and reduce_scatter.

#include "torch/distributed/backend.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "torch/distributed/tensors.hpp"

namespace weft::distributed {
namespace {

// Torch 2.11 and older ones know them as coalesced calls alone.
template <class Type = c10d::OpType>
constexpr Type gathers_coalesced() {
  if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; })
    return Type::ALLGATHER_INTO_TENSOR_COALESCED;
  else
    return Type::COALESCED;
}

template <class Type = c10d::OpType>
constexpr Type scatters_coalesced() {
  if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
    return Type::REDUCE_SCATTER_TENSOR_COALESCED;
  else
    return Type::COALESCED;
}

void expect_parts(const char* operation, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  expect_alike(operation, {whole, part});
  if (whole.numel() != part.numel() * ranks)
    refuse(operation,
           text("tensors of ", whole.numel(), " and ", part.numel(), " elements for ", ranks, " ranks"),
           text("one must have ", ranks, " times the elements of the other"));
}

void expect_one_each(const char* operation, const std::vector<at::Tensor>& tensors, int ranks) {
  if (static_cast<int>(tensors.size()) != ranks)
    refuse(operation, text(tensors.size(), " tensors for ", ranks, " ranks"), "give one for each rank");
  expect_alike(operation, tensors);
}

void add_all_gather(const Issue& issue, const at::Tensor& in, const at::Tensor& out) {
  issue.add(issue.comm.all_gather(view_of(in), view_of(out), issue.stream));
}

/// Into a list whose tensors may have different sizes, the same on all ranks.
void gather_into_list(TorchWork& work, const at::Tensor& in, const std::vector<at::Tensor>& out, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  if (in.numel() != out[own].numel())
    refuse("all_gather",
           text("the input has ", in.numel(), " elements, and output ", rank, " has ", out[own].numel()),
           "this rank's output has the size of its input");
  const at::Tensor source = plain(in);
  if (are_even(out)) {
    at::Tensor together = adjacent(out);
    if (together.defined() && !separated(together, source, rank).is_same(together)) together.reset();
    const at::Tensor whole =
        together.defined() ? together : scratch_like(in, in.numel() * static_cast<std::int64_t>(out.size()));
    work.step([source, whole](const Issue& issue) { add_all_gather(issue, source, whole); });
    if (together.defined()) return;
    work.at_end([whole, out] {
      for (std::size_t i = 0; i < out.size(); ++i)
        copy_elements(out[i], whole.narrow(0, static_cast<std::int64_t>(i) * out[i].numel(), out[i].numel()));
    });
    return;
  }
  std::vector<at::Tensor> places = plain(out);
  separate(places, {source});
  copy_elements(places[own], source);
  work.step([places](const Issue& issue) {
    for (std::size_t i = 0; i < places.size(); ++i)
      issue.add(issue.comm.broadcast(view_of(places[i]), static_cast<int>(i), issue.stream));
  });
  work.at_end([places, out] {
    for (std::size_t i = 0; i < out.size(); ++i) copy_elements(out[i], places[i]);
  });
}

void add_reduce_scatter(const Issue& issue, const at::Tensor& in, const at::Tensor& out, ReduceOp op) {
  issue.add(issue.comm.reduce_scatter(view_of(in), view_of(out), op, issue.stream));
}

}  // namespace

TorchBackend::Result TorchBackend::allgather(std::vector<Tensors>& out, Tensors& in,
                                             const c10d::AllgatherOptions& options) {
  constexpr auto operation = "all_gather";
  const at::Tensor& source = the_one(operation, in);
  if (out.size() != 1) refuse(operation, text(out.size(), " lists of outputs"), "give one");
  expect_one_each(operation, out.front(), getSize());
  expect_alike(operation, {source, out.front().front()});
  expect_writable(operation, out.front());
  auto work = make({c10d::OpType::ALLGATHER, "weft:all_gather", in, out, options.timeout, is_async(options)});
  gather_into_list(*work, source, out.front(), getRank());
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::allgather_coalesced(std::vector<Tensors>& out, Tensors& in,
                                                       const c10d::AllgatherOptions& options) {
  // torch's shape: a list for each rank, of outputs by input.
  constexpr auto operation = "all_gather_coalesced";
  if (static_cast<int>(out.size()) != getSize())
    refuse(operation, text(out.size(), " lists of outputs for ", getSize(), " ranks"),
           "give one for each rank");
  auto work = make({c10d::OpType::ALLGATHER_COALESCED, "weft:all_gather_coalesced", in, out, options.timeout,
                    is_async(options)});
  std::vector<at::Tensor> sources;
  std::vector<at::Tensor> wholes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (const Tensors& of_rank : out) {
      if (of_rank.size() != in.size())
        refuse(operation, text(of_rank.size(), " outputs for ", in.size(), " inputs"), "give one for each");
      expect_alike(operation, {in[i], of_rank[i]});
      expect_writable(operation, of_rank[i]);
      if (of_rank[i].numel() != in[i].numel())
        refuse(operation,
               text("an output of ", of_rank[i].numel(), " elements for an input of ", in[i].numel()),
               "give tensors of one size");
    }
    sources.push_back(plain(in[i]));
    wholes.push_back(scratch_like(in[i], in[i].numel() * getSize()));
  }
  work->step([sources, wholes](const Issue& issue) {
    for (std::size_t i = 0; i < sources.size(); ++i) add_all_gather(issue, sources[i], wholes[i]);
  });
  work->at_end([wholes, out] {
    for (std::size_t rank = 0; rank < out.size(); ++rank) {
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        const std::int64_t count = out[rank][i].numel();
        copy_elements(out[rank][i], wholes[i].narrow(0, static_cast<std::int64_t>(rank) * count, count));
      }
    }
  });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::_allgather_base(at::Tensor& out, at::Tensor& in,
                                                   const c10d::AllgatherOptions& options) {
  Tensors outs{out};
  Tensors ins{in};
  return gather_tensors(c10d::OpType::_ALLGATHER_BASE, "weft:_all_gather_base", outs, ins, options);
}

TorchBackend::Result TorchBackend::allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                                                   const c10d::AllgatherOptions& options) {
  return gather_tensors(gathers_coalesced(), "weft:all_gather_into_tensor_coalesced", out, in, options);
}

TorchBackend::Result TorchBackend::gather_tensors(c10d::OpType type, const char* title, Tensors& out,
                                                  Tensors& in, const c10d::AllgatherOptions& options) {
  constexpr auto operation = "all_gather_into_tensor";
  if (out.size() != in.size())
    refuse(operation, text(out.size(), " outputs for ", in.size(), " inputs"), "give one for each");
  Tensors sources;
  Tensors wholes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    expect_parts(operation, out[i], in[i], getSize());
    expect_writable(operation, out[i]);
    sources.push_back(plain(in[i]));
    wholes.push_back(plain(out[i]));
  }
  separate(wholes, sources, getRank());
  auto work = make({type, title, in, {out}, options.timeout, is_async(options)});
  work->step([sources, wholes](const Issue& issue) {
    for (std::size_t i = 0; i < sources.size(); ++i) add_all_gather(issue, sources[i], wholes[i]);
  });
  work->at_end([wholes, out] {
    for (std::size_t i = 0; i < out.size(); ++i) copy_elements(out[i], wholes[i]);
  });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::reduce_scatter(Tensors& out, std::vector<Tensors>& in,
                                                  const c10d::ReduceScatterOptions& options) {
  constexpr auto operation = "reduce_scatter";
  const at::Tensor& part = the_one(operation, out);
  if (in.size() != 1) refuse(operation, text(in.size(), " lists of inputs"), "give one");
  const Tensors& parts = in.front();
  expect_one_each(operation, parts, getSize());
  expect_alike(operation, {part, parts.front()});
  const auto own = static_cast<std::size_t>(getRank());
  if (part.numel() != parts[own].numel())
    refuse(operation,
           text("the output has ", part.numel(), " elements, and input ", own, " has ", parts[own].numel()),
           "this rank's input has the size of its output");
  const Reduction reduction = reduction_of(operation, options.reduceOp, part.scalar_type());
  auto work = make({c10d::OpType::REDUCE_SCATTER,
                    "weft:reduce_scatter",
                    parts,
                    {out},
                    options.timeout,
                    is_async(options)});
  expect_writable(operation, part);
  at::Tensor place = plain(part);
  if (are_even(parts)) {
    at::Tensor whole = adjacent(parts);
    if (!whole.defined() || reduction.factor.defined()) {
      whole = scratch_like(part, part.numel() * getSize());
      for (std::size_t i = 0; i < parts.size(); ++i)
        copy_elements(whole.narrow(0, static_cast<std::int64_t>(i) * part.numel(), part.numel()),
                      prepared(parts[i], reduction));
    }
    place = separated(place, whole, getRank());
    work->step([whole, place, op = reduction.op](const Issue& issue) {
      add_reduce_scatter(issue, whole, place, op);
    });
  } else {
    Tensors sources;
    for (const at::Tensor& each : parts) sources.push_back(prepared(each, reduction));
    Tensors places{place};
    separate(places, sources);
    place = places.front();
    work->step([sources, place, own, op = reduction.op](const Issue& issue) {
      for (std::size_t root = 0; root < sources.size(); ++root) {
        const View to = root == own ? view_of(place) : view_of(sources[root]);
        issue.add(issue.comm.reduce(view_of(sources[root]), to, op, static_cast<int>(root), issue.stream));
      }
    });
  }
  work->at_end([place, part] { copy_elements(part, place); });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::_reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                                        const c10d::ReduceScatterOptions& options) {
  Tensors outs{out};
  Tensors ins{in};
  return reduce_scatter_tensors(c10d::OpType::_REDUCE_SCATTER_BASE, "weft:_reduce_scatter_base", outs, ins,
                                options);
}

TorchBackend::Result TorchBackend::reduce_scatter_tensor_coalesced(
    Tensors& out, Tensors& in, const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_tensors(scatters_coalesced(), "weft:reduce_scatter_tensor_coalesced", out, in,
                                options);
}

TorchBackend::Result TorchBackend::reduce_scatter_tensors(c10d::OpType type, const char* title, Tensors& out,
                                                          Tensors& in,
                                                          const c10d::ReduceScatterOptions& options) {
  constexpr auto operation = "reduce_scatter_tensor";
  if (out.size() != in.size())
    refuse(operation, text(out.size(), " outputs for ", in.size(), " inputs"), "give one for each");
  Tensors sources;
  Tensors places;
  std::vector<ReduceOp> ops;
  for (std::size_t i = 0; i < in.size(); ++i) {
    expect_parts(operation, in[i], out[i], getSize());
    const Reduction reduction = reduction_of(operation, options.reduceOp, in[i].scalar_type());
    expect_writable(operation, out[i]);
    sources.push_back(prepared(in[i], reduction));
    places.push_back(plain(out[i]));
    ops.push_back(reduction.op);
  }
  separate(places, sources, getRank());
  auto work = make({type, title, in, {out}, options.timeout, is_async(options)});
  work->step([sources, places, ops](const Issue& issue) {
    for (std::size_t i = 0; i < sources.size(); ++i) add_reduce_scatter(issue, sources[i], places[i], ops[i]);
  });
  work->at_end([places, out] {
    for (std::size_t i = 0; i < out.size(); ++i) copy_elements(out[i], places[i]);
  });
  return start(std::move(work));
}

}  // namespace weft::distributed
