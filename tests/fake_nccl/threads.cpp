#include "fake_nccl/threads.hpp"

#include "fake_nccl/functions.hpp"
#include "fake_nccl/streams.hpp"
#include "support/fake_cuda.hpp"

namespace weft::fake_nccl {

bool on_stream(detail::nccl::Stream stream, std::function<void()> work) {
  test::FakeCuda::enqueue(stream, std::move(work));
  return true;
}
int current_device() {
  return detail::cuda::runtime()->current();
}

}  // namespace weft::fake_nccl

namespace weft::test {

using detail::nccl::Result;

FakeNcclRanks::FakeNcclRanks(int version) {
  wishes_.version = version;
  wishes_.non_blocking = false;
  wishes_.stuck = -1;
  wishes_.reachable = true;
  for (auto& state : wishes_.states) state = detail::nccl::success;
  for (auto* const count : {&communicators, &registered, &windows, &blocks}) *count = 0;
  const std::lock_guard lock(wishes_.mutex);
  wishes_.refusals.clear();
  wishes_.handed_over.clear();
}
FakeNcclRanks::~FakeNcclRanks() {
  ++wishes_.generation;
  observe({});
}

std::shared_ptr<const detail::nccl::Api> FakeNcclRanks::api() {
  return detail::nccl::Api::load(&fake_nccl::find, "the fake");
}

void FakeNcclRanks::refuse(const std::string& function, Result answer) {
  const std::lock_guard lock(wishes_.mutex);
  wishes_.refusals[function] = answer;
}
void FakeNcclRanks::observe(fake_nccl::Observer observer) {
  const std::lock_guard lock(wishes_.mutex);
  wishes_.observer = std::move(observer);
}
std::vector<std::pair<std::string, int>> FakeNcclRanks::handed_over(int rank) {
  const std::lock_guard lock(wishes_.mutex);
  return wishes_.handed_over[rank];
}
void FakeNcclRanks::fail(int rank, Result state) {
  if (state != detail::nccl::success) fake_nccl::say("socket closed by the fake");
  wishes_.states[static_cast<std::size_t>(rank)] = state;
}

}  // namespace weft::test
