// Sums the gradients of tied parameters. begin() of the last copy on a device starts the sum on the
// parameter's own stream: the device's copies are added to the first, in the order of stages; an all-reduce
// over the devices with copies sums those; the result is copied to the other copies. await() joins the
// compute stream with that. Wire bytes: one all-reduce of the parameter per step.

#include "weft/pipeline/tied_gradients.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "collectives/diagnosis/used_by_one.hpp"
#include "core/memory/elementwise.hpp"
#include "core/streams/one_thread.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "weft/core/copy.hpp"

namespace weft::pipeline {
namespace {

[[noreturn]] void refuse(const std::string& problem, const std::string& advice,
                         ErrorContext where = {-1, "TiedGradients", 0}) {
  throw Error(ErrorKind::usage, problem, advice, std::move(where));
}

std::string listed(const std::vector<int>& numbers) {
  std::string list;
  for (const int number : numbers) list += (list.empty() ? "" : " ") + std::to_string(number);
  return list;
}

void expect_valid(const TiedParameter& one, int stages) {
  if (one.count < 1) refuse(text(one.name, " has ", one.count, " elements"), "it has 1 or more");
  const bool rises = std::ranges::adjacent_find(one.stages, std::greater_equal<>()) == one.stages.end();
  if (one.stages.size() < 2 || !rises || one.stages.front() < 0 || one.stages.back() >= stages)
    refuse(text(one.name, " is tied over stages '", listed(one.stages), "'"),
           text("name two or more, rising, of 0 to ", stages - 1));
}

bool overlap(const View& a, const View& b) {
  const std::less<const std::byte*> before;
  return before(a.bytes(), b.bytes() + b.size_bytes()) && before(b.bytes(), a.bytes() + a.size_bytes());
}

using Streams = RecycledVector<Stream>;

/// A task of a host's compute stream that waits for a sum. It polls the streams of all sums: another device
/// may need this one's part of another sum before it gets to this one.
class AwaitSum final : public Task {
 public:
  AwaitSum(Event summed, std::shared_ptr<Streams> all) : summed_(std::move(summed)), all_(std::move(all)) {}
  bool advance() override {
    for (Stream& stream : *all_) stream.poll();
    if (!summed_.done()) return false;
    if (const auto error = summed_.error()) std::rethrow_exception(error);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override { summed_.rest(at_most); }

 private:
  Event summed_;
  std::shared_ptr<Streams> all_;
};

}  // namespace

class TiedGradients::State {
 public:
  State(Communicator comm, std::vector<int> device_of, std::vector<TiedParameter> tied);

  void begin(int parameter, int stage, View gradient, const Stream& compute);
  void await(int parameter, int stage, const Stream& compute);
  void poll();
  bool counts(int parameter, int stage) const;
  std::uint64_t wire_bytes() const;
  weft::detail::OneThread::Turn turn(const char* call) { return users_.enter(call); }

 private:
  struct Copy {
    int stage = 0;
    View gradient{};
    bool begun = false;  // and not yet awaited
  };
  /// One tied parameter, with the copies on this device.
  struct Sum {
    TiedParameter of;
    std::vector<Copy> copies{};
    std::optional<Communicator> comm{};  // of the devices with copies, if there are others
    bool is_under_way = false;           // until all copies have awaited it
    Event summed{};
  };

  Sum make(const TiedParameter& of);
  Stream& stream_of(const Sum& sum) { return (*streams_)[static_cast<std::size_t>(&sum - sums_.data())]; }
  void expect_known(int parameter, const char* operation) const;
  Sum& sum_of(int parameter, const char* operation);
  Copy& copy_of(Sum& sum, int stage, const char* operation);
  ErrorContext here(const char* operation) const { return {comm_.rank(), operation, 0}; }
  void add_up(Sum& sum, Stream& stream);

