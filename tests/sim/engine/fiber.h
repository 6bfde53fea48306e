// Fibers: a stack and a saved stack pointer. The switch saves only what the ABI calls callee-saved.
// Sanitizer runtimes are found at load time (weak symbols), so one engine serves plain, ASan and TSan
// kernels.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));
void __tsan_set_fiber_name(void *fiber, const char *name) __attribute__((weak));
void __tsan_acquire(void *addr) __attribute__((weak));
void __tsan_release(void *addr) __attribute__((weak));
void __tsan_read_range(void *addr, unsigned long size) __attribute__((weak));
void __tsan_write_range(void *addr, unsigned long size) __attribute__((weak));
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size) __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size) __attribute__((weak));
void __asan_poison_memory_region(const volatile void *p, size_t n) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *p, size_t n) __attribute__((weak));
void __asan_set_error_report_callback(void (*)(const char *)) __attribute__((weak));
__attribute__((visibility("hidden"))) void simt_switch_stack(void **save_sp, void *load_sp);
}

namespace sim
{
enum { TSAN_NO_SYNC = 1 }; // a switch is not a happens-before edge: only barriers are

struct Fiber {
    void *sp = nullptr;
    char *stack = nullptr;
    size_t stack_size = 0;
    void *tsan = nullptr;
};

// Prepares `fiber` so that the first switch to it calls `entry` on its own stack.
void fiber_make(Fiber &fiber, void (*entry)());

// Called on `from`'s stack; returns when something switches back to `from`.
inline void fiber_switch(Fiber &from, Fiber &to)
{
    void *fake = nullptr;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fake, to.stack, to.stack_size);
    if (to.tsan)
        __tsan_switch_to_fiber(to.tsan, TSAN_NO_SYNC);
    simt_switch_stack(&from.sp, to.sp);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}
// The first thing to do on a fresh fiber.
inline void fiber_entered()
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
}

inline void tsan_acquire(void *p)
{
    if (__tsan_acquire)
        __tsan_acquire(p);
}
inline void tsan_release(void *p)
{
    if (__tsan_release)
        __tsan_release(p);
}
inline void asan_poison(const void *p, size_t n)
{
    if (__asan_poison_memory_region)
        __asan_poison_memory_region(p, n);
}
inline void asan_unpoison(const void *p, size_t n)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(p, n);
}
} // namespace sim
