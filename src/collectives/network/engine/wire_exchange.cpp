#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "collectives/diagnosis/operation_words.hpp"
#include "collectives/diagnosis/poll_deadline.hpp"
#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/network/engine/wire_backend.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// Small enough that Open MPI sends a segment at once over TCP: a longer one asks first, and the answer waits
// behind whatever fills the line. Whole elements of every type.
constexpr std::size_t segment_bytes = 60 << 10;
// For each flow. The segments of a flow of more end only where they are received, so that no more than this is really on its way:
// the rest would only wait in the network's queues, which drop what does not fit (bench/results: 4 hosts at 1
// Gbit/s).
constexpr std::size_t segments_in_flight = 8;

class WireExchange final : public Task {
 public:
  /// @param tag of the first stage; the others follow
  WireExchange(std::shared_ptr<WirePeers> peers, ExchangePlan plan, int tag,
               std::chrono::nanoseconds timeout);
  ~WireExchange() override;
  bool advance() override;
  void rest(std::chrono::microseconds at_most) override { wire_.rest(at_most); }

 private:
  /// How far a flow is, in bytes from its beginning.
  struct Progress {
    std::size_t ready = 0;  ///< may be begun
    std::size_t begun = 0;
    std::size_t done = 0;
    std::deque<bool> ended{};             ///< the segments from `done` on
    bool is_begun = false;                ///< an empty message has no bytes to tell
    std::optional<std::size_t> before{};  ///< the flow before it between the same two ranks
  };
  /// A segment under way; its label is its place among them.
  struct Segment {
    std::size_t flow = 0;
    std::size_t begin = 0;
    std::size_t bytes = 0;
    bool is_under_way = false;
  };

  void begin();
  /// Begins what may be begun. True: something was.
  bool post();
  void post_segment(std::size_t index);
  /// Takes note of what has ended. True: something has.
  bool collect();
  std::size_t take_label(const Segment& segment);
  void end(const Segment& segment);
  bool reduce_arrived();
  std::size_t ready(std::size_t index) const;
  bool is_over(std::size_t index) const {
    return progress_[index].is_begun && progress_[index].done == plan_.flows[index].bytes;
  }
  bool complete() const;
  int name_of(int rank) const { return peers_->names[static_cast<std::size_t>(rank)]; }
  void check(const Messages::Ended& ended, const Segment& segment) const;
  [[noreturn]] void disagree(const Flow& flow, const std::string& sent, std::size_t expected) const;
  [[noreturn]] void time_out() const;

  std::shared_ptr<WirePeers> peers_;
  GroupWire& wire_;
  ExchangePlan plan_;
  int tag_;
  std::chrono::nanoseconds timeout_;
  PollDeadline poll_deadline_;
  bool begun_ = false;
  std::vector<Progress> progress_;    // by flow
  std::vector<std::size_t> reduced_;  // bytes, by reduction
  std::shared_ptr<Messages> messages_;
  std::vector<Segment> segments_;    // by label
  std::vector<std::size_t> unused_;  // labels
};

WireExchange::WireExchange(std::shared_ptr<WirePeers> peers, ExchangePlan plan, int tag,
                           std::chrono::nanoseconds timeout)
    : peers_(std::move(peers)),
      wire_(*peers_->wire),
      plan_(std::move(plan)),
      tag_(tag),
      timeout_(timeout),
      poll_deadline_(timeout),
      progress_(plan_.flows.size()),
      reduced_(plan_.reductions.size()),
      messages_(wire_.messages()) {
  std::map<std::tuple<int, bool, int>, std::size_t> latest;
  for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
    const Flow& flow = plan_.flows[i];
    const auto direction = std::tuple(flow.peer, flow.sends, flow.stage);
    if (const auto found = latest.find(direction); found != latest.end()) progress_[i].before = found->second;
    latest[direction] = i;
  }
}

WireExchange::~WireExchange() {
  if (unused_.size() == segments_.size()) {
    peers_->scratch.give_back(std::move(plan_.scratch));
  } else {
    messages_->abandon(std::make_shared<ExchangePlan>(std::move(plan_)));
  }
}

bool WireExchange::advance() {
  if (!begun_) begin();
  bool moved = false;
  {
    const auto entered = wire_.enter();
    moved = collect();
  }
  moved = reduce_arrived() || moved;
  {
    const auto entered = wire_.enter();
    moved = post() || moved;
  }
  if (complete()) return true;
  if (moved) {
    poll_deadline_ = PollDeadline(timeout_);  // the peers are there
  } else if (poll_deadline_.time_to_look() && poll_deadline_.exhausted()) {
    time_out();
  } else {
    wire_.give_way();
  }
  return false;
}

void WireExchange::begin() {
  begun_ = true;
  poll_deadline_ = PollDeadline(timeout_);  // from now: the stream may have had much to do before
  if (plan_.begin) plan_.begin();
}

bool WireExchange::post() {
  bool any = false;
  // A segment of each in turn, so that every peer gets something to do.
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
      const Flow& flow = plan_.flows[i];
      const Progress& own = progress_[i];
      if (own.is_begun && own.begun == flow.bytes) continue;
      if (own.ended.size() >= segments_in_flight) continue;
      if (own.before &&
          (!progress_[*own.before].is_begun || progress_[*own.before].begun < plan_.flows[*own.before].bytes))
        continue;
      if (!std::ranges::all_of(flow.after_all, [this](std::size_t one) { return is_over(one); })) continue;
      if (ready(i) < std::min(flow.bytes, own.begun + segment_bytes)) continue;
      post_segment(i);
      more = any = true;
    }
  }
  return any;
}

