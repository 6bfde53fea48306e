#include "fiber.h"

#if defined(__x86_64__)
// The end is not `ret`: its target is never the one predicted, and that costs twice the whole switch.
__asm__(R"(
    .text
    .p2align 4
    .hidden simt_switch_stack
    .globl simt_switch_stack
    .type simt_switch_stack,@function
simt_switch_stack:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    pop %rcx
    jmp *%rcx
    .size simt_switch_stack,.-simt_switch_stack
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .p2align 4
    .hidden simt_switch_stack
    .globl simt_switch_stack
    .type simt_switch_stack,@function
simt_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size simt_switch_stack,.-simt_switch_stack
)");
#else
#error "the simulator switches stacks on x86-64 and aarch64 only"
#endif

namespace sim
{
void fiber_make(Fiber &fiber, void (*entry)())
{
    uintptr_t top = (uintptr_t)(fiber.stack + fiber.stack_size) & ~(uintptr_t)15;
#if defined(__x86_64__)
    void **sp = (void **)(top - 16);
    *sp = (void *)entry; // popped last: the stack is then 8 mod 16, as after a call
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
#else
    void **sp = (void **)(top - 160);
    for (int i = 0; i < 20; i++)
        sp[i] = nullptr;
    sp[11] = (void *)entry; // x30
#endif
    fiber.sp = sp;
}
} // namespace sim
