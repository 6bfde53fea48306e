/* What tests may ask of the simulator beyond the driver API; found by dlsym. That the library has
 * cudasim_seed also tells a simulator from a driver. All may be called from any thread at any time. */
#ifndef CUDASIM_H
#define CUDASIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* The schedule of later launches and what the simulated clock draws, instead of CUDASIM_SEED. 0 runs blocks,
 * warps and lanes in order. */
void cudasim_seed(unsigned long long seed);
/* Replaces what CUDASIM_FAIL injects and sets all counts of calls to 0. "" injects nothing.
 * "cuMemAlloc:3=2,cuLaunchKernelEx:1=700*,kernel:2=719*": the third cuMemAlloc returns 2; * after the result
 * breaks the context for good (with 719 where the function is one of cuBLASLt, whose results are others);
 * `kernel` counts kernels and cuBLASLt's products as they run, so its failure shows at a synchronisation; NTH
 * * is every call. */
void cudasim_fail(const char *spec);
/* Calls of a driver function since the start or cudasim_fail; names without version suffix ("cuMemAlloc"). */
long cudasim_calls(const char *function);
/* Streams, events, graphs, modules, functions, device allocations, cuBLASLt's handles and descriptors that
 * are alive. */
long cudasim_live(void);
/* References to primary contexts. */
long cudasim_retained(void);

#ifdef __cplusplus
}
#endif
#endif
