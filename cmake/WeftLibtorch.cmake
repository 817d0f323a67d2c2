# The torch that weft::torch is built with (src/torch/libtorch), where WEFT_TORCH=ON asks for it, as a target: weft_libtorch.
include(${CMAKE_CURRENT_LIST_DIR}/install/weftLibtorch.cmake)

weft_find_libtorch()
if(WEFT_LIBTORCH_PROBLEM)
  message(FATAL_ERROR "WEFT_TORCH=ON needs ${WEFT_LIBTORCH_PROBLEM}")
endif()
weft_row(WEFT_LIBTORCH "on " "weft::torch for LibTorch ${WEFT_LIBTORCH_VERSION}, ${WEFT_LIBTORCH_CONFIG}")
add_library(weft_libtorch INTERFACE)
target_include_directories(weft_libtorch SYSTEM INTERFACE ${WEFT_LIBTORCH_INCLUDES})
target_link_libraries(weft_libtorch INTERFACE ${WEFT_LIBTORCH_LIBRARIES} Threads::Threads)
