#include "core/files/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::detail {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::string content(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return std::move(all).str();
}

/// All names in a folder.
std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& one : std::filesystem::directory_iterator(folder)) all.push_back(one.path().filename());
  return all;
}

TEST(OutputFile, ReplacesWhatWasThereWhenItIsWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/run.json";
  std::ofstream(path) << "old";
  OutputFile file(path, "--json");
  EXPECT_EQ(content(path), "old");
  file.write("new and longer");
  EXPECT_EQ(content(path), "new and longer");
  EXPECT_EQ(names(folder.path()), std::vector<std::string>{"run.json"});
}

TEST(OutputFile, LeavesNothingBehindWithoutAWrite) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/old") << "old";
  {
    OutputFile fresh(folder.path() + "/fresh", "--json");
    OutputFile moved = std::move(fresh);
    const OutputFile old(folder.path() + "/old", "--json");
  }
  EXPECT_EQ(names(folder.path()), std::vector<std::string>{"old"});
  EXPECT_EQ(content(folder.path() + "/old"), "old");
}

TEST(OutputFile, KeepsPermissionsAndLinks) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/real";
  std::ofstream(path) << "old";
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  std::filesystem::create_symlink(path, folder.path() + "/link");
  OutputFile(folder.path() + "/link", "--json").write("new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() + "/link"));
  EXPECT_EQ(content(path), "new");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(OutputFile, RefusesAtOnceWhatCannotBeWritten) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::usage, {"--json x: cannot write it: No such file"},
               [] { OutputFile("/no/such/folder/x", "--json x"); });
  expect_error(ErrorKind::usage, {"cannot write it: Is a directory"},
               [&] { OutputFile(folder.path(), "--json"); });
  EXPECT_TRUE(names(folder.path()).empty());
}

// As a full disk: the content does not fit, and what was there is whole.
TEST(OutputFile, KeepsWhatWasThereWhereTheNewDoesNotFit) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/run.json";
  std::ofstream(path) << "old";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  OutputFile file(path, "--json run.json");
  expect_error(ErrorKind::system, {"cannot write --json run.json: File too large"},
               [&] { file.write(std::string(5000, 'x')); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(names(folder.path()), std::vector<std::string>{"run.json"});
}

TEST(OutputFile, WritesDevicesAsTheyAre) {
  OutputFile("/dev/null", "--json").write("gone");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
  expect_error(ErrorKind::system, {"cannot write --json /dev/full: No space left on device; make room"},
               [] { OutputFile("/dev/full", "--json /dev/full").write("x"); });
}

}  // namespace
}  // namespace weft::detail
