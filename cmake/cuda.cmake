# The CUDA compiler: that of CUDACXX or the machine, else the one `scripts/bootstrap cuda` puts into build/cuda-toolkit.
set(FOVEA_CUDA_ARCHS "90a" CACHE STRING "compute capabilities to build for: 80, 89, 90a, 100; separated by semicolons")
set(CMAKE_CUDA_ARCHITECTURES ${FOVEA_CUDA_ARCHS})
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/build/cuda-toolkit/bin
               NO_SYSTEM_ENVIRONMENT_PATH)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 REQUIRED)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

list(JOIN FOVEA_CUDA_ARCHS ", " arch_names)
target_compile_definitions(fovea_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:FOVEA_CUDA_ARCHS=\"${arch_names}\">")
# Policies are constexpr or FOVEA_HD; what they take of the standard library (bit_cast, numeric_limits) is constexpr.
target_compile_options(
  fovea_flags
  INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;--diag-suppress=445;-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-fno-math-errno>")
if("90a" IN_LIST FOVEA_CUDA_ARCHS)
  target_compile_definitions(fovea_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FOVEA_CUDA_HOPPER>)
endif()
# Matrix products. Of the toolkit, else of the packages.
set(packages ${PROJECT_SOURCE_DIR}/build/cuda-packages/nvidia/cu13)
find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${packages}/include REQUIRED)
find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 HINTS ${CUDAToolkit_LIBRARY_DIR} ${packages}/lib REQUIRED)
add_library(fovea_cublaslt SHARED IMPORTED)
set_target_properties(fovea_cublaslt PROPERTIES IMPORTED_LOCATION ${CUBLASLT_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES ${CUBLASLT_INCLUDE})
set(FOVEA_CARD_LIBRARIES CUDA::cudart_static fovea_cublaslt)

# Links a program for machines with a card with the objects of folders; what it does not use does not travel.
function(fovea_link_card_folders program)
  target_link_options(${program} PRIVATE LINKER:--as-needed)
  if(FOVEA_CUDA)
    fovea_link_folders(${program} ${ARGN})
    return()
  endif()
  fovea_link_checked_folders(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE ${FOVEA_CARD_LIBRARIES})
endfunction()
