// Device memory through the driver API.
#include "state.h"
#include <cstdlib>
#include <cstring>

using namespace sim;

static CUresult in_range(const char *function, CUdeviceptr p, size_t n)
{
    if (n == 0 || memory_contains((void *)p, n))
        return CUDA_SUCCESS;
    say(std::string(function) + ": " + memory_describe((char *)p + n - 1));
    return CUDA_ERROR_INVALID_VALUE;
}
// What a copy that waits needs: no capture, and all earlier work of the null stream and of those that wait
// for it.
static CUresult settle()
{
    RETURN_IF(refuse_legacy_in_capture(current));
    RETURN_IF(refuse_in_capture());
    for (Stream *s : current->streams)
        if (s->blocking)
            RETURN_IF(drain(s));
    return current->sticky;
}
static CUresult later(CUstream stream, std::function<void()> work)
{
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    return submit(s, [work] {
        driver().clock += 1;
        work();
        return CUDA_SUCCESS;
    });
}
static void fill(void *p, unsigned v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned *)p)[i] = v;
}

extern "C" {
CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    ENTER(cuMemAlloc, NEEDS_CONTEXT);
    REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    RETURN_IF(refuse_in_capture());
    size_t used = 0;
    for (Context *c : driver().contexts)
        used += c->device == current->device ? memory_used(c) : 0;
    size_t most = driver().devices[(size_t)current->device].memory;
    REQUIRE(used <= most && bytes <= most - used, CUDA_ERROR_OUT_OF_MEMORY);
    void *m = memory_alloc(bytes, current);
    REQUIRE(m, CUDA_ERROR_OUT_OF_MEMORY);
    *p = (CUdeviceptr)m;
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p)
{
    ENTER(cuMemFree, NEEDS_CONTEXT);
    if (!p)
        return CUDA_SUCCESS;
    RETURN_IF(refuse_in_capture());
    RETURN_IF(drain_all(current));
    std::string complaint;
    REQUIRE(memory_free((void *)p, &complaint), CUDA_ERROR_INVALID_VALUE);
    if (complaint.empty())
        return CUDA_SUCCESS;
    say("cuMemFree: " + complaint);
    return current->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}
CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    ENTER(cuMemGetInfo, NEEDS_CONTEXT);
    *total = driver().devices[(size_t)current->device].memory;
    *available = *total - std::min(*total, memory_used(current));
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
    ENTER(cuMemHostAlloc, NEEDS_CONTEXT);
    RETURN_IF(refuse_in_capture());
    *p = malloc(bytes);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *p)
{
    ENTER(cuMemFreeHost, NEEDS_CONTEXT);
    free(p);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n)
{
    ENTER(cuMemcpyHtoD, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyHtoD", to, n));
    RETURN_IF(settle());
    memcpy((void *)to, from, n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n)
{
    ENTER(cuMemcpyDtoH, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyDtoH", from, n));
    RETURN_IF(settle());
    memcpy(to, (void *)from, n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    ENTER(cuMemcpyDtoD, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyDtoD", from, n));
    RETURN_IF(in_range("cuMemcpyDtoD", to, n));
    RETURN_IF(settle());
    memmove((void *)to, (void *)from, n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
    ENTER(cuMemcpyHtoDAsync, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyHtoDAsync", to, n));
    return later(stream, [=] { memcpy((void *)to, from, n); });
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream stream)
{
    ENTER(cuMemcpyDtoHAsync, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyDtoHAsync", from, n));
    return later(stream, [=] { memcpy(to, (void *)from, n); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream)
{
    ENTER(cuMemcpyDtoDAsync, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemcpyDtoDAsync", from, n));
    RETURN_IF(in_range("cuMemcpyDtoDAsync", to, n));
    return later(stream, [=] { memmove((void *)to, (void *)from, n); });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream stream)
{
    ENTER(cuMemsetD8Async, NEEDS_CONTEXT);
    RETURN_IF(in_range("cuMemsetD8Async", to, n));
    return later(stream, [=] { memset((void *)to, v, n); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream stream)
{
    ENTER(cuMemsetD32Async, NEEDS_CONTEXT);
    REQUIRE(to % 4 == 0, CUDA_ERROR_INVALID_VALUE);
    RETURN_IF(in_range("cuMemsetD32Async", to, n * 4));
    return later(stream, [=] { fill((void *)to, v, n); });
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n)
{
    return cuMemsetD8Async(to, v, n, nullptr);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned v, size_t n)
{
    return cuMemsetD32Async(to, v, n, nullptr);
}
}
