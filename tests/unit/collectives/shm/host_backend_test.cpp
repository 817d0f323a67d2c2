// Communicators of one process share its heap and what it has mapped of its peers. Ranks are threads here, which are peers of each other as
// processes are; conformance_processes does the same with processes.

#include "collectives/shm/host_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "collectives/shm/threads_backend.hpp"
#include "weft/core/node_heap.hpp"
#include "weft/weft.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t capacity = std::size_t{64} << 20;

std::size_t mappings(const std::string& name) {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:" + name) != std::string::npos;
  return count;
}

/// Every rank meets the others by a rendezvous of their own; so often as `name` differs.
void on_host_ranks(
    int ranks,
    const std::function<void(const std::function<std::shared_ptr<Rendezvous>(std::string)>&)>& body) {
  const auto store = make_memory_store();
  on_threads(ranks, [&](int rank) {
    body([&](std::string name) { return make_store_rendezvous(store, std::move(name), rank, ranks); });
  });
}

World world_with(const std::shared_ptr<Rendezvous>& rendezvous, std::size_t heap_bytes) {
  return World::over(rendezvous, {},
                     Environment(Environment::Values{{"WEFT_HEAP_BYTES", std::to_string(heap_bytes)},
                                                     {"WEFT_FLIGHT_DIR", "off"}}));
}

TEST(HostBackend, ReachesWhatAnotherOfItsProcessAllocated) {
  on_host_ranks(2, [](const auto& meet_as) {
    const auto first = make_host_backend(meet_as("first"), NodeHeap::of_process(capacity), 10s, 10s);
    const auto second = make_host_backend(meet_as("second"), NodeHeap::of_process(capacity), 10s, 10s);
    const auto rendezvous = meet_as("part");
    const auto part = first->split({0, 1}, rendezvous);
    const Buffer buffer = first->allocate(DataType::f32, 1000, Contents::zeroed);
    EXPECT_TRUE(first->reaches(buffer.view()));
    EXPECT_TRUE(second->reaches(buffer.view()));
    EXPECT_TRUE(part->reaches(buffer.view()));
    EXPECT_FALSE(part->reaches(Buffer::on_host(DataType::f32, 1000).view()));
    rendezvous->all_gather("", "the end", Deadline::in(10s));  // who leaves takes its memory along
  });
}

TEST(HostBackend, KeepsMemoryOfAnyContentsForEveryCommunicatorOfItsProcess) {
  on_host_ranks(1, [](const auto& meet_as) {
    const auto one = make_host_backend(meet_as("one"), NodeHeap::of_process(capacity), 10s, 10s);
    const auto other = make_host_backend(meet_as("other"), NodeHeap::of_process(capacity), 10s, 10s);
    std::optional<Buffer> first = one->allocate(DataType::f32, 1000, Contents::any);
    const void* const place = first->view().data();
    first.reset();
    const Buffer second = other->allocate(DataType::f32, 1000, Contents::any);
    EXPECT_EQ(second.view().data(), place);
    EXPECT_TRUE(one->reaches(second.view()));
  });
}

TEST(HostBackend, OfAnotherCapacityHasAnotherHeap) {
  on_host_ranks(2, [](const auto& meet_as) {
    const auto first = make_host_backend(meet_as("first"), NodeHeap::of_process(capacity), 10s, 10s);
    const auto rendezvous = meet_as("second");
    const auto second = make_host_backend(rendezvous, NodeHeap::of_process(2 * capacity), 10s, 10s);
    EXPECT_FALSE(second->reaches(first->allocate(DataType::f32, 1000, Contents::zeroed).view()));
    EXPECT_FALSE(first->reaches(second->allocate(DataType::f32, 1000, Contents::zeroed).view()));
    rendezvous->all_gather("", "the end", Deadline::in(10s));
  });
}

TEST(HostBackend, SumsWhereTheMemoryIsOfAnotherCommunicatorOrCapacity) {
  on_host_ranks(3, [](const auto& meet_as) {
    constexpr std::int64_t count = 100'000;
    Communicator one = connect(world_with(meet_as("one"), capacity));
    Communicator other = connect(world_with(meet_as("other"), capacity));
    Communicator larger = connect(world_with(meet_as("larger"), 2 * capacity));
    Communicator pair = *one.split(one.rank() == 1 ? 1 : 0, -one.rank());
    ASSERT_EQ(one.backend(), "host (shared memory)");
    Stream stream;
    for (Communicator* owner : {&one, &other, &larger, &pair}) {
      for (Communicator* comm : {&one, &other, &larger, &pair}) {
        Buffer data = owner->allocate(DataType::i64, count);
        std::ranges::fill(data.as<std::int64_t>(), one.rank() + 1);
        comm->all_reduce(data.view(), ReduceOp::sum, stream).wait();
        const std::int64_t sum = comm != &pair ? 6 : one.rank() == 1 ? 2 : 4;
        EXPECT_TRUE(std::ranges::all_of(data.as<std::int64_t>(), [&](auto value) { return value == sum; }));
        one.barrier(stream).wait();
      }
    }
  });
}

// One heap, and of every communicator one segment, for all ranks of a process.
TEST(HostBackend, MapsEverythingOnceAndUnmapsItWithTheLast) {
  on_host_ranks(2, [](const auto& meet_as) {
    {
      Communicator one = connect(world_with(meet_as("one"), capacity));
      std::optional<Communicator> other = connect(world_with(meet_as("other"), capacity));
      std::optional<Communicator> part = one.split(0);
      Stream stream;
      one.barrier(stream).wait();
      EXPECT_EQ(mappings("weft-heap"), 1U);
      EXPECT_EQ(mappings("weft-segment"), 3U);
      one.barrier(stream).wait();
      part.reset();
      other.reset();
      one.barrier(stream).wait();
      EXPECT_EQ(mappings("weft-segment"), 1U);
      one.barrier(stream).wait();
    }
    (void)meet_as("end")->all_gather("", "the end", Deadline::in(10s));
    EXPECT_EQ(mappings("weft-heap"), 0U);
    EXPECT_EQ(mappings("weft-segment"), 0U);
  });
}

}  // namespace
}  // namespace weft::detail
