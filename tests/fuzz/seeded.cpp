// Where there is no libFuzzer: runs the corpus, and so many inputs that are made from it by a seed.
//
//   fuzz_NAME FOLDER COUNT [SEED]

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/expect_refused.hpp"
#include "support/draw.hpp"

namespace {

using weft::test::Draw;

std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

/// Some bytes of the input, which is not empty.
std::pair<std::size_t, std::size_t> some(Draw& draw, const std::string& input) {
  const auto begin = static_cast<std::size_t>(draw.below(static_cast<int>(input.size())));
  const auto most = std::min<std::size_t>(input.size() - begin, 1U << draw.below(6));
  return {begin, 1 + static_cast<std::size_t>(draw.below(static_cast<int>(most)))};
}

void change(Draw& draw, std::string& input, const std::vector<std::string>& corpus) {
  const std::string& other = corpus[static_cast<std::size_t>(draw.below(static_cast<int>(corpus.size())))];
  if (input.empty()) {
    input = other;
    return;
  }
  const auto [begin, count] = some(draw, input);
  switch (draw.below(6)) {
    case 0:
      input[begin] = static_cast<char>(draw.below(256));
      return;
    case 1:
      input.erase(begin, count);
      return;
    case 2:
      input.insert(begin, input.substr(begin, count));
      return;
    case 3: {
      if (other.empty()) return;
      const auto [from, length] = some(draw, other);
      input.insert(begin, other.substr(from, length));
      return;
    }
    case 4:
      input.replace(begin, count,
                    draw.one_of<std::string>({"-1", "0", "99999999999999999999", "1e999", "nan", "\n", "\"",
                                              "]", "{", ",", std::string(1, '\0')}));
      return;
    default:
      input.resize(begin);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " FOLDER COUNT [SEED]\n";
    return 42;
  }
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::cerr << argv[1] << " holds no input\n";
    return 42;
  }
  const auto run = [](const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  for (const std::string& input : corpus) run(input);
  Draw draw(argc > 3 ? std::stoull(argv[3]) : 1);
  const int count = std::stoi(argv[2]);
  for (int i = 0; i < count; ++i) {
    std::string input = corpus[static_cast<std::size_t>(draw.below(static_cast<int>(corpus.size())))];
    for (int changes = 1 + draw.below(4); changes > 0; --changes) change(draw, input, corpus);
    run(input);
  }
  std::cout << corpus.size() << " inputs and " << count << " made from them\n";
  return 0;
}
