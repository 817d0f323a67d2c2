# Which torch the backend is built against: that of WEFT_TORCH_PYTHON. Makes weft_torch_python, which links to it. Torch's own CMake package is not used: with a torch for CUDA it demands the CUDA toolkit.
set(WEFT_TORCH_PYTHON "" CACHE FILEPATH "The Python that has the torch to build against; else Python_EXECUTABLE, or python3")

if(WEFT_TORCH_PYTHON)
  set(Python3_EXECUTABLE ${WEFT_TORCH_PYTHON})
elseif(Python_EXECUTABLE)  # of scikit-build-core
  set(Python3_EXECUTABLE ${Python_EXECUTABLE})
endif()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/torch_facts.py OUTPUT_VARIABLE facts ERROR_VARIABLE why RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "WEFT_TORCH=ON needs a torch of 2.7 or newer in ${Python3_EXECUTABLE} (WEFT_TORCH_PYTHON names another Python):\n${why}")
endif()
list(POP_FRONT facts WEFT_TORCH_VERSION folder WEFT_TORCH_SOABI)

add_library(weft_torch_python INTERFACE)
target_include_directories(weft_torch_python SYSTEM INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include ${Python3_INCLUDE_DIRS})
target_compile_definitions(weft_torch_python INTERFACE WEFT_TORCH_VERSION="${WEFT_TORCH_VERSION}" TORCH_API_INCLUDE_EXTENSION_H TORCH_EXTENSION_NAME=_C ${facts})
foreach(library c10 torch_cpu torch torch_python)
  target_link_libraries(weft_torch_python INTERFACE ${folder}/lib/lib${library}.so)
endforeach()
# Torch's CUDA: the library that has its streams. Their headers ask for CUDA's own, those of the toolkit.
set(torch_cuda_found FALSE)
if(WEFT_CUDA_EMULATION)
  set(torch_cuda_found TRUE)
elseif(WEFT_CUDA_ON AND EXISTS ${folder}/lib/libc10_cuda.so)
  set(torch_cuda_found TRUE)
  add_library(weft_torch_cuda INTERFACE)
  target_include_directories(weft_torch_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(weft_torch_cuda INTERFACE ${folder}/lib/libc10_cuda.so)
endif()
weft_option(WEFT_TORCH_CUDA "tensors of CUDA devices in torch.distributed, over NCCL" "${torch_cuda_found}"
            "WEFT_CUDA and a torch that is built for CUDA")
weft_row(WEFT_TORCH "on " "torch.distributed's backend for torch ${WEFT_TORCH_VERSION}, ${folder}")
