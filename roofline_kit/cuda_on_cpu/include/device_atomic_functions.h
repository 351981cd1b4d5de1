// CUDA has it under this name; the shim brings it anyway.
#include "../shim/cuda_on_cpu.h"
