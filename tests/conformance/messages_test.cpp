// Messages with tags and from any source, against a plain model of how they match: the k-th receive of a source and tag gets the
// k-th message that this source sent with the tag. WEFT_SEED says where the random mixes begin; what fails names its seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "conformance/ranks.hpp"
#include "support/draw.hpp"
#include "support/expect_error.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

/// A message of a mix; `number` is its place among all.
struct Message {
  int from;
  int to;
  std::uint32_t tag;
  std::int64_t count;
  std::int64_t number;
};

std::int32_t element(const Message& message, std::int64_t i) {
  return static_cast<std::int32_t>(message.number * 1'000'003 + i);
}

constexpr std::uint32_t first_open_tag = 100;  // all receives of it and of larger ones leave the source open

/// Tags of the first kind have one length each for a pair of ranks: a receive knows what comes. Open ones have one for all.
std::vector<Message> draw_messages(Draw& draw, int ranks, bool has_open_tags) {
  std::map<std::tuple<int, int, std::uint32_t>, std::int64_t> counts;
  std::vector<Message> all;
  const int messages = 5 + draw.below(25);
  for (int i = 0; i < messages; ++i) {
    Message one{draw.below(ranks), draw.below(ranks), static_cast<std::uint32_t>(draw.below(4)), 0, i};
    if (has_open_tags && draw.once_in(3))
      one.tag = first_open_tag + static_cast<std::uint32_t>(draw.below(2));
    const bool is_open = one.tag >= first_open_tag;
    auto& count = counts.try_emplace({is_open ? 0 : one.from, is_open ? 0 : one.to, one.tag}, draw.length())
                      .first->second;
    one.count = count;
    all.push_back(one);
  }
  return all;
}

class Mix {
 public:
  Mix(Communicator comm, std::uint64_t seed, bool on_one_node)
      : comm_(std::move(comm)),
        seed_(seed),
        own_(seed * 64 + static_cast<std::uint64_t>(comm_.rank())),
        on_one_node_(on_one_node) {
    Draw draw(seed);
    messages_ = draw_messages(draw, comm_.size(), on_one_node);
  }

  /// Every message a group on a stream of its own, in any order; between nodes all in one group.
  void run() {
    std::vector<std::size_t> order(messages_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<const Message*> sends;
    std::vector<const Message*> receives;
    for (const Message& one : messages_) {
      if (one.from == comm_.rank()) sends.push_back(&one);
      if (one.to == comm_.rank()) receives.push_back(&one);
    }
    for (std::size_t i = receives.size(); i > 1;
         --i)  // of one source and tag all are alike but for their order
      std::swap(receives[i - 1], receives[static_cast<std::size_t>(own_.below(static_cast<int>(i)))]);
    Group together(comm_);
    while (!sends.empty() || !receives.empty()) {
      const bool sends_next = receives.empty() || (!sends.empty() && own_.once_in(2));
      const Message& next = *(sends_next ? sends.front() : receives.front());
      (sends_next ? sends : receives).erase((sends_next ? sends : receives).begin());
      Group alone(comm_);
      Group& group = on_one_node_ ? alone : together;
      if (sends_next) {
        add_send(group, next);
      } else {
        add_receive(group, next);
      }
      if (on_one_node_) works_[&memory_.back()] = start(group);
    }
    if (!on_one_node_) streams_.emplace_back(), together.start(streams_.back()).wait(Deadline::in(60s));
    // A group behind another's messages begins when its own stream is asked: a thread that waited for one would leave the rest.
    for (const Deadline deadline = Deadline::in(60s); !deadline.passed();) {
      bool are_over = true;
      for (Stream& stream : streams_) are_over = stream.poll() && are_over;
      if (are_over) break;
      std::this_thread::yield();
    }
    for (auto& [memory, work] : works_) work.wait(Deadline::in(1s));
    check();
  }

 private:
  struct Received {
    int source;
    std::uint32_t tag;
    const Buffer* memory;
  };

  Work start(Group& group) {
    const bool has_thread = threads_ < 3 && own_.once_in(4);
    threads_ += has_thread ? 1 : 0;
    streams_.push_back(has_thread ? Stream::queued() : Stream());
    return group.start(streams_.back());
  }
  View allocate(std::int64_t count) {
    memory_.push_back(own_.once_in(2) ? comm_.allocate(DataType::i32, count)
                                      : Buffer::on_host(DataType::i32, count));
    return memory_.back().view();
  }
  void add_send(Group& group, const Message& message) {
    const View data = allocate(message.count);
    const auto elements = data.as<std::int32_t>();
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = element(message, static_cast<std::int64_t>(i));
    group.send(data, message.to, message.tag);
  }
  void add_receive(Group& group, const Message& message) {
    const View data = allocate(message.count);
    if (message.tag >= first_open_tag) {
      group.receive_any(data, message.tag);
      received_.push_back({-1, message.tag, &memory_.back()});
    } else {
      group.receive(data, message.from, message.tag);
      received_.push_back({message.from, message.tag, &memory_.back()});
    }
  }
  /// The model: a queue for each source and tag.
  void check() {
    std::map<std::pair<int, std::uint32_t>, std::deque<const Message*>> queues;
    for (const Message& one : messages_) {
      if (one.to == comm_.rank()) queues[{one.from, one.tag}].push_back(&one);
    }
    for (Received& one : received_) {
      if (one.source < 0) one.source = works_.at(one.memory).source();
      auto& queue = queues[{one.source, one.tag}];
      ASSERT_FALSE(queue.empty()) << "rank " << one.source << " sent no more with tag " << one.tag
                                  << "; WEFT_SEED=" << seed_;
      const Message& expected = *queue.front();
      const auto elements = one.memory->view().as<const std::int32_t>();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        ASSERT_EQ(elements[i], element(expected, static_cast<std::int64_t>(i)))
            << "element " << i << " of message " << expected.number << " of rank " << one.source
            << " with tag " << one.tag << "; WEFT_SEED=" << seed_;
      }
      queue.pop_front();
    }
  }