  weft::detail::UsedByOne users_;
  Communicator comm_;
  std::vector<int> device_of_;
  std::vector<Sum> sums_;
  std::shared_ptr<Streams> streams_ = std::make_shared<Streams>();  // one per sum
};

TiedGradients::State::State(Communicator comm, std::vector<int> device_of, std::vector<TiedParameter> tied)
    : users_("TiedGradients", comm), comm_(std::move(comm)), device_of_(std::move(device_of)) {
  for (const int device : device_of_) {
    if (device < 0 || device >= comm_.size())
      refuse(text("a stage is on device ", device, ", the pipeline has ", comm_.size()),
             "rank d of the communicator is device d");
  }
  std::string mine = text("has stages on devices ", listed(device_of_));
  for (const TiedParameter& one : tied) {
    expect_valid(one, static_cast<int>(device_of_.size()));
    mine += text(", ", one.name, " of ", one.count, " ", one.dtype, " in stages ", listed(one.stages));
  }
  weft::detail::agree_on(
      comm_, mine,
      {"ranks tie different weights", "give the same list and placement on every rank", "TiedGradients"});
  for (const TiedParameter& one : tied) {
    sums_.push_back(make(one));
    const auto& across = sums_.back().comm;
    streams_->push_back(across ? across->progress_stream() : Stream(comm_.device()));
  }
}

// All ranks take part in the split of every parameter that is on several devices, in the order of the list.
TiedGradients::State::Sum TiedGradients::State::make(const TiedParameter& of) {
  Sum sum{.of = of};
  std::set<int> devices;
  std::optional<int> key;  // the first stage on this device
  for (const int stage : of.stages) {
    const int device = device_of_[static_cast<std::size_t>(stage)];
    devices.insert(device);
    if (device != comm_.rank()) continue;
    sum.copies.push_back({.stage = stage});
    key = key.value_or(stage);
  }
  if (devices.size() == 1) return sum;
  sum.comm = comm_.split(key ? std::optional(0) : std::nullopt, key.value_or(0));
  return sum;
}

void TiedGradients::State::expect_known(int parameter, const char* operation) const {
  const auto count = static_cast<int>(sums_.size());
  if (parameter < 0 || parameter >= count)
    refuse(text("tied parameter ", parameter, " of ", count), "give its place in the list of the constructor",
           here(operation));
}

TiedGradients::State::Sum& TiedGradients::State::sum_of(int parameter, const char* operation) {
  expect_known(parameter, operation);
  return sums_[static_cast<std::size_t>(parameter)];
}

TiedGradients::State::Copy& TiedGradients::State::copy_of(Sum& sum, int stage, const char* operation) {
  const auto copy = std::ranges::find(sum.copies, stage, &Copy::stage);
  if (copy == sum.copies.end())
    refuse(text("stage ", stage, " has no copy of ", sum.of.name, " on device ", comm_.rank()),
           text("its copies are in stages ", listed(sum.of.stages)), here(operation));
  return *copy;
}

void TiedGradients::State::begin(int parameter, int stage, View gradient, const Stream& compute) {
  Sum& sum = sum_of(parameter, "begin");
  Copy& copy = copy_of(sum, stage, "begin");
  if (copy.begun || sum.is_under_way)
    refuse(
        text("the gradient of ", sum.of.name, " in stage ", stage, " comes before the last sum is awaited"),
        "begin and await once a step, for every copy on the device", here("begin"));
  if (gradient.count() != sum.of.count || gradient.dtype() != sum.of.dtype)
    refuse(text("the gradient of ", sum.of.name, " in stage ", stage, " is ", gradient.count(), " ",
                gradient.dtype(), ", the parameter ", sum.of.count, " ", sum.of.dtype),
           "give all of it", here("begin"));
  for (const Copy& other : sum.copies) {
    if (other.begun && overlap(other.gradient, gradient))
      refuse(text("stages ", other.stage, " and ", stage, " give the same memory for the gradient of ",
                  sum.of.name),
             "give each copy its own, or tie only one of them where they are one", here("begin"));
  }
  copy = {stage, gradient, true};
  stream_of(sum).wait(compute.record());
  if (std::ranges::all_of(sum.copies, &Copy::begun)) add_up(sum, stream_of(sum));
}

void TiedGradients::State::add_up(Sum& sum, Stream& stream) {
  const View total = sum.copies.front().gradient;
  const auto others = std::span(sum.copies).subspan(1);
  for (const Copy& other : others) weft::detail::add(total, other.gradient, stream);
  if (sum.comm) sum.comm->all_reduce(total, ReduceOp::sum, stream);
  for (const Copy& other : others) copy(other.gradient, total, stream);
  sum.summed = stream.record();
  sum.is_under_way = true;
}

void TiedGradients::State::await(int parameter, int stage, const Stream& compute) {
  Sum& sum = sum_of(parameter, "await");
  Copy& mine = copy_of(sum, stage, "await");
  if (!mine.begun || !sum.is_under_way) {
    const Copy& missing = mine.begun ? *std::ranges::find(sum.copies, false, &Copy::begun) : mine;
    refuse(text("the sum of ", sum.of.name, " is awaited for stage ", stage, " before stage ", missing.stage,
                ", of this device, has begun"),
           "begin with every copy on the device first", here("await"));
  }
  Stream waiting = compute;
  if (waiting.device().is_host()) {
    waiting.submit(std::make_unique<AwaitSum>(sum.summed, streams_));
  } else {
    waiting.wait(sum.summed);
  }
  mine.begun = false;
  sum.is_under_way = std::ranges::any_of(sum.copies, &Copy::begun);
}

void TiedGradients::State::poll() {
  for (Stream& stream : *streams_) stream.poll();
}

bool TiedGradients::State::counts(int parameter, int stage) const {
  expect_known(parameter, "counts");
  return sums_.at(static_cast<std::size_t>(parameter)).of.stages.front() == stage;
}

std::uint64_t TiedGradients::State::wire_bytes() const {
  std::uint64_t bytes = 0;
  for (const Sum& sum : sums_) bytes += sum.comm ? sum.comm->wire_bytes() : 0;
  return bytes;
}

TiedGradients::TiedGradients(Communicator comm, std::vector<int> device_of, std::vector<TiedParameter> tied)
    : state_(std::make_unique<State>(std::move(comm), std::move(device_of), std::move(tied))) {}
TiedGradients::~TiedGradients() = default;
TiedGradients::TiedGradients(TiedGradients&&) noexcept = default;

void TiedGradients::begin(int parameter, int stage, View gradient, const Stream& compute) {
  const auto turn = state_->turn("begin");
  state_->begin(parameter, stage, gradient, compute);
}
void TiedGradients::await(int parameter, int stage, const Stream& compute) {
  const auto turn = state_->turn("await");
  state_->await(parameter, stage, compute);
}
void TiedGradients::poll() {
  const auto turn = state_->turn("poll");
  state_->poll();
}
bool TiedGradients::counts(int parameter, int stage) const {
  return state_->counts(parameter, stage);
}
std::uint64_t TiedGradients::wire_bytes() const {
  return state_->wire_bytes();
}

}  // namespace weft::pipeline
