/* A host program whose own names are those that a careless library would have. H26, H27.
 * host [PROBLEM]: prints the library's version and what creating a context says; with a problem, plans it
 * too. */
#include <gnfuse/gnfuse.h>
#include <stdio.h>

static int called;

/* Each counts its calls; the library may neither call one nor take its place. */
#define MINE(name)                                                                                           \
    int name(void);                                                                                          \
    int name(void)                                                                                           \
    {                                                                                                        \
        return ++called;                                                                                     \
    }
MINE(cuInit)
MINE(cuDriverGetVersion)
MINE(cuGetProcAddress_v2)
MINE(cuMemAlloc_v2)
MINE(cuLaunchKernelEx)
MINE(nvrtcVersion)
MINE(nvrtcCompileProgram)
MINE(cublasLtCreate)
MINE(cublasLtMatmul)
MINE(hash)
MINE(cache_get)
MINE(log_error)
MINE(log_line)
MINE(fail)
MINE(parse)
MINE(problem_parse)
MINE(pack_read)
MINE(plan_create)
MINE(driver_open)
MINE(context_create)
MINE(compile)

int main(int argc, char **argv)
{
    gnf_context *context = NULL;
    gnf_plan *plan = NULL;
    gnf_status status = gnf_context_create(&context, NULL);
    printf("version %d\n", gnf_version());
    printf("context %s\n", status == GNF_OK ? "GNF_OK" : gnf_status_name(status));
    if (status != GNF_OK)
        fprintf(stderr, "%s\n", gnf_error_message());
    if (status == GNF_OK && argc > 1) {
        status = gnf_plan_create(&plan, context, argv[1], NULL);
        printf("plan %s\n", gnf_status_name(status));
        if (status != GNF_OK)
            fprintf(stderr, "%s\n", gnf_error_message());
    }
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    printf("called %d\n", called);
    return hash() != 1;
}
