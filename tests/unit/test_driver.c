/* Opening the driver: what is missing, too old or refuses to start, and the small helpers on top. Arguments:
 * paths of the stub driver and of the old stub driver. */
#define _GNU_SOURCE 1
#include "driver.h"
#include "scratch.h"
#include <pthread.h>

static const char *stub, *old_stub;

static int setup(void **state)
{
    (void)state;
    unsetenv("STUB_CUDA");
    return 0;
}

static void assert_refused(const char *path, gnf_status status, const char *part)
{
    struct gnf_driver driver;

    assert_int_equal(gnf_driver_open(&driver, path), status);
    scratch_assert_contains(gnf_error_message(), part);
    assert_null(driver.library);
}

static void test_open(void **state)
{
    struct gnf_driver driver;

    (void)state;
    assert_int_equal(gnf_driver_open(&driver, stub), GNF_OK);
    assert_string_equal(driver.path, stub);
    assert_false(driver.simulated);
#define FILLED(name) assert_true(driver.name != NULL);
    GNF_DRIVER_FUNCTIONS(FILLED)
    gnf_driver_close(&driver);
    gnf_driver_close(&driver);
    assert_null(driver.library);
}

/* Every place that gives out a table gives it out with the plain names. */
static void test_names(void **state)
{
#define NAME(name) #name,
    static const char *const names[] = {GNF_DRIVER_FUNCTIONS(NAME)};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(strstr(names[i], "_v"));
}

static void test_not_there(void **state)
{
    struct gnf_driver driver;

    (void)state;
    assert_refused("/there/is/no/libcuda.so.1", GNF_NO_DRIVER, "/there/is/no/libcuda.so.1");
    if (gnf_driver_open(&driver, NULL) == GNF_OK)
        gnf_driver_close(&driver); /* a machine with a GPU */
    else
        scratch_assert_contains(gnf_error_message(), "libcuda.so.1");
}

static void test_not_a_driver(void **state)
{
    (void)state;
    assert_refused("libm.so.6", GNF_NO_DRIVER, "is not a CUDA driver");
    assert_refused(old_stub, GNF_NO_DRIVER,
                   "is for CUDA 11.8 and has no cuGetProcAddress_v2; needed: CUDA 12.0");
    setenv("STUB_CUDA", "missing=cuLaunchKernelEx", 1);
    assert_refused(stub, GNF_NO_DRIVER, "is for CUDA 12.4 and has no cuLaunchKernelEx");
    setenv("STUB_CUDA", "missing=cuMemAlloc", 1);
    assert_refused(stub, GNF_NO_DRIVER, "has no cuMemAlloc;");
}

static void test_init(void **state)
{
    (void)state;
    setenv("STUB_CUDA", "init=100", 1);
    assert_refused(stub, GNF_NO_DEVICE, "cuInit: CUDA_ERROR_NO_DEVICE (100)");
    setenv("STUB_CUDA", "init=34", 1);
    assert_refused(stub, GNF_NO_DRIVER, "stub");
    setenv("STUB_CUDA", "init=803", 1);
    assert_refused(stub, GNF_DRIVER_ERROR, "cuInit: an error this driver has no name for (803)");
}

static void test_device(void **state)
{
    struct gnf_driver driver;
    struct gnf_device device;

    (void)state;
    assert_int_equal(gnf_driver_open(&driver, stub), GNF_OK);
    assert_int_equal(gnf_device_query(&driver, 1, &device), GNF_OK);
    assert_int_equal(device.ordinal, 1);
    assert_string_equal(device.name, "Stub 1");
    assert_int_equal(device.capability, 121);
    assert_int_equal(device.multiprocessors, 132);
    assert_int_equal(device.shared_block, 232448);
    assert_int_equal(device.l2_bytes, 50 << 20);
    assert_true(device.memory == (size_t)80 << 30);
    assert_int_equal(device.driver_version, 12040);
    assert_int_equal(gnf_device_query(&driver, 2, &device), GNF_NO_DEVICE);
    assert_string_equal(gnf_error_message(), "device is 2; the driver has 2 devices, numbered from 0");
    assert_int_equal(gnf_device_query(&driver, -1, &device), GNF_NO_DEVICE);
    gnf_driver_close(&driver);
}

static void test_check(void **state)
{
    struct gnf_driver driver;

    (void)state;
    assert_int_equal(gnf_driver_open(&driver, stub), GNF_OK);
    assert_int_equal(gnf_driver_check(&driver, CUDA_SUCCESS, "cuMemAlloc"), GNF_OK);
    assert_int_equal(gnf_driver_check(&driver, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"), GNF_OUT_OF_MEMORY);
    assert_string_equal(gnf_error_message(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    assert_int_equal(GNF_CU(&driver, cuMemAlloc, (NULL, 1)), GNF_DRIVER_ERROR);
    scratch_assert_contains(gnf_error_message(), "cuMemAlloc: ");
    gnf_driver_close(&driver);
}

static void *in_new_thread(void *argument)
{
    const struct gnf_driver *driver = argument;
    CUcontext before = (CUcontext)1, now;

    if (gnf_current_enter(driver, (CUcontext)0x10, &before) != GNF_OK || before != NULL)
        return "enter";
    if (driver->cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != (CUcontext)0x10)
        return "not entered";
    gnf_current_leave(driver, before);
    if (driver->cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != NULL)
        return "not restored";
    return NULL;
}

static void test_current(void **state)
{
    struct gnf_driver driver;
    CUcontext before, now;
    pthread_t thread;
    void *wrong;
    int calls;

    (void)state;
    assert_int_equal(gnf_driver_open(&driver, stub), GNF_OK);
    assert_int_equal(driver.cuCtxSetCurrent((CUcontext)0x20), CUDA_SUCCESS);
    assert_int_equal(gnf_current_enter(&driver, (CUcontext)0x10, &before), GNF_OK);
    assert_ptr_equal(before, (CUcontext)0x20);
    gnf_current_leave(&driver, before);
    assert_int_equal(driver.cuCtxGetCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, (CUcontext)0x20);

    /* The right one already: nothing is set. */
    calls = (int)driver.cuCtxSynchronize();
    assert_int_equal(gnf_current_enter(&driver, (CUcontext)0x20, &before), GNF_OK);
    gnf_current_leave(&driver, before);
    assert_int_equal((int)driver.cuCtxSynchronize(), calls);

    assert_int_equal(pthread_create(&thread, NULL, in_new_thread, &driver), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    gnf_driver_close(&driver);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_open), TEST(test_names),  TEST(test_not_there), TEST(test_not_a_driver),
        TEST(test_init), TEST(test_device), TEST(test_check),     TEST(test_current),
    };

    if (argc != 3) {
        fprintf(stderr, "usage: test_driver STUB OLD_STUB\n");
        return 2;
    }
    stub = argv[1];
    old_stub = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
