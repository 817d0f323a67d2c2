// A message goes through these states: a receive waits in its queue until the announcement of its size has
// come (if sizes travel) and then posts the transfer; a send posts announcement and transfer at once and
// stays only to keep the announcement's memory. One communicator per ordered pair: creating them takes as
// many splits as split_rounds() has rounds.

#include "pipeline/execution/message_queues.hpp"

#include <algorithm>
#include <set>

#include "weft/core/error.hpp"

namespace weft::pipeline::detail {

bool Message::done() const {
  if (!work_ || !work_->done()) return false;
  if (const std::exception_ptr error = work_->error()) std::rethrow_exception(error);
  return true;
}

MessageQueue::MessageQueue(Communicator comm, int peer_device, bool sends, bool announced)
    : comm_(std::move(comm)),
      stream_(comm_.progress_stream()),
      peer_device_(peer_device),
      sends_(sends),
      announced_(announced) {}

// NCCL connects two ranks at their first message, in the call, which waits for the other rank's call. In a step the two would wait for each
// other: a receive is posted ahead of the send that lets the other rank go on.
void MessageQueue::connect() {
  if (comm_.device().is_host()) return;
  Buffer one = Buffer::on(comm_.device(), DataType::u8, 1);
  transfer(one.view(), stream_).wait();
}

Work MessageQueue::transfer(View data, const Stream& stream) {
  Group group(comm_);
  const int peer = 1 - comm_.rank();
  if (sends_) {
    group.send(data, peer);
  } else {
    group.receive(data, peer);
  }
  return group.start(stream);
}

std::shared_ptr<Message> MessageQueue::send(ConstView data, const Event& after) {
  auto message = std::make_shared<Message>();
  // Only read: it is a View because one type serves both directions.
  message->view_ = View(const_cast<void*>(data.data()), data.count(), data.dtype(), data.device());  // NOLINT
  if (announced_) {
    message->announced_ = data.count();
    message->announcement_ = transfer(View(std::span(&message->announced_, 1)), host_);
  }
  stream_.wait(after);
  message->work_ = transfer(message->view_, stream_);
  if (announced_) waiting_.push_back(message);  // keeps the announcement's memory
  return message;
}

std::shared_ptr<Message> MessageQueue::receive(View room, const Event& after) {
  auto message = std::make_shared<Message>();
  message->view_ = room;
  message->memory_free_ = after;
  waiting_.push_back(message);
  poll();
  return message;
}

void MessageQueue::advance(Message& message) {
  if (announced_ && !message.announcement_)
    message.announcement_ = transfer(View(std::span(&message.announced_, 1)), host_);
  if (announced_) {
    if (!message.announcement_->done()) return;
    message.announcement_->wait();  // for its error
    if (message.announced_ < 0 || message.announced_ > message.view_.count()) {
      throw Error(
          ErrorKind::mismatch,
          text("device ", peer_device_, " sends ", message.announced_, " elements where a stage takes ",
               message.view_.count(), " at most"),
          "the counts of Stage::output() and the next stage's input() are those of the largest microbatch");
    }
    message.view_ = message.view_.slice(0, message.announced_);
  }
  stream_.wait(message.memory_free_);
  message.work_ = transfer(message.view_, stream_);
}

void MessageQueue::poll() {
  while (!waiting_.empty()) {
    Message& first = *waiting_.front();
    if (sends_) {
      if (!first.announcement_->done()) break;
    } else {
      advance(first);
      if (!first.work_) break;
    }
    waiting_.pop_front();
  }
  if (stream_.is_inline()) stream_.poll();
}

void MessageQueue::run_on_thread() {
  if (!stream_.is_inline()) return;
  stream_ = comm_.progress_stream(Environment({{std::string(env::progress.name), "thread"}}));
}

std::vector<std::vector<std::pair<int, int>>> split_rounds(const Schedule& schedule) {
  std::set<std::pair<int, int>> left;
  for (std::size_t s = 0; s + 1 < schedule.device_of.size(); ++s) {
    const int here = schedule.device_of[s];
    const int there = schedule.device_of[s + 1];
    if (here == there) continue;
    left.insert({here, there});
    left.insert({there, here});
  }
  std::vector<std::vector<std::pair<int, int>>> rounds;
  while (!left.empty()) {
    std::set<int> busy;
    auto& round = rounds.emplace_back();
    for (auto pair = left.begin(); pair != left.end();) {
      if (busy.contains(pair->first) || busy.contains(pair->second)) {
        ++pair;
        continue;
      }
      busy.insert({pair->first, pair->second});
      round.push_back(*pair);
      pair = left.erase(pair);
    }
  }
  return rounds;
}

MessageQueues::MessageQueues(Communicator& comm, const Schedule& schedule, bool announced, View arena) {
  const int here = comm.rank();
  for (const auto& round : split_rounds(schedule)) {
    const auto mine = std::ranges::find_if(
        round, [here](const auto& pair) { return pair.first == here || pair.second == here; });
    if (mine == round.end()) {
      comm.split(std::nullopt);
      continue;
    }
    const bool sends = mine->first == here;
    auto queue = comm.split(static_cast<int>(mine - round.begin()), sends ? 0 : 1);
    if (!arena.device().is_host()) arena_.push_back(queue->register_memory(arena));
    queues_.push_back(std::make_unique<MessageQueue>(std::move(*queue), sends ? mine->second : mine->first,
                                                     sends, announced));
    queues_.back()->connect();
  }
}

MessageQueue* MessageQueues::at(int device, bool sends) {
  for (const auto& queue : queues_) {
    if (queue->peer_device() == device && queue->sends() == sends) return queue.get();
  }
  throw Error(ErrorKind::internal, text("no message queue ", sends ? "to" : "from", " device ", device));
}

void MessageQueues::poll() {
  for (const auto& queue : queues_) queue->poll();
}

void MessageQueues::run_on_thread() {
  for (const auto& queue : queues_) queue->run_on_thread();
}

std::uint64_t MessageQueues::wire_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->wire_bytes();
  return sum;
}

void MessageQueues::give_up(const Error& error) noexcept {
  for (const auto& queue : queues_) queue->give_up(error);
}

}  // namespace weft::pipeline::detail
