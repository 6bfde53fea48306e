#include <cuda.h>
#include <gnfuse/gnfuse.h>
#include <stdio.h>

int main(void)
{
    enum { SAMPLES = 4, FEATURES = 8192 };
    static float data[SAMPLES * FEATURES];
    CUcontext cuda;
    CUdeviceptr x, y, workspace = 0;
    gnf_context *context = NULL;
    gnf_plan *plan = NULL;
    gnf_plan_options options = {.size = sizeof options, .samples = SAMPLES};

    for (int i = 0; i < SAMPLES * FEATURES; i++)
        data[i] = (float)(i % 8);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&cuda, 0) || cuCtxSetCurrent(cuda) ||
        cuMemAlloc(&x, sizeof data) || cuMemAlloc(&y, sizeof data) || cuMemcpyHtoD(x, data, sizeof data))
        return fprintf(stderr, "no usable CUDA device\n"), 1;

    if (gnf_context_create(&context, NULL) ||
        gnf_plan_create(&plan, context, "f32[*,8192] | groupnorm(16) | hardtanh(-2, 2)", &options))
        return fprintf(stderr, "%s\n", gnf_error_message()), 1;
    size_t size = gnf_plan_workspace_size(plan);
    if (size && cuMemAlloc(&workspace, size))
        return fprintf(stderr, "no device memory\n"), 1;
    gnf_arguments arguments = {
        .size = sizeof arguments, .x = x, .y = y, .workspace = workspace, .workspace_size = size};
    if (gnf_execute(plan, &arguments, NULL) || cuMemcpyDtoH(data, y, sizeof data))
        return fprintf(stderr, "failed: %s\n", gnf_error_message()), 1;

    for (int i = 0; i < 4; i++)
        printf("%f\n", data[i]);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    return puts("ok") < 0;
}
