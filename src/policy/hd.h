#pragma once

// Functions that compile for the host and, under nvcc, for the device.
#if defined(__CUDACC__)
#define FOVEA_HD __host__ __device__
#else
#define FOVEA_HD
#endif