  Communicator comm_;
  std::uint64_t seed_;
  Draw own_;
  bool on_one_node_;
  int threads_ = 0;
  std::vector<Message> messages_;
  std::deque<Buffer> memory_;
  std::deque<Stream> streams_;
  std::map<const Buffer*, Work> works_;
  std::vector<Received> received_;
};

TEST(Messages, MatchAsThePlainModelSays) {
  const char* const given = std::getenv("WEFT_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  on_ranks([&](Communicator comm) {
    if (!comm.device().is_host()) return;
    Stream stream;
    for (std::uint64_t seed = first; seed < first + 15; ++seed) {
      Mix(comm, seed, comm.topology().nodes() == 1).run();
      comm.barrier(stream).wait();
    }
  });
}

// The receiver asks in another order than the sender sends, also for messages longer than the channel and for memory that it cannot reach.
TEST(Messages, AReceiveOfOneTagIsNotHeldUpByAnEarlierMessageOfAnother) {
  on_ranks([](Communicator comm) {
    if (!comm.device().is_host() || comm.topology().nodes() > 1 || comm.size() == 1) return;
    for (const std::int64_t count : {0, 3, 20'000, 100'000}) {
      Stream stream;
      std::vector<float> data(static_cast<std::size_t>(count));
      const View view{std::span(data)};
      if (comm.rank() == 0) {
        for (const std::uint32_t tag : {1U, 2U, 4'000'000'000U}) {
          std::ranges::fill(data, static_cast<float>(tag));
          Group(comm).send(view, 1, tag).start(stream).wait();  // one after the other: each is put aside
        }
      } else if (comm.rank() == 1) {
        for (const std::uint32_t tag : {4'000'000'000U, 2U, 1U}) {
          Group(comm).receive(view, 0, tag).start(stream).wait(Deadline::in(30s));
          for (const float one : data) ASSERT_EQ(one, static_cast<float>(tag));
        }
      }
      comm.barrier(stream).wait();
    }
  });
}

// Two messages on streams of their own. The receiver asks for the second when it knows that the first has ended on the sender, too: what
// is posted in part behind a message that was taken, or before it, does not keep its sender.
TEST(Messages, WhatWasReceivedEndsWhateverElseIsPosted) {
  on_ranks([](Communicator comm) {
    if (!comm.device().is_host() || comm.topology().nodes() > 1 || comm.size() == 1) return;
    for (const std::int64_t length : {1, 64, 20'000, 100'000}) {
      for (const std::int64_t other : {1, 64, 20'000, 100'000}) {
        for (const std::uint32_t first : {0U, 1U}) {
          SCOPED_TRACE(text(length, " and ", other, " f32, of which the receiver takes number ", first));
          std::vector<std::vector<float>> data{std::vector<float>(static_cast<std::size_t>(length)),
                                               std::vector<float>(static_cast<std::size_t>(other))};
          std::vector<Stream> streams(2);
          Stream stream;
          std::vector<Work> sent;
          if (comm.rank() == 0) {
            for (const std::uint32_t tag : {0U, 1U}) {
              std::ranges::fill(data[tag], static_cast<float>(1 + tag));
              sent.push_back(Group(comm).send(View(std::span(data[tag])), 1, tag).start(streams[tag]));
              streams[tag].poll();
            }
          }
          comm.barrier(stream).wait();
          for (const std::uint32_t tag : {first, 1 - first}) {
            if (comm.rank() == 0) sent[tag].wait(Deadline::in(20s));
            if (comm.rank() == 1) {
              Group(comm)
                  .receive(View(std::span(data[tag])), 0, tag)
                  .start(streams[tag])
                  .wait(Deadline::in(20s));
              for (const float one : data[tag]) ASSERT_EQ(one, static_cast<float>(1 + tag));
            }
            comm.barrier(stream).wait(Deadline::in(30s));
          }
        }
      }
    }
  });
}

TEST(Messages, AReceiveFromAnyRankSaysWhoseMessageItTook) {
  on_ranks([](Communicator comm) {
    if (!comm.device().is_host() || comm.topology().nodes() > 1) return;
    Stream stream;
    std::int64_t mine = 100 + comm.rank();
    const Work sent = Group(comm).send(ConstView(std::span(&mine, 1)), 0, 7).start(stream);
    if (comm.rank() == 0) {
      Stream other;
      std::vector<std::int64_t> got(static_cast<std::size_t>(comm.size()), -1);
      Group group(comm);
      for (std::int64_t& one : got) group.receive_any(View(std::span(&one, 1)), 7);
      const Work received = group.start(other);
      received.wait();
      std::vector<bool> seen(got.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i], 100 + received.source(i));
        seen[static_cast<std::size_t>(received.source(i))] = true;
      }
      EXPECT_EQ(std::ranges::count(seen, true), comm.size());
      expect_error(ErrorKind::usage, {"no such receive"}, [&] { (void)received.source(got.size()); });
      expect_error(ErrorKind::usage, {through_c ? "`work` is NULL" : "source of receive_any 0"},
                   [] { (void)Work().source(); });
    }
    sent.wait();
    comm.barrier(stream).wait();
  });
}

