// Simulated devices: CUDASIM_DEVICES="cc=9.0,sms=132,name=H200|cc=8.0,sms=16,memory=4g,shared=101376,l2=4m"
#include "state.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace sim;

namespace sim
{
namespace
{
// The limits of each architecture, from the programming guide's table.
struct Limits {
    int major, minor;            // minor -1: any
    int shared_block, shared_sm; // KiB
    int threads_sm, blocks_sm;
};
const Limits limits[] = {
    {7, 5, 64, 64, 1024, 16},    {7, -1, 96, 96, 2048, 32},    {8, 0, 163, 164, 2048, 32},
    {8, 7, 163, 164, 1536, 16},  {8, 9, 99, 100, 1536, 24},    {8, -1, 99, 100, 1536, 16},
    {9, -1, 227, 228, 2048, 32}, {10, -1, 227, 228, 2048, 32}, {11, -1, 227, 228, 1536, 24},
    {12, -1, 99, 100, 1536, 24}, {-1, -1, 227, 228, 2048, 32},
};
unsigned long long number(const char *text)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 0);
    switch (*end | 32) {
    case 'k':
        return v << 10;
    case 'm':
        return v << 20;
    case 'g':
        return v << 30;
    }
    return v;
}
void set(Device &d, const std::string &key, const std::string &value)
{
    if (key == "cc")
        sscanf(value.c_str(), "%d.%d", &d.major, &d.minor);
    else if (key == "sms")
        d.sms = (int)number(value.c_str());
    else if (key == "shared")
        d.shared_block = (int)number(value.c_str());
    else if (key == "memory")
        d.memory = number(value.c_str());
    else if (key == "l2")
        d.l2 = (int)number(value.c_str());
    else if (key == "name")
        d.name = value;
    else
        say("CUDASIM_DEVICES: unknown key '" + key + "': cc, sms, memory, shared, l2 or name");
}
void complete(Device &d)
{
    const Limits *l = limits;
    while (l->major >= 0 && (l->major != d.major || (l->minor >= 0 && l->minor != d.minor)))
        l++;
    d.shared_sm = l->shared_sm << 10;
    if (!d.shared_block)
        d.shared_block = l->shared_block << 10;
    d.threads_sm = l->threads_sm;
    d.blocks_sm = l->blocks_sm;
    if (d.name.empty())
        d.name = "Simulated sm_" + std::to_string(d.major * 10 + d.minor);
}
std::vector<std::string> split(const std::string &s, char at)
{
    std::vector<std::string> parts{""};
    for (char c : s) {
        if (c == at)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}
} // namespace

void devices_read(const char *spec, std::vector<Device> &devices)
{
    devices.clear();
    if (!*spec)
        return;
    for (const std::string &one : split(spec, '|')) {
        Device d;
        for (const std::string &pair : split(one, ','))
            if (!pair.empty())
                set(d, pair.substr(0, pair.find('=')),
                    pair.substr(std::min(pair.size(), pair.find('=') + 1)));
        complete(d);
        devices.push_back(d);
    }
}

static CUresult device_of(CUdevice i, const Device **d)
{
    REQUIRE(i >= 0 && i < (int)driver().devices.size(), CUDA_ERROR_INVALID_DEVICE);
    *d = &driver().devices[(size_t)i];
    return CUDA_SUCCESS;
}
static int attribute(const Device &d, CUdevice_attribute a)
{
    switch (a) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return d.major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return d.minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return d.sms;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return d.shared_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return d.shared_sm;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return d.major >= 8 ? 1024 : 0;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return d.threads_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return d.blocks_sm;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return d.l2;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 1000000; // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 512;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        return d.major >= 9;
    default:
        return 0;
    }
}
} // namespace sim

extern "C" {
CUresult cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount, NEEDS_INIT);
    *count = (int)driver().devices.size();
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(cuDeviceGet, NEEDS_INIT);
    const Device *d;
    RETURN_IF(device_of(ordinal, &d));
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER(cuDeviceGetName, NEEDS_INIT);
    const Device *d;
    RETURN_IF(device_of(device, &d));
    snprintf(name, (size_t)size, "%s", d->name.c_str());
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(cuDeviceGetUuid, NEEDS_INIT);
    const Device *d;
    RETURN_IF(device_of(device, &d));
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "cudasim", 7);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    ENTER(cuDeviceTotalMem, NEEDS_INIT);
    const Device *d;
    RETURN_IF(device_of(device, &d));
    *bytes = d->memory;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice device)
{
    ENTER(cuDeviceGetAttribute, NEEDS_INIT);
    const Device *d;
    RETURN_IF(device_of(device, &d));
    *value = attribute(*d, a);
    return CUDA_SUCCESS;
}
}
