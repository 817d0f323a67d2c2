#include "core/base/input_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft {
namespace {

using detail::read_input;
using test::expect_error;

TEST(InputFile, IsReadWholeWhateverItsLength) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 8192, 100'000}) {
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; i += 7) content[i] = 'x';
    std::ofstream(path) << content;
    EXPECT_EQ(read_input(path, path), content);
    EXPECT_EQ(read_input(path, path, bytes), content);
    if (bytes > 0) {
      expect_error(ErrorKind::usage, {text("a table: it has more than ", bytes - 1, " bytes")},
                   [&] { read_input(path, "a table", bytes - 1); });
    }
  }
}

TEST(InputFile, MayBeAPipe) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << std::string(70'000, 'x'); });
  EXPECT_EQ(read_input(path, path), std::string(70'000, 'x'));
  writer.join();
}

TEST(InputFile, SaysWhyItCannotBeRead) {
  expect_error(ErrorKind::usage, {"--compare /nowhere: cannot read it: No such file"},
               [] { read_input("/nowhere", "--compare /nowhere"); });
  expect_error(ErrorKind::usage, {"/: cannot read it: Is a directory"}, [] { read_input("/", "/"); });
}

TEST(InputFile, WithoutAnEndIsRefused) {
  expect_error(ErrorKind::usage, {"/dev/zero: it has more than 67108864 bytes"},
               [] { read_input("/dev/zero", "/dev/zero"); });
}

}  // namespace
}  // namespace weft
