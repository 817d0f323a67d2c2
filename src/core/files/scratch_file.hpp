#pragma once
// A file without a name, whose space is reserved when it is made: the kernel frees it when the process ends,
// however that happens, and no write finds the disk full.

#include <cstddef>
#include <string>

namespace weft::detail {

class ScratchFile {
 public:
  enum class Access {
    direct,    ///< past the page cache; buffered, and logged once, where the filesystem cannot do that
    buffered,  ///< through the page cache
  };
  /// Offsets, lengths and addresses of direct access are multiples of this.
  static constexpr std::size_t block = 4096;

  /// A file of zeros. @param bytes whole blocks
  /// @throws Error (system) when no file can be made, or the disk has too little space, with what is free
  ScratchFile(const std::string& directory, std::size_t bytes, Access access = Access::direct);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  int descriptor() const { return descriptor_; }
  std::size_t bytes() const { return bytes_; }
  Access access() const { return access_; }
  /// Its folder and a name that nothing has; for messages.
  const std::string& path() const { return path_; }

 private:
  void reserve(const std::string& directory);

  std::string path_;
  std::size_t bytes_;
  Access access_;
  int descriptor_ = -1;
};

}  // namespace weft::detail
