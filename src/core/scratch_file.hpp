#pragma once
// A file for what does not fit in memory. It has no name and all its space from the start, so that nothing
// stays behind whatever ends the process, and no write finds the disk full.

#include <cstddef>
#include <string>

namespace weft::detail {

class ScratchFile {
 public:
  enum class Access {
    direct,    ///< past the page cache where the filesystem can, else buffered, which is logged once
    buffered,  ///< through it
  };
  /// What positions, lengths and addresses are multiples of.
  static constexpr std::size_t block = 4096;

  /// Of zeros. @param bytes whole blocks
  /// @throws Error (system) where no file can be made or the disk has too little space, saying how much
  ScratchFile(const std::string& directory, std::size_t bytes, Access access = Access::direct);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  int descriptor() const { return descriptor_; }
  std::size_t bytes() const { return bytes_; }
  Access access() const { return access_; }
  /// As it was named for a moment; for messages.
  const std::string& path() const { return path_; }

 private:
  void reserve(const std::string& directory);

  std::string path_;
  std::size_t bytes_;
  Access access_;
  int descriptor_ = -1;
};

}  // namespace weft::detail