TEST(Messages, WhatABackendCannotDoIsRefusedAtTheCall) {
  on_ranks([](Communicator comm) {
    std::vector<float> data(3);
    const View view{std::span(data)};
    Group group(comm);
    if (comm.topology().nodes() > 1) {
      Stream stream;
      std::vector<float> more(2);
      expect_error(ErrorKind::usage,
                   {"3 f32 (tag 5) to this rank itself is sent and not received", "one group"},
                   [&] { Group(comm).send(view, comm.rank(), 5).start(stream); });
      expect_error(ErrorKind::usage, {"is received and not sent"},
                   [&] { Group(comm).receive(view, comm.rank()).start(stream); });
      expect_error(ErrorKind::mismatch, {"sent itself 3 f32 and receives 2 f32"}, [&] {
        Group(comm).send(view, comm.rank()).receive(View{std::span(more)}, comm.rank()).start(stream);
      });
      expect_error(ErrorKind::usage, {"a receive from any rank", "name the source"},
                   [&] { group.receive_any(view, 3); });
      expect_error(ErrorKind::usage, {"tag 4096", "largest is 4095"}, [&] { group.send(view, 0, 4096); });
    }
    if (comm.device().is_host()) return;
    Buffer memory = comm.allocate(DataType::f32, 3);
    expect_error(ErrorKind::usage, {"tag 1", "nccl", "tag 0"}, [&] { group.send(memory.view(), 0, 1); });
    expect_error(ErrorKind::usage, {"tag 1", "nccl"}, [&] { group.receive(memory.view(), 0, 1); });
    expect_error(ErrorKind::usage, {"any rank", "nccl"}, [&] { group.receive_any(memory.view()); });
  });
}

}  // namespace
}  // namespace weft::test
