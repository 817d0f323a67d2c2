// What connect() refuses before anything moves.

#include <gtest/gtest.h>

#include <utility>

#include "support/expect_error.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/collectives/world.hpp"

namespace weft {
namespace {

using test::expect_error;

std::shared_ptr<Rendezvous> alone() {
  return make_store_rendezvous(make_memory_store(), "world", 0, 1);
}

/// Whose rank 0 calls the job something.
class NamedJob final : public Rendezvous {
 public:
  explicit NamedJob(std::string job) : job_(std::move(job)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                      Deadline) override {
    if (purpose != "connect") return {note};
    const auto counted = [](const std::string& job) { return text(job.size(), ' ', job); };
    const std::string its = counted(FlightRecorder::process_name());
    const auto place = note.find(its);
    EXPECT_NE(place, std::string::npos) << note;
    return {std::string(note).replace(place, its.size(), counted(job_))};
  }
  std::shared_ptr<Rendezvous> split(const std::vector<int>&) override { return alone(); }

 private:
  std::string job_;
};

TEST(Connect, RefusesValuesOfItsVariablesThatMakeNoSense) {
  for (const auto& [name, value, why] : {
           std::tuple("WEFT_ORDER", "canonical", "neither rank nor any"),
           std::tuple("WEFT_PROGRESS", "sometimes", "none of inline, thread, auto"),
           std::tuple("WEFT_TRANSPORT", "carrier-pigeon", "none of auto, ucx, tcp, mpi"),
           std::tuple("WEFT_HEAP_BYTES", "99999999999999999999", "not an integer from 0"),
           std::tuple("WEFT_HEAP_BYTES", "-1", "not an integer from 0"),
       }) {
    const World world = World::over(alone(), {}, Environment(Environment::Values{{name, value}}));
    expect_error(ErrorKind::usage, {text(name, "=", value), why}, [&] { connect(world); });
  }
}

// The name of the job becomes one of a folder.
TEST(Connect, RefusesAJobsNameThatIsAPath) {
  for (const char* job : {"../../etc", "a/b", "..", ".hidden", "", "a\nb"}) {
    expect_error(ErrorKind::mismatch, {"rank 0 calls the job \"", "which is no name of one"},
                 [&] { connect(World::over(std::make_shared<NamedJob>(job))); });
  }
  EXPECT_NO_THROW(connect(World::over(std::make_shared<NamedJob>("node-3.cluster_77"))));
}

/// As of another version, whose digest agrees all the same.
TEST(Connect, RefusesAGreetingThatMakesNoSense) {
  class Garbled final : public Rendezvous {
   public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    std::vector<std::string> all_gather(const std::string& note, const std::string&, Deadline) override {
      return {note.substr(0, 16) + rest};
    }
    std::shared_ptr<Rendezvous> split(const std::vector<int>&) override { return alone(); }
    std::string rest;
  };
  for (const char* rest : {"", "8", "99 job", "-1 job", "job", "18446744073709551615 a"}) {
    const auto rendezvous = std::make_shared<Garbled>();
    rendezvous->rest = rest;
    expect_error(ErrorKind::mismatch, {"a greeting of", "makes no sense", "same build"},
                 [&] { connect(World::over(rendezvous)); });
  }
}

}  // namespace
}  // namespace weft
