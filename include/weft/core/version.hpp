#pragma once
// The version of weft: of these headers when a program is compiled, of the library when it runs.
//
//   #if WEFT_VERSION_NUMBER >= 200                // 0.2.0 or newer: major * 10000 + minor * 100 + patch
//   std::cout << weft::library_version();         // of the library that runs: "0.1.0"
//
// While the major version is 0, every minor version may change what programs see: the shared library carries both numbers in its
// name (libweft.so.0.1), so that a program never runs with another one than it was compiled for.
//
// WRONG: comparing WEFT_VERSION as text: "0.10.0" is below "0.9.0" there.

// CMakeLists.txt reads these three, and they stand nowhere else.
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)
#define WEFT_TEXT_OF(number) #number
#define WEFT_VERSION_OF(major, minor, patch) \
  WEFT_TEXT_OF(major) "." WEFT_TEXT_OF(minor) "." WEFT_TEXT_OF(patch)
#define WEFT_VERSION WEFT_VERSION_OF(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)

namespace weft {

/// The version of the library, which is not that of the headers where a program found another library than it was compiled for.
const char* library_version() noexcept;

/// What the library was built with and without, in one line: "with MPI, UCX, TCP, SIMD and without io_uring, CUDA".
const char* built_with() noexcept;

}  // namespace weft
