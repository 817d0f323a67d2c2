#pragma once
// The text that both programs learn: the licences of /usr/share/common-licenses, which every Debian has.

#include <torch/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

/// The bytes of every regular file, in the order of their names.
inline std::vector<at::Tensor> licences(const std::filesystem::path& folder = "/usr/share/common-licenses") {
  std::set<std::filesystem::path> files;
  std::error_code failed;  // what cannot be read is left out
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.is_regular_file(failed) && !entry.is_symlink(failed)) files.insert(entry.path());
  std::vector<at::Tensor> texts;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    texts.push_back(torch::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())},
                                     torch::kByte)
                        .to(torch::kLong));
  }
  if (texts.empty()) {
    std::cerr << "no text in " << folder.string() << '\n';
    std::exit(42);  // wrong input: weft-launch does not start it again
  }
  return texts;
}
