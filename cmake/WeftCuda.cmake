# CUDA is compiled wherever nvcc is, with or without a GPU, so that it cannot rot unseen.
#
# nvcc is called directly instead of through CMake's CUDA language: CMake 3.25 does not know nvcc 13's C++20 (it drops
# CUDA_STANDARD 20 without a word and fails on cxx_std_20), and it would link every program with nvcc.

# WEFT_CUDA_EMULATION=ON: for tests, kernels are compiled for the host, where tests/emulation runs them.

option(WEFT_CUDA_EMULATION "Kernels run on the host, for tests alone: neither CUDA nor a GPU is needed" OFF)
set(WEFT_CUDA_FOUND FALSE)
set(WEFT_CUDA_MEANING "CUDA kernels")
if(WEFT_CUDA_EMULATION)
  set(WEFT_CUDA_FOUND TRUE)
  set(WEFT_CUDA_MEANING "CUDA kernels, EMULATED on the host")
else()
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_NVCC_EXECUTABLE)
    set(WEFT_CUDA_FOUND TRUE)
  endif()
endif()
set(architectures 80 90)
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND architectures 100)
endif()
set(WEFT_CUDA_ARCHITECTURES ${architectures} CACHE STRING "Compute capabilities to compile for; the last one also as PTX")

# weft_emulated_sources(sources...): .cu files as C++, whose warnings are nvcc's to give. Without a sanitizer, accesses to memory are
# recorded (tests/emulation/records.hpp).
function(weft_emulated_sources)
  set(options -x c++ -O1 -ffp-contract=off -w)
  if(NOT WEFT_SANITIZE)
    list(APPEND options -fsanitize=thread --param=tsan-distinguish-volatile=1)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options}" INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/src)
endfunction()

# weft_cuda_sources(floor sources...): compiles .cu files into the floor's library. ccache knows nvcc.
function(weft_cuda_sources floor)
  if(WEFT_CUDA_EMULATION)
    weft_emulated_sources(${ARGN})
    target_sources(${floor} PRIVATE ${ARGN})
    target_link_libraries(${floor} PUBLIC $<BUILD_INTERFACE:weft_cuda_emulation>)
    return()
  endif()
  set(flags -std=c++20 -O3 --extended-lambda --expt-relaxed-constexpr -Xcompiler -fPIC,-Wall,-Wextra)
  if(WEFT_WARNINGS_AS_ERRORS)
    list(APPEND flags -Werror all-warnings -Xcompiler -Werror)
  endif()
  foreach(architecture ${WEFT_CUDA_ARCHITECTURES})
    list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET WEFT_CUDA_ARCHITECTURES -1 newest)
  list(APPEND flags -gencode arch=compute_${newest},code=compute_${newest})
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE} ${flags} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
              "-I$<JOIN:$<TARGET_PROPERTY:${floor},INCLUDE_DIRECTORIES>,;-I>"
              -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      MAIN_DEPENDENCY ${source} DEPFILE ${object}.d COMMENT "Compiling CUDA ${source}" VERBATIM COMMAND_EXPAND_LISTS)
    target_sources(${floor} PRIVATE ${object})
  endforeach()
  target_link_libraries(${floor} PRIVATE CUDA::cudart_static)
endfunction()
