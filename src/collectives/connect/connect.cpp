#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "collectives/bootstrap/agreement.hpp"
#include "collectives/bootstrap/device_choice.hpp"
#include "collectives/communicator/communicator_state.hpp"
#include "collectives/connect/transport.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "collectives/hierarchy/nodes_backend.hpp"
#include "collectives/nccl/nccl_backend.hpp"
#include "collectives/network/plan/choice.hpp"
#include "collectives/shm/host_backend.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"
#include "weft/core/node_heap.hpp"

namespace weft {
namespace {

std::size_t heap_bytes(const Environment& environment) {
  constexpr std::int64_t most = std::int64_t{1} << 46;  // a process has 2^47 of addresses
  return static_cast<std::size_t>(environment.integer(env::heap_bytes, 0, most).value_or(0));
}

std::shared_ptr<NodeHeap> heap_of(const World& world) {
  return NodeHeap::of_process(heap_bytes(world.environment()));
}

std::shared_ptr<detail::Backend> between_nodes(const World& world, const Topology& topology,
                                               const std::vector<std::string>& hosts,
                                               const ConnectOptions& options) {
  const int other = topology.ranks_of(1).front();
  const std::string where =
      text("the ", world.size(), " ranks are on ", topology.nodes(), " nodes (rank 0 on '", hosts.front(),
           "', rank ", other, " on '", hosts[static_cast<std::size_t>(other)], "')");
  const auto notes = detail::agree(
      *world.rendezvous(), "connect: choices of algorithms", Deadline::in(world.connect_timeout()), [&] {
        return detail::Choices::note(world.rank(), world.environment(), options.order, options.algorithms);
      });
  return detail::make_nodes_backend(world.rendezvous(), detail::make_wire(world, where), topology,
                                    detail::Choices::agreed(notes), heap_of(world), world.connect_timeout(),
                                    world.timeout());
}

std::shared_ptr<detail::Backend> make_backend(const World& world, const Topology& topology,
                                              const std::vector<std::string>& hosts,
                                              const ConnectOptions& options) {
  if (world.size() == 1)
    return detail::make_threads_backend(world.rendezvous(), {.timeout = world.timeout()});
  if (topology.nodes() > 1) return between_nodes(world, topology, hosts, options);
  return detail::make_host_backend(world.rendezvous(), heap_of(world), world.connect_timeout(),
                                   world.timeout());
}

/// NCCL beside the host's backend.
std::shared_ptr<detail::Backend> with_device(std::shared_ptr<detail::Backend> host, const World& world,
                                             const ConnectOptions& options, bool shared_devices) {
  auto api = detail::nccl::Api::load(world.environment().value(env::nccl_library));
  detail::nccl::expect_known(options.nccl, api->version);
  if (shared_devices) detail::let_nccl_share_devices(world.rank(), api->version);
  return detail::make_nccl_backend(std::move(host), std::move(api), world.rendezvous(), world.device(),
                                   {.timeout = world.timeout(), .nccl = options.nccl},
                                   world.connect_timeout());
}

bool is_progress(const std::string& word) {
  return word == "inline" || word == "thread" || word == "auto";
}

/// Who differs in one of these would misread the others' memory or messages. (The table of
/// algorithms is compared where it is used, between nodes.)
detail::Facts facts_of(const World& world, const ConnectOptions& options) {
  const auto number = [](std::optional<int> value) { return value ? std::to_string(*value) : "default"; };
  detail::Facts facts;
  facts.add("version of weft", detail::Build::mine().version);
  facts.add("wire format", std::to_string(detail::Build::mine().wire_format));
  facts.add("bytes of shared blocks", std::to_string(detail::shared_bytes_of_a_rank()));
  facts.add("ranks", std::to_string(world.size()));
  facts.add(std::string(env::order.name),
            options.order ? std::string(name(*options.order)) : world.environment().value(env::order));
  facts.add(std::string(env::transport.name), world.environment().value(env::transport));
  const std::string progress = world.environment().value(env::progress);  // may differ, if all are right
  facts.add(std::string(env::progress.name), is_progress(progress) ? "inline, thread or auto" : progress);
  if (!world.device().is_host()) {
    const NcclOptions& nccl = options.nccl;
    facts.add("NcclOptions::min_ctas", number(nccl.min_ctas));
    facts.add("NcclOptions::max_ctas", number(nccl.max_ctas));
    facts.add("NcclOptions::cga_size", number(nccl.cga_size));
    facts.add("NcclOptions::traffic_class", number(nccl.traffic_class));
    facts.add("NcclOptions::cta_policy",
              nccl.cta_policy ? number(static_cast<int>(*nccl.cta_policy)) : number(std::nullopt));
  }
  return facts;
}

/// Checks the settings that ranks have compared before. If a setting is wrong, it is so on all ranks, and each reports it; had only one rank a wrong
/// value, the comparison would have failed.
void expect_valid(const Environment& environment, const ConnectOptions& options) {
  (void)heap_bytes(environment);
  if (!options.order) (void)detail::order_from(environment);
  const std::string progress = environment.value(env::progress);
  if (!is_progress(progress))
    throw Error(ErrorKind::usage,
                text(env::progress.name, "=", progress, " is none of inline, thread, auto"));
  detail::expect_transport(environment);
}

/// What ranks tell each other first, in one round, for each takes the store several messages. Who differs in the digest may lay out
/// the rest in another way.
class Greeting {
 public:
  Greeting(const std::string& digest, const detail::Place& place)
      : digest_(digest), rest_(text(job().size(), ' ', job(), place.note())) {}
  explicit Greeting(const std::string& note, std::size_t digits)
      : digest_(note.substr(0, digits)), rest_(note.substr(std::min(note.size(), digits))) {}

