#include "core/base/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "weft/core/error.hpp"

namespace weft::detail {

std::string read_input(const std::string& path, const std::string& called, std::size_t most) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string content;
  if (file) {
    std::size_t end = 0;
    do {
      if (end > most) throw Error(ErrorKind::usage, text(called, ": it has more than ", most, " bytes"));
      content.resize(std::min(most + 1, std::max<std::size_t>(2 * end, 4096)));
      end += std::fread(content.data() + end, 1, content.size() - end, file.get());
    } while (end == content.size());
    content.resize(end);
    if (std::ferror(file.get()) == 0) return content;
  }
  throw Error(ErrorKind::usage, text(called, ": cannot read it: ", std::strerror(errno)));
}

}  // namespace weft::detail