std::size_t WireExchange::ready(std::size_t index) const {
  const Flow& flow = plan_.flows[index];
  if (flow.made) return progress_[index].ready;
  return flow.after ? progress_[*flow.after].done : flow.bytes;
}

void WireExchange::post_segment(std::size_t index) {
  const Flow& flow = plan_.flows[index];
  Progress& own = progress_[index];
  const std::size_t begin = own.begun;
  const std::size_t bytes = std::min(segment_bytes, flow.bytes - begin);
  const std::size_t label = take_label({index, begin, bytes, true});
  const bool is_part = flow.bytes > segments_in_flight * segment_bytes;
  if (flow.sends) {
    messages_->send(label, {flow.out + begin, bytes}, flow.peer, tag_ + flow.stage, is_part);
    if (!peers_->are_near[static_cast<std::size_t>(flow.peer)]) peers_->network_bytes += bytes;
  } else {
    messages_->receive(label, {flow.in + begin, bytes}, flow.peer, tag_ + flow.stage, is_part);
  }
  own.is_begun = true;
  own.begun += bytes;
  own.ended.push_back(false);
}

std::size_t WireExchange::take_label(const Segment& segment) {
  if (unused_.empty()) {
    segments_.push_back(segment);
    return segments_.size() - 1;
  }
  const std::size_t label = unused_.back();
  unused_.pop_back();
  segments_[label] = segment;
  return label;
}

bool WireExchange::collect() {
  const std::span<const Messages::Ended> all = messages_->collect();
  for (const Messages::Ended& ended : all) {
    Segment& segment = segments_[ended.label];
    check(ended, segment);
    end(segment);
    segment.is_under_way = false;
    unused_.push_back(ended.label);
  }
  return !all.empty();
}

// Segments may end in any order; what counts is up to where all have.
void WireExchange::end(const Segment& segment) {
  Progress& own = progress_[segment.flow];
  own.ended[(segment.begin - own.done) / segment_bytes] = true;
  while (!own.ended.empty() && own.ended.front()) {
    own.ended.pop_front();
    own.done = std::min(own.done + segment_bytes, plan_.flows[segment.flow].bytes);
  }
  if (plan_.progress && is_over(segment.flow))
    plan_.progress->done(plan_.flows[segment.flow].message, plan_.flows[segment.flow].peer);
}

bool WireExchange::reduce_arrived() {
  bool any = false;
  for (std::size_t i = 0; i < plan_.reductions.size(); ++i) {
    const Reduction& one = plan_.reductions[i];
    std::size_t arrived = one.bytes;
    for (const std::size_t flow : one.from)
      arrived = std::min(arrived, one.once_all_over && !is_over(flow) ? 0 : progress_[flow].done);
    const std::size_t begin = reduced_[i];
    if (arrived == begin) continue;
    std::vector<const std::byte*> sources;
    for (const std::byte* source : one.sources) sources.push_back(source + begin);
    std::byte* const result = one.result + begin;
    reduce(sources, {std::span(&result, 1)},
           static_cast<std::int64_t>((arrived - begin) / size_of(plan_.dtype)), plan_.dtype, one.op,
           one.divisor);
    reduced_[i] = arrived;
    for (const std::size_t flow : one.into) progress_[flow].ready = arrived;
    any = true;
  }
  return any;
}

bool WireExchange::complete() const {
  if (unused_.size() != segments_.size()) return false;
  for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
    if (!is_over(i)) return false;
  }
  for (std::size_t i = 0; i < plan_.reductions.size(); ++i) {
    if (reduced_[i] < plan_.reductions[i].bytes) return false;
  }
  return true;
}

void WireExchange::check(const Messages::Ended& ended, const Segment& segment) const {
  const Flow& flow = plan_.flows[segment.flow];
  if (!ended.lost.empty()) {
    if (wire_.has_left(flow.peer)) throw left_error(name_of(flow.peer));
    throw Error(ErrorKind::peer_lost, text("rank ", name_of(flow.peer), " is gone: ", ended.lost),
                "see why it ended: its own output says it first");
  }
  if (ended.was_longer) disagree(flow, text("more than ", segment.begin + segment.bytes), flow.bytes);
  if (ended.bytes != segment.bytes) disagree(flow, text(segment.begin + ended.bytes), flow.bytes);
}

void WireExchange::disagree(const Flow& flow, const std::string& sent, std::size_t expected) const {
  throw Error(ErrorKind::mismatch,
              text("rank ", name_of(flow.peer), " sent ", sent, " bytes where rank ", name_of(wire_.rank()),
                   " receives ", expected),
              "issue the same operations with the same counts on every rank");
}

void WireExchange::time_out() const {
  std::set<int> missing;
  for (const Segment& segment : segments_) {
    if (segment.is_under_way) missing.insert(plan_.flows[segment.flow].peer);
  }
  std::string names;
  for (const int rank : missing) names += text(names.empty() ? "rank " : ", rank ", name_of(rank));
  throw Error(ErrorKind::timeout, text("waited ", poll_deadline_.waited_seconds(), " s for ", names),
              "look at what those ranks do, or raise the timeout");
}

}  // namespace

std::unique_ptr<Task> make_wire_exchange(std::shared_ptr<WirePeers> peers, ExchangePlan plan, int tag,
                                         std::chrono::nanoseconds timeout) {
  return std::make_unique<WireExchange>(std::move(peers), std::move(plan), tag, timeout);
}

}  // namespace weft::detail
