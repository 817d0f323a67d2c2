#include "core/files/scratch_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "support/expect_error.hpp"
#include "support/forbidden_call.hpp"
#include "support/temporary_folder.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t block = ScratchFile::block;

TEST(ScratchFile, HasAllItsSpaceAndNoName) {
  const test::TemporaryFolder folder;
  const ScratchFile file(folder.path(), 10 * block, ScratchFile::Access::buffered);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(file.path().find(folder.path() + "/weft-"), 0U);
  struct stat status {};
  ASSERT_EQ(fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(status.st_size, 10 * block);
  EXPECT_GE(status.st_blocks * 512, 10 * block);
  EXPECT_EQ(status.st_mode & 0777U, 0600U) << "of this user alone";
  char last = 'x';
  ASSERT_EQ(pread(file.descriptor(), &last, 1, 10 * block - 1), 1);
  EXPECT_EQ(last, 0);
}

TEST(ScratchFile, SaysWhatFolderItCannotUse) {
  test::expect_error(ErrorKind::system, {"cannot make a file in /no/such/folder: No such file", "local disk"},
                     [] { ScratchFile("/no/such/folder", block); });
  test::expect_error(ErrorKind::system, {"cannot make a file in /dev/null: Not a directory"},
                     [] { ScratchFile("/dev/null", block); });
  test::expect_error(ErrorKind::system, {"cannot make a file in /proc"}, [] { ScratchFile("/proc", block); });
}

// It had ended the process by SIGXFSZ.
TEST(ScratchFile, ALimitOfFileSizesIsAnError) {
  const test::TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = block;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  test::expect_error(ErrorKind::system, {"cannot reserve", folder.path(), "ulimit -f"},
                     [&] { ScratchFile(folder.path(), 10 * block); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(ScratchFile, SaysHowMuchIsNeededAndHowMuchIsFree) {
  const test::TemporaryFolder folder;
  test::expect_error(ErrorKind::system,
                     {"1125899906842624 bytes are needed in " + folder.path() + " and ", " are free",
                      "No space left", "keep less there"},
                     [&] { ScratchFile(folder.path(), std::size_t{1} << 50); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// In a child, which prints it.
[[noreturn]] void print_error_of(const std::function<void()>& body) {
  try {
    body();
    std::fprintf(stderr, "no error\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::exit(0);
}

TEST(ScratchFile, SaysSoWhereTheDiskFillsMeanwhile) {
  const test::TemporaryFolder folder;
  EXPECT_EXIT(print_error_of([&] {
                test::forbid(SYS_fallocate, ENOSPC);
                ScratchFile(folder.path(), block);
              }),
              testing::ExitedWithCode(0), "4096 bytes are needed in .* are free: No space left on device");
}

TEST(ScratchFile, SaysWhatLimitsItsSize) {
  const test::TemporaryFolder folder;
  EXPECT_EXIT(print_error_of([&] {
                signal(SIGXFSZ, SIG_IGN);
                const rlimit limit{block, block};
                setrlimit(RLIMIT_FSIZE, &limit);
                ScratchFile(folder.path(), 2 * block);
              }),
              testing::ExitedWithCode(0), "cannot reserve 8192 bytes in .*: File too large; .*ulimit -f");
}

TEST(ScratchFile, IsBufferedWhereTheFilesystemHasNothingElseAndSaysSoOnce) {
  const test::TemporaryFolder folder;
  EXPECT_EXIT(print_error_of([&] {
                test::forbid(SYS_fcntl, EINVAL, F_SETFL, false);
                log::set_sink([](log::Level, std::string_view line) {
                  std::fprintf(stderr, "[%.*s]", static_cast<int>(line.size()), line.data());
                });
                for (int i = 0; i < 2; ++i) {
                  const ScratchFile file(folder.path(), block);
                  std::fprintf(stderr, "%d", file.access() == ScratchFile::Access::buffered ? 1 : 0);
                }
              }),
              testing::ExitedWithCode(0),
              "^\\[files in .* through the page cache, .*O_DIRECT.*\\]11no error");
}

}  // namespace
}  // namespace weft::detail
