// Finding functions, and the names of results.
#include "../cudasim.h"
#include "clock.h"
#include "state.h"
#include <cstring>
#include <dlfcn.h>

using namespace sim;

namespace
{
struct Name {
    CUresult result;
    const char *name, *words;
};
#define NAME(code, words)                                                                                    \
    {                                                                                                        \
        code, #code, words                                                                                   \
    }
const Name names[] = {
    NAME(CUDA_SUCCESS, "no error"),
    NAME(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    NAME(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    NAME(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    NAME(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    NAME(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    NAME(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    NAME(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    NAME(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    NAME(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    NAME(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    NAME(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
         "system has unsupported display driver / cuda driver combination"),
    NAME(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    NAME(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    NAME(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    NAME(CUDA_ERROR_NOT_READY, "device not ready"),
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    NAME(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    NAME(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    NAME(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    NAME(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
         "operation would make the legacy stream depend on a capturing blocking stream"),
    NAME(CUDA_ERROR_CAPTURED_EVENT,
         "operation not permitted on an event last recorded in a capturing stream"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
         "attempt to terminate a thread-local capture sequence from another thread"),
    NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster misconfiguration"),
    NAME(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef NAME
const Name *name_of(CUresult result)
{
    for (const Name &n : names)
        if (n.result == result)
            return &n;
    return nullptr;
}
bool missing(const char *name)
{ // CUDASIM_MISSING="cuLaunchKernelEx,cuMemFree": an older driver
    std::string list = std::string(",") + env_text("CUDASIM_MISSING") + ",";
    return list.find("," + std::string(name) + ",") != std::string::npos;
}
} // namespace

extern "C" {
CUresult cuGetErrorName(CUresult result, const char **name)
{
    const Name *n = name_of(result);
    *name = n ? n->name : nullptr;
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult result, const char **text)
{
    const Name *n = name_of(result);
    *text = n ? n->words : nullptr;
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *result)
{
    Dl_info self;
    *function = nullptr;
    if (!missing(name) && dladdr((void *)cuGetProcAddress_v2, &self)) {
        void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        for (const char *suffix : {"_v4", "_v3", "_v2", "WithFlags", ""})
            if (!*function)
                *function = dlsym(library, (std::string(name) + suffix).c_str());
        dlclose(library);
    }
    if (result)
        *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

void cudasim_seed(unsigned long long seed)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    engine_seed(seed);
    clock_seed(seed);
}
void cudasim_fail(const char *spec)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    set_injections(spec);
}
long cudasim_calls(const char *function)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    return calls_of(function);
}
long cudasim_live(void)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    return (long)(driver().handles.size() + memory_count());
}
long cudasim_retained(void)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    long n = 0;
    for (Context *c : driver().contexts)
        n += c->alive ? c->retained : 0;
    return n;
}
}
