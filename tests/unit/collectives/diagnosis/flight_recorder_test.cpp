// What a rank writes, and what keeps it from that. Whether it can be read: report/flight_recorder_test.

#include "weft/collectives/flight_recorder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support/temporary_folder.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream words;
  words << file.rdbuf();
  return std::move(words).str();
}

bool holds(const std::string& words, const std::string& part) {
  return words.find(part) != std::string::npos;
}

struct Words final : FlightNote {
  explicit Words(std::string what) : words(std::move(what)) {}
  std::string json() const override { return words; }
  std::string words;
};

class FlightRecorders : public testing::Test {
 protected:
  FlightRecorders() {
    log::set_sink([this](log::Level level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      logged_.emplace_back(level, line);
    });
  }
  ~FlightRecorders() override { log::set_sink(nullptr); }

  std::vector<std::pair<log::Level, std::string>> logged() {
    const std::lock_guard lock(mutex_);
    return logged_;
  }

  test::TemporaryFolder folder_;

 private:
  std::mutex mutex_;
  std::vector<std::pair<log::Level, std::string>> logged_;
};

TEST_F(FlightRecorders, WriteAFileInAFolderThatIsMadeThen) {
  const std::string folder = folder_.path() + "/a job/of today";
  FlightRecorder recorder(2, 4, folder);
  EXPECT_EQ(recorder.folder(), folder);
  EXPECT_FALSE(std::filesystem::exists(folder));
  recorder.dump("before the risky part");
  const std::string file = folder + "/rank-2.json";
  const std::string first = content(file);
  EXPECT_TRUE(first.starts_with(R"({"weft_flight":1,"rank":2,"size":4,"host":")")) << first;
  EXPECT_TRUE(holds(first, text("\"pid\":", getpid(), ",\"reason\":\"before the risky part\""))) << first;
  EXPECT_TRUE(first.ends_with("\"progress\":[],\n\"communicators\":[]}\n")) << first;
  EXPECT_FALSE(holds(first, "\"error\""));
  recorder.dump("error");  // over the earlier one
  EXPECT_TRUE(holds(content(file), "\"reason\":\"error\""));
  EXPECT_FALSE(holds(content(file), "risky"));
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  ASSERT_EQ(logged().size(), 2U);
  EXPECT_EQ(logged()[0].first, log::Level::warn);
  EXPECT_TRUE(holds(logged()[0].second, "rank 2: flight record in " + file)) << logged()[0].second;
}

TEST_F(FlightRecorders, SayWhatKeepsThemFromWriting) {
  const std::string file = folder_.path() + "/file";
  std::ofstream(file) << "in the way";
  FlightRecorder(1, 2, file + "/flights").dump("error");
  ASSERT_EQ(logged().size(), 1U);
  EXPECT_EQ(logged()[0].first, log::Level::warn);
  EXPECT_TRUE(holds(logged()[0].second, "rank 1: no flight record: ")) << logged()[0].second;
  EXPECT_TRUE(holds(logged()[0].second, file)) << logged()[0].second;
  EXPECT_EQ(content(file), "in the way");

  std::filesystem::create_directories(folder_.path() + "/taken/rank-1.json.part");
  FlightRecorder(1, 2, folder_.path() + "/taken").dump("error");
  ASSERT_EQ(logged().size(), 2U);
  EXPECT_TRUE(holds(logged()[1].second, "rank 1: no flight record: ")) << logged()[1].second;
  EXPECT_TRUE(holds(logged()[1].second, "cannot write " + folder_.path() + "/taken/rank-1.json.part: "))
      << logged()[1].second;
}

// Another user who knows where a record will be cannot make weft write elsewhere.
TEST_F(FlightRecorders, FollowNoLinkOfAnotherUser) {
  const std::string victim = folder_.path() + "/victim";
  std::ofstream(victim) << "kept";
  const std::string flights = folder_.path() + "/flights";
  std::filesystem::create_directories(flights);
  for (const char* name : {"/rank-1.json.part", "/rank-1.json"})
    std::filesystem::create_symlink(victim, flights + name);
  FlightRecorder(1, 2, flights).dump("error");
  EXPECT_EQ(content(victim), "kept");
  EXPECT_TRUE(holds(content(flights + "/rank-1.json"), "\"reason\":\"error\""));
  EXPECT_FALSE(std::filesystem::is_symlink(flights + "/rank-1.json"));
  struct stat status {};
  ASSERT_EQ(stat((flights + "/rank-1.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);

  const std::string link = folder_.path() + "/link";
  std::filesystem::create_directory_symlink(flights, link);
  FlightRecorder(0, 2, link).dump("error");  // this user's own
  EXPECT_TRUE(std::filesystem::exists(flights + "/rank-0.json"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a link another user's";
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  FlightRecorder(2, 3, link + "/job").dump("error");
  EXPECT_FALSE(std::filesystem::exists(flights + "/job"));
  EXPECT_TRUE(holds(logged().back().second, link + " is a symbolic link of user 65534"))
      << logged().back().second;
}

TEST_F(FlightRecorders, AreAnErrorOfTheirsWhereFilesMayNotGrow) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  FlightRecorder(1, 2, folder_.path() + "/flights").dump("error");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(logged().size(), 1U);
  EXPECT_TRUE(holds(logged()[0].second, "rank-1.json.part: File too large; raise the limit of a file's size"))
      << logged()[0].second;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/flights"))
      << "a part takes room where there is none";
}

// In /tmp anybody can make the folder before, and could then replace what is in it.
TEST_F(FlightRecorders, WriteNothingBelowAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder another user's";
  const std::string user = text("/tmp/weft-flight-", getpid(), "-of-a-test");
  std::filesystem::create_directories(user);
  ASSERT_EQ(chown(user.c_str(), 65534, 65534), 0);
  FlightRecorder(1, 2, user + "/job").dump("error");
  EXPECT_TRUE(holds(logged().back().second, user + " belongs to user 65534; set WEFT_FLIGHT_DIR"))
      << logged().back().second;
  EXPECT_TRUE(std::filesystem::is_empty(user));
  ASSERT_EQ(chown(user.c_str(), geteuid(), 0), 0);
  FlightRecorder(1, 2, user + "/job").dump("error");
  EXPECT_TRUE(std::filesystem::exists(user + "/job/rank-1.json"));
  std::filesystem::remove_all(user);
}

TEST_F(FlightRecorders, WithoutAFolderWriteNothingAndSayNothing) {
  FlightRecorder recorder(0, 1, "");
  recorder.dump("error");
  EXPECT_TRUE(logged().empty());
  EXPECT_TRUE(holds(recorder.json("signal"), "\"reason\":\"signal\""));
}

TEST_F(FlightRecorders, KeepTheFirstError) {
  FlightRecorder recorder(0, 1, folder_.path());
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  recorder.raised(
      Error(ErrorKind::peer_lost, "rank 1 \"went\"\nand\\or died", "look there", {0, "all_reduce", 7}));
  recorder.raised(Error(ErrorKind::usage, "and then this"));
  const std::string json = recorder.json("error");
  const std::string words =
      R"("error":{"kind":"peer lost","message":"rank 1 \"went\"\u000aand\\or died","operation":"all_reduce","number":7,"at_ns":)";
  const auto at = json.find(words);
  ASSERT_NE(at, std::string::npos) << json;
  EXPECT_FALSE(holds(json, "and then this"));
  const auto at_ns = std::chrono::nanoseconds(std::stoll(json.substr(at + words.size())));
  EXPECT_GE(at_ns, before);
  EXPECT_LE(at_ns, std::chrono::steady_clock::now().time_since_epoch());
}

TEST_F(FlightRecorders, HoldWhatLivesAndLeaveOutWhatDied) {
  FlightRecorder recorder(0, 1, "");
  const auto stays = std::make_shared<Words>(R"({"track":"a"})");
  const auto late = std::make_shared<Words>(R"({"track":"c"})");
  auto dies = std::make_shared<Words>(R"({"track":"b"})");
  recorder.add(stays);
  recorder.add(dies);
  recorder.add_communicator(dies);
  recorder.add_communicator(stays);
  EXPECT_TRUE(holds(recorder.json("signal"),
                    "\"progress\":[{\"track\":\"a\"},\n{\"track\":\"b\"}],\n"
                    "\"communicators\":[{\"track\":\"b\"},\n{\"track\":\"a\"}]}\n"));
  dies.reset();
  EXPECT_TRUE(holds(recorder.json("signal"),
                    "\"progress\":[{\"track\":\"a\"}],\n\"communicators\":[{\"track\":\"a\"}]}\n"));
  recorder.add(late);
  recorder.add_communicator(late);
  EXPECT_TRUE(holds(recorder.json("signal"),
                    "\"progress\":[{\"track\":\"a\"},\n{\"track\":\"c\"}],\n"
                    "\"communicators\":[{\"track\":\"a\"},\n{\"track\":\"c\"}]}\n"));
}

TEST_F(FlightRecorders, TellBothClocksOfOneMoment) {
  FlightRecorder recorder(0, 1, "");
  const auto read = [](const std::string& json, const std::string& name) {
    return std::chrono::nanoseconds(std::stoll(json.substr(json.find(name) + name.size())));
  };
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  const std::string json = recorder.json("signal");
  EXPECT_GE(read(json, "\"steady_ns\":"), steady);
  EXPECT_LE(read(json, "\"steady_ns\":"), std::chrono::steady_clock::now().time_since_epoch());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(read(json, "\"wall_ns\":") - wall), 1h);
}

TEST_F(FlightRecorders, AllOfAProcessWriteOnASignalAndItGoesOn) {
  FlightRecorder::dump_on_sigusr2();
  FlightRecorder::dump_on_sigusr2();
  FlightRecorder one(0, 2, folder_.path());
  FlightRecorder other(1, 2, folder_.path());
  { FlightRecorder gone(2, 3, folder_.path()); }
  ASSERT_EQ(raise(SIGUSR2), 0);
  const auto deadline = Deadline::in(10s);
  while (logged().size() < 2 && !deadline.passed()) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(logged().size(), 2U);
  EXPECT_TRUE(holds(content(folder_.path() + "/rank-0.json"), "\"reason\":\"signal\""));
  EXPECT_TRUE(holds(content(folder_.path() + "/rank-1.json"), "\"reason\":\"signal\""));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/rank-2.json"));
}

// A signal may come while ranks are made and go.
TEST_F(FlightRecorders, MayBeWrittenByManyThreads) {
  FlightRecorder recorder(0, 1, folder_.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&recorder, i] {
      for (int round = 0; round < 10; ++round) {
        const auto note = std::make_shared<Words>("{}");
        recorder.add(note);
        recorder.raised(Error(ErrorKind::usage, text("of thread ", i)));
        recorder.dump("error");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string last = content(folder_.path() + "/rank-0.json");
  EXPECT_TRUE(last.starts_with("{\"weft_flight\":1,")) << last;
  EXPECT_TRUE(last.ends_with("\"communicators\":[]}\n")) << last;
  for (const auto& [level, line] : logged()) EXPECT_TRUE(holds(line, "flight record in ")) << line;
}

}  // namespace
}  // namespace weft