  std::string note() const { return digest_ + rest_; }
  const std::string& digest() const { return digest_; }
  /// The sender's job, and where it is.
  std::pair<std::string, detail::Place> open() const {
    std::size_t length = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), length);
    const auto begin = static_cast<std::size_t>(end - rest_.data()) + 1;
    if (code != std::errc{} || begin > rest_.size() || rest_.size() - begin < length)
      throw Error(ErrorKind::mismatch, text("a greeting of ", rest_.size(), " bytes makes no sense"),
                  "run the same build of weft on every rank");
    return {rest_.substr(begin, length), detail::Place::from(rest_.substr(begin + length))};
  }

 private:
  static std::string job() { return FlightRecorder::process_name(); }

  std::string digest_;
  std::string rest_;
};

/// One folder for the ranks of a job, on each of its nodes. @param job as rank 0 calls it
std::shared_ptr<FlightRecorder> make_recorder(const World& world, const std::string& job) {
  const bool is_name = !job.empty() && job.front() != '.' && std::ranges::all_of(job, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (!is_name)  // it becomes a folder's name
    throw Error(ErrorKind::mismatch,
                text("rank 0 calls the job ", detail::json_string(job), ", which is no name of one"),
                "run the same build of weft on every rank", {world.rank(), "connect", 0});
  std::string folder = world.environment().value(env::flight_dir);
  if (folder == "off") folder.clear();
  if (folder == "auto") folder = text("/tmp/weft-flight-", getuid(), '/', job);
  return std::make_shared<FlightRecorder>(world.rank(), world.size(), folder);
}

Communicator connected(const World& world, const ConnectOptions& options) {
  const auto deadline = Deadline::in(world.connect_timeout());
  const detail::Facts facts = facts_of(world, options);
  const std::string digest = facts.digest();
  const Greeting mine(digest, detail::Place::of(world.host_id(), world.device()));
  std::vector<Greeting> greetings;
  std::vector<std::string> digests;
  for (const std::string& note : world.rendezvous()->all_gather(mine.note(), "connect", deadline)) {
    greetings.emplace_back(note, digest.size());
    digests.push_back(greetings.back().digest());
  }
  facts.expect_equal(digests, *world.rendezvous(), deadline);
  std::vector<detail::Place> places;
  std::vector<std::string> hosts;
  for (const Greeting& greeting : greetings) {
    places.push_back(greeting.open().second);
    hosts.push_back(places.back().host_id);
  }
  expect_valid(world.environment(), options);
  const bool shared_devices = detail::check_places(places, detail::may_share_devices(world.environment()));
  const Topology topology(hosts);
  auto backend = make_backend(world, topology, hosts, options);
  if (!world.device().is_host()) backend = with_device(std::move(backend), world, options, shared_devices);
  auto communicator = detail::make_communicator(
      std::move(backend), world.rendezvous(), topology, world.timeout(), options.trace,
      {.recorder = make_recorder(world, greetings.front().open().first)});
  world.stop_listening();
  log::info(text("rank ", world.rank(), " of ", world.size(), " on ", topology.nodes(),
                 " node(s) connected: ", communicator.backend()));
  return communicator;
}

}  // namespace

Communicator connect(const World& world, const ConnectOptions& options) {
  return detail::or_call_off(*world.rendezvous(), [&] { return connected(world, options); });
}

}  // namespace weft
