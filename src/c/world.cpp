// World, and how communicators are made.

#include <exception>

#include "c/objects.hpp"
#include "weft/core/env.hpp"

using namespace weft;

weft_status_t weft_world_from_environment(const weft_world_options_t* options, weft_world_t* out) {
  return c::call("weft_world_from_environment", [&] {
    c::given(out, "out");
    const auto given = c::options_of(options, "weft_world_options_t");
    WorldOptions known;
    if (given.ranks != 0) {
      known.rank = given.rank;
      known.size = given.ranks;
    } else if (given.rank != 0) {
      throw Error(ErrorKind::usage, text("`rank` is ", given.rank, " and `ranks` is 0"),
                  "give both, or neither");
    }
    if (given.rendezvous != nullptr) known.rendezvous = given.rendezvous;
    if (given.connect_timeout != 0)
      known.connect_timeout = c::duration_of(given.connect_timeout, "connect_timeout");
    if (given.timeout != 0) known.timeout = c::duration_of(given.timeout, "timeout");
    Environment environment = Environment::of_process();
    if (given.device != nullptr) environment = environment.with(env::device, given.device);
    c::give(out, c::worlds(), World::from_environment(known, environment));
  });
}

int weft_world_rank(weft_world_t world) {
  return c::ask("weft_world_rank", -1, [&] { return c::worlds().at(world, "world").rank(); });
}
int weft_world_size(weft_world_t world) {
  return c::ask("weft_world_size", -1, [&] { return c::worlds().at(world, "world").size(); });
}
int weft_world_device(weft_world_t world) {
  return c::ask("weft_world_device", -2,
                [&] { return c::number_of(c::worlds().at(world, "world").device()); });
}
weft_status_t weft_world_free(weft_world_t world) {
  return c::free_handle("weft_world_free", c::worlds(), world, "world");
}

weft_status_t weft_comm_connect(weft_world_t world, const weft_connect_options_t* options, weft_comm_t* out) {
  return c::call("weft_comm_connect", [&] {
    c::given(out, "out");
    const World& from = c::worlds().at(world, "world");
    const auto given = c::options_of(options, "weft_connect_options_t");
    ConnectOptions known;
    if (given.order < 0 || given.order > 2)
      throw Error(ErrorKind::usage, text("`order` is ", given.order),
                  "give 0 (as WEFT_ORDER says), 1 (rank order) or 2 (any)");
    if (given.order != 0) known.order = given.order == 1 ? ReductionOrder::rank : ReductionOrder::any;
    c::give(out, c::communicators(), c::NamedCommunicator(connect(from, known)));
  });
}
weft_status_t weft_comm_self(weft_comm_t* out) {
  return c::call("weft_comm_self", [&] {
    c::given(out, "out");
    c::give(out, c::communicators(), c::NamedCommunicator(self()));
  });
}
weft_status_t weft_comm_split(weft_comm_t comm, int32_t color, int key, weft_comm_t* out) {
  return c::call("weft_comm_split", [&] {
    Communicator& whole = c::comm_of(comm);
    c::given(out, "out");
    auto part = whole.split(color == WEFT_NO_COLOR ? std::nullopt : std::optional<int>(color), key);
    if (part) {
      c::give(out, c::communicators(), c::NamedCommunicator(std::move(*part)));
    } else {
      *out = nullptr;
    }
  });
}
weft_status_t weft_comm_free(weft_comm_t comm) {
  return c::free_handle("weft_comm_free", c::communicators(), comm, "comm");
}

namespace weft::c {
namespace {

/// A rank's communicator while its body runs; an error that unwinds is the others' reason.
class HandleOfRank {
 public:
  explicit HandleOfRank(Communicator comm) {
    give(&handle, communicators(), NamedCommunicator(std::move(comm)));
  }
  HandleOfRank(const HandleOfRank&) = delete;
  HandleOfRank& operator=(const HandleOfRank&) = delete;
  ~HandleOfRank() {
    try {
      communicators().remove(handle, "comm");
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the body freed it
    }
  }
  weft_comm_t handle = nullptr;
};

}  // namespace
}  // namespace weft::c

weft_status_t weft_comm_run_as_threads(int ranks, const weft_threads_options_t* options,
                                       weft_status_t (*body)(weft_comm_t, void*), void* context) {
  return c::call("weft_comm_run_as_threads", [&] {
    if (body == nullptr) c::refuse_null("body");
    const auto given = c::options_of(options, "weft_threads_options_t");
    ThreadRanks known;
    if (given.timeout != 0) known.timeout = c::duration_of(given.timeout, "timeout");
    known.shared_memory = given.private_memory == 0;
    run_as_threads(
        ranks,
        [&](Communicator comm) {
          const c::HandleOfRank rank(std::move(comm));
          if (const weft_status_t status = body(rank.handle, context); status != WEFT_OK)
            throw Error(c::error_of(status, "the body of a rank"));
        },
        known);
  });
}
