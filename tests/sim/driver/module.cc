// Modules and functions: a kernel of an image and the host-compiled kernel of the same name.
#include "state.h"
#include <dlfcn.h>

using namespace sim;

namespace sim
{
// The host-compiled kernels: shared libraries listed in CUDASIM_KERNELS, with colons between. They are read
// again when the variable has changed.
static const simt_entry *find_entry(const std::string &name)
{
    static std::string loaded;
    static std::vector<void *> libraries;
    std::string list = env_text("CUDASIM_KERNELS");
    if (list != loaded) {
        libraries.clear();
        loaded = list;
        for (std::string rest = list + ":"; !rest.empty();) {
            std::string file = rest.substr(0, rest.find(':'));
            rest.erase(0, file.size() + 1);
            if (file.empty())
                continue;
            if (void *l = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
                libraries.push_back(l);
            else
                say(dlerror());
        }
    }
    for (void *l : libraries)
        if (void *entry = dlsym(l, ("simt_entry_" + name).c_str()))
            return (const simt_entry *)entry;
    return nullptr;
}
static bool same_parameters(const Kernel &k, const simt_entry *entry)
{
    if (k.param_sizes.size() != entry->param_count)
        return false;
    for (unsigned i = 0; i < entry->param_count; i++)
        if (k.param_sizes[i] != entry->param_sizes[i])
            return false;
    return true;
}
static CUresult load(Module *m, const void *bytes)
{
    Image image;
    RETURN_IF(image_read(bytes, driver().devices[(size_t)current->device], image));
    for (const Kernel &k : image.kernels) {
        const simt_entry *entry = find_entry(k.name);
        if (entry && !same_parameters(k, entry)) { // the same source must have gone to both compilers
            say(k.name + ": the image's parameters differ from the host-compiled kernel's");
            return CUDA_ERROR_INVALID_IMAGE;
        }
        m->functions.emplace_back(new Function{k, m, entry, image.arch, image.target});
    }
    return CUDA_SUCCESS;
}
} // namespace sim

extern "C" {
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER(cuModuleLoadData, NEEDS_CONTEXT);
    RETURN_IF(refuse_in_capture());
    std::unique_ptr<Module> m(new Module{current, {}, std::make_shared<bool>(true)});
    RETURN_IF(load(m.get(), image));
    enlist(m.get());
    for (auto &f : m->functions)
        enlist(f.get());
    *module = (CUmodule)m.release();
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **)
{
    return cuModuleLoadData(module, image);
}
CUresult cuModuleUnload(CUmodule module)
{
    ENTER(cuModuleUnload, NEEDS_CONTEXT);
    RETURN_IF(refuse_in_capture());
    Module *m = live<Module>(module);
    REQUIRE(m && m->context == current, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = drain_all(m->context);
    *m->loaded = false;
    for (auto &f : m->functions)
        driver().handles.erase(f.get());
    driver().handles.erase(m);
    delete m;
    return result;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(cuModuleGetFunction, NEEDS_CONTEXT);
    Module *m = live<Module>(module);
    REQUIRE(m && m->context == current, CUDA_ERROR_INVALID_HANDLE);
    for (auto &f : m->functions)
        if (f->kernel.name == name) {
            *function = (CUfunction)f.get();
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction function)
{
    ENTER(cuFuncGetAttribute, NEEDS_CONTEXT);
    const Function *f = live<Function>(function);
    REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
    switch (a) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = f->kernel.registers;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = f->kernel.local;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = f->kernel.shared;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = f->kernel.max_threads;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->shared_max;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        *value = (int)f->kernel.cluster[0];
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = f->arch;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute a, int value)
{
    ENTER(cuFuncSetAttribute, NEEDS_CONTEXT);
    Function *f = live<Function>(function);
    REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
    if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        REQUIRE(value >= 0 && value <= driver().devices[(size_t)current->device].shared_block,
                CUDA_ERROR_INVALID_VALUE);
        f->shared_max = value;
    } else if (a == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        f->nonportable = value;
    }
    return CUDA_SUCCESS;
}
}
