// The index of a checkpoint with the checksum that fits it, and a file beside it: what is taken says the same again, and is read or named as
// damaged. Nothing is read outside of the file.

#include "weft/checkpoint/checkpoint.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checksums.hpp"
#include "checkpoint/index.hpp"
#include "fuzz/expect_refused.hpp"
#include "support/temporary_folder.hpp"

namespace {

void write(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const test::TemporaryFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  test::taken_or_refused([&] { (void)detail::parse_index(input, "index"); });

  const std::uint64_t sum = detail::checksum(input);
  const std::string index =
      text(R"({"checksum":")", detail::digits_of(std::span(&sum, 1)), R"(","index":)", input, "}\n");
  test::taken_or_refused([&] {
    const detail::Index taken = detail::parse_index(index, "index");
    test::expect(detail::parse_index(detail::text_of(taken), "again") == taken,
                 "the index says the same again");
    write(folder.path() + "/index.json", index);
    write(folder.path() + "/rank-00000.safetensors", std::string(512, 'x'));
    const checkpoint::Checkpoint checkpoint(folder.path());
    (void)checkpoint.verify();
    for (const auto& [name, tensor] : taken.tensors) {
      const std::int64_t count = tensor.count();  // its pieces lie in files, so that there is memory for it
      test::expect(count == 0 || !taken.files.empty(), "elements are in files");
      if (count > 4096) continue;
      std::vector<std::byte> memory(static_cast<std::size_t>(count) * size_of(tensor.dtype) + 1);
      const checkpoint::Wanted wanted{name, tensor.shape, 0, View(memory.data(), count, tensor.dtype)};
      try {
        checkpoint.read({&wanted, 1});
      } catch (const Error& error) {
        test::expect(error.kind() == ErrorKind::system, "only the file is blamed");
      }
    }
  });
  return 0;
}
