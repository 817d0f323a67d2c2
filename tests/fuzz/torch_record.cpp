// A flight record of PyTorch, as pickle or JSON, and what it gives together with the record of another rank.

#include "fuzz/expect_refused.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft-report/torch_records/values.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace report::torch_records;
  const std::string_view content = test::as_text(data, size);
  (void)is_dump(content);
  test::taken_or_refused([&] { (void)read_pickle(content); });
  test::taken_or_refused([&] {
    std::vector<report::FlightRecord> job;
    add_record(job, flight_of(parse_dump(content, "nccl_trace_rank_0")));
    report::FlightRecord other = job.front();
    other.rank = 1;
    for (report::FlightCommunicator& group : other.communicators) {
      auto& operations = group.lanes[static_cast<std::size_t>(report::Lane::device)];
      if (!operations.empty()) operations.pop_back();
    }
    add_record(job, std::move(other));
    for (const report::Finding& one : examine_torch(job))
      test::expect(!one.evidence.empty(), "a finding has evidence");
    (void)report::progress_summary(job);
  });
  return 0;
}
