#include "core/files/input_file.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
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
    EXPECT_EQ(read_input(path, path, {.most = bytes}), content);
    if (bytes > 0) {
      expect_error(ErrorKind::usage, {text("a table: it has more than ", bytes - 1, " bytes")},
                   [&] { read_input(path, "a table", {.most = bytes - 1}); });
    }
  }
}

constexpr detail::InputLimits or_pipe{.source = detail::Source::file_or_pipe};

TEST(InputFile, MayBeAPipeWhereThatIsSaid) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << std::string(70'000, 'x'); });
  EXPECT_EQ(read_input(path, path, or_pipe), std::string(70'000, 'x'));
  writer.join();
  expect_error(ErrorKind::usage, {"pipe: cannot read it: it is a pipe"}, [&] { read_input(path, path); });
}

TEST(InputFile, APipeThatNobodyWritesToIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_error(ErrorKind::usage, {"pipe: no process writes to this pipe"},
               [&] { read_input(path, path, or_pipe); });
  // A writer that has nothing to say is one.
  std::thread writer([&] { const std::ofstream nothing(path); });
  EXPECT_EQ(read_input(path, path, or_pipe), "");
  writer.join();
}

TEST(InputFile, SignalsInterruptNoRead) {
  struct sigaction before {
  }, counting{};
  counting.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR2, &counting, &before), 0);
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const pthread_t reader = pthread_self();
  std::thread writer([&] {
    std::ofstream pipe(path);
    for (int i = 0; i < 200; ++i) {
      for (int k = 0; k < 10; ++k) pthread_kill(reader, SIGUSR2);
      pipe << 'x' << std::flush;
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(read_input(path, path, or_pipe), std::string(200, 'x'));
  writer.join();
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(InputFile, SaysWhyItCannotBeRead) {
  expect_error(ErrorKind::usage, {"--compare /nowhere: cannot read it: No such file"},
               [] { read_input("/nowhere", "--compare /nowhere"); });
  expect_error(ErrorKind::usage, {"/: cannot read it: Is a directory"}, [] { read_input("/", "/"); });
}

TEST(InputFile, IsNoDeviceAndNoSocket) {
  const test::TemporaryFolder folder;
  for (const auto& limits : {detail::InputLimits{}, or_pipe}) {
    for (const char* device : {"/dev/zero", "/dev/ptmx"})
      expect_error(ErrorKind::usage, {"a table: cannot read it: it is a device"},
                   [&] { read_input(device, "a table", limits); });
    const std::string path = folder.path() + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const detail::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    expect_error(ErrorKind::usage, {"cannot read it: it is a socket"},
                 [&] { read_input(path, path, limits); });
    unlink(path.c_str());
  }
  EXPECT_EQ(read_input("/dev/null", "nothing", or_pipe), "");
}

TEST(InputFile, TooLongAFileIsRefusedBeforeItIsRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/sparse";
  std::ofstream(path) << "";
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);
  expect_error(ErrorKind::usage, {"sparse: it has more than 67108864 bytes"},
               [&] { read_input(path, path); });
  constexpr std::size_t tebibytes = std::size_t{4} << 40;
  expect_error(ErrorKind::system, {"sparse", "1099511627776 bytes"},
               [&] { read_input(path, path, {.most = tebibytes}); });
}

}  // namespace
}  // namespace weft
