"""How does a CUDA kernel run without a GPU? Compiled for the CPU, each thread a fiber, checked and counted.

    shim/      what CUDA C++ is for a CPU's compiler, in front of the kernel      include/   CUDA's header names
    runtime/   the program around the kernel: reads a call, runs block by block, watches the threads, writes back
    errors  <-  source  <-  symbols, arguments  <-  compiler  <-  program  <-  findings  <-  trace
"""
