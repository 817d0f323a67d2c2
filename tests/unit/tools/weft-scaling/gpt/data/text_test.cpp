#include "weft-scaling/gpt/data/text.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "weft/core/error.hpp"

namespace weft::examples {
namespace {

namespace fs = std::filesystem;

class TextFiles : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::temp_directory_path() / ("weft-text-" + test + "-" + std::to_string(getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  fs::path folder_;
};

std::string string_of(Sequence sequence) {
  return {sequence.begin(), sequence.end()};
}

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  return bytes;
}

void expect_usage(const fs::path& path, std::int64_t sequence_bytes, const std::string& words) {
  try {
    Text::read(path, sequence_bytes);
    FAIL() << "accepted " << path;
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::usage) << line;
    EXPECT_NE(line.find(path.string()), std::string::npos) << line;
    EXPECT_NE(line.find(words), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

TEST_F(TextFiles, AFolderIsItsRegularFilesInOrderOfNamesWithoutLinksAndSubfolders) {
  write("b", "BBBBBBBBBB");
  write("a", "AAAAAAAAAA");
  fs::create_symlink(folder_ / "b", folder_ / "0-link");
  fs::create_directory(folder_ / "c");
  write("c/below", "CCCCCCCCCC");
  const Text text = Text::read(folder_, 2);
  EXPECT_EQ(text.training_bytes(), 18);
  EXPECT_EQ(text.held_out_bytes(), 2);
  std::vector<Sequence> sequence(1);
  text.held_out(1, 0, sequence);
  EXPECT_EQ(string_of(sequence[0]), "BB");
}

TEST_F(TextFiles, AMissingPathIsRefusedByName) {
  expect_usage(folder_ / "absent", 2, "there is no text at");
}

TEST_F(TextFiles, AnEmptyFileAndAnEmptyFolderAreRefusedByName) {
  expect_usage(write("nothing", ""), 2, "is empty");
  fs::create_directory(folder_ / "void");
  expect_usage(folder_ / "void", 2, "is empty");
}

TEST_F(TextFiles, SomethingThatIsNeitherFileNorFolderIsRefusedByName) {
  expect_usage("/dev/null", 2, "neither a file nor a folder");
}

TEST_F(TextFiles, ATextShorterThanASequenceIsRefusedForThePartThatIsTooShort) {
  const fs::path path = write("short", std::string(100, 'x'));
  EXPECT_EQ(Text::read(path, 10).held_out_bytes(), 10);
  expect_usage(path, 11, "held-out part");
  expect_usage(path, 91, "training part");
}

TEST(Text, AnyNumberOfRanksDrawsTheSameGlobalBatch) {
  const Text text(counting(5000), 33, "counting");
  std::vector<Sequence> whole(12);
  text.training(7, 3, 0, whole);
  for (const std::size_t ranks : {2U, 3U, 4U, 12U}) {
    const std::size_t share = whole.size() / ranks;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<Sequence> mine(share);
      text.training(7, 3, static_cast<std::int64_t>(rank * share), mine);
      for (std::size_t i = 0; i < share; ++i) EXPECT_EQ(mine[i].data(), whole[rank * share + i].data());
    }
  }
}

TEST(Text, SeedStepAndIndexEachChangeWhatIsDrawn) {
  const Text text(counting(100000), 9, "counting");
  EXPECT_NE(text.training_start(1, 0, 0), text.training_start(2, 0, 0));
  EXPECT_NE(text.training_start(1, 0, 0), text.training_start(1, 1, 0));
  EXPECT_NE(text.training_start(1, 0, 0), text.training_start(1, 0, 1));
  EXPECT_NE(text.training_start(1, 0, 1), text.training_start(1, 1, 0));
}

TEST(Text, EveryStartInTheTrainingPartIsDrawnAndNoneReachesTheHeldOutPart) {
  const Text text(counting(100), 8, "counting");
  std::set<std::int64_t> starts;
  for (std::int64_t step = 0; step < 4000; ++step) starts.insert(text.training_start(1, step, 0));
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 90 - 8);
  EXPECT_EQ(starts.size(), 83U);
}

TEST(Text, HeldOutSequencesAreEvenlySpacedFromTheFirstToTheLastByte) {
  const Text text(counting(1000), 20, "counting");
  std::vector<Sequence> batch(5);
  text.held_out(5, 0, batch);
  const std::vector<std::uint8_t> bytes = counting(1000);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(batch[i].size(), 20U);
    EXPECT_EQ(batch[i].front(), bytes[900 + 20 * i]);
  }
  EXPECT_EQ(batch[4].back(), bytes[999]);
  EXPECT_THROW(text.held_out(5, 1, batch), Error);
}

TEST(Text, ASequenceOfOneByteHasNothingToPredict) {
  EXPECT_THROW(Text(counting(100), 1, "counting"), Error);
}

}  // namespace
}  // namespace weft::examples
