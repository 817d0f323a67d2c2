# Finds a LibTorch for weft::torch: where weft is built, and where find_package(weft COMPONENTS torch) is called.
#   a wheel of pip      -DCMAKE_PREFIX_PATH=$(python -c 'import torch; print(torch.utils.cmake_prefix_path)')
#   Debian's            libtorch-dev; nothing else to say
#   libtorch-*.zip      -DCMAKE_PREFIX_PATH=/path/to/libtorch
# find_package(Torch) is not called: that of a CUDA wheel demands the CUDA toolkit, which host memory does not need, and sets
# variables of the whole project. weft_find_libtorch() reads TorchConfig.cmake.

# weft_torch_abi(text result): what this TorchConfig.cmake says of the ABI of std::string: 0, 1, or nothing
function(weft_torch_abi text result)
  set(${result} "" PARENT_SCOPE)
  if(text MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# weft_find_libtorch(): sets WEFT_LIBTORCH_PROBLEM, empty where torch can be used, WEFT_LIBTORCH_VERSION, WEFT_LIBTORCH_INCLUDES and
# WEFT_LIBTORCH_LIBRARIES.
function(weft_find_libtorch)
  set(WEFT_LIBTORCH_PROBLEM "" PARENT_SCOPE)
  find_path(WEFT_LIBTORCH_CONFIG TorchConfig.cmake PATH_SUFFIXES Torch cmake/Torch share/cmake/Torch lib/cmake/Torch
            lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch)
  if(NOT WEFT_LIBTORCH_CONFIG)
    set(WEFT_LIBTORCH_PROBLEM "no TorchConfig.cmake below CMAKE_PREFIX_PATH or the system's folders (libtorch-dev, or pip's torch with \
CMAKE_PREFIX_PATH=$(python -c 'import torch; print(torch.utils.cmake_prefix_path)'))" PARENT_SCOPE)
    return()
  endif()
  file(READ ${WEFT_LIBTORCH_CONFIG}/TorchConfig.cmake config)
  weft_torch_abi("${config}" abi)
  if(abi STREQUAL "0")
    set(WEFT_LIBTORCH_PROBLEM "a torch built with _GLIBCXX_USE_CXX11_ABI=1; that in ${WEFT_LIBTORCH_CONFIG} has the old ABI of std::string, 0, \
and passes strings that weft cannot read. Wheels of torch 2.7 and newer, Debian's libtorch-dev and the cxx11-abi archives of libtorch have the new one"
        PARENT_SCOPE)
    return()
  endif()
  get_filename_component(prefix ${WEFT_LIBTORCH_CONFIG}/../../.. ABSOLUTE)  # of share/cmake/Torch, or Debian's lib/ARCHITECTURE/cmake/Torch
  find_path(WEFT_LIBTORCH_INCLUDE torch/csrc/autograd/engine.h HINTS ${prefix}/include ${prefix}/../include NO_DEFAULT_PATH)
  if(NOT WEFT_LIBTORCH_INCLUDE)
    find_path(WEFT_LIBTORCH_INCLUDE torch/csrc/autograd/engine.h)
  endif()
  set(libraries "")
  foreach(name torch torch_cpu c10)
    find_library(WEFT_LIBTORCH_${name} ${name} HINTS ${prefix}/lib ${prefix}/${CMAKE_LIBRARY_ARCHITECTURE} ${prefix})
    if(NOT WEFT_LIBTORCH_${name})
      set(WEFT_LIBTORCH_PROBLEM "lib${name} of the torch in ${WEFT_LIBTORCH_CONFIG}" PARENT_SCOPE)
      return()
    endif()
    list(APPEND libraries ${WEFT_LIBTORCH_${name}})
  endforeach()
  if(NOT WEFT_LIBTORCH_INCLUDE)
    set(WEFT_LIBTORCH_PROBLEM "the headers of the torch in ${WEFT_LIBTORCH_CONFIG}" PARENT_SCOPE)
    return()
  endif()
  file(GLOB versions ${WEFT_LIBTORCH_INCLUDE}/torch/headeronly/version.h ${WEFT_LIBTORCH_INCLUDE}/torch/csrc/api/include/torch/version.h)
  set(numbers "")
  foreach(version ${versions})
    file(STRINGS ${version} lines REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    foreach(line ${lines})
      string(REGEX REPLACE "^.* " "" number ${line})
      list(APPEND numbers ${number})
    endforeach()
    list(LENGTH numbers count)
    if(count EQUAL 3)
      break()
    endif()
  endforeach()
  list(JOIN numbers "." version)
  set(WEFT_LIBTORCH_VERSION "${version}" PARENT_SCOPE)
  set(WEFT_LIBTORCH_INCLUDES ${WEFT_LIBTORCH_INCLUDE} ${WEFT_LIBTORCH_INCLUDE}/torch/csrc/api/include PARENT_SCOPE)
  set(WEFT_LIBTORCH_LIBRARIES "${libraries}" PARENT_SCOPE)
endfunction()
