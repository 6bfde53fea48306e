// Faults: what a kernel did wrong, in words. The process lives on: a signal only notes what happened and
// switches to the worker's own stack; the fibers of the unit are abandoned.
#include "unit.h"
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace sim;

namespace sim
{
enum { STOP_SIGNAL = SIGUSR2 }; // the watchdog's, to a worker
static struct sigaction before[NSIG];

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : nullptr;
    return slash ? slash + 1 : path;
}
static void place_words(const Thread *t, char *text, size_t size)
{
    const uint3 &b = t->home->bid;
    snprintf(text, size, "block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t->tid.x, t->tid.y, t->tid.z);
}
std::string place(const Thread *t)
{
    char text[128];
    place_words(t, text, sizeof text);
    return text;
}
std::string words(const Where &w)
{
    std::string s = w.what;
    if (w.file)
        s += std::string(" at ") + base_name(w.file) + ":" + std::to_string(w.line);
    return s;
}

// The message is written into the unit, as this may run on a fiber.
static void fail_v(Unit &u, int result, const Where *at, const Thread *t, const char *format, va_list list)
{
    if (u.failed)
        return;
    u.failed = true;
    u.result = result;
    char *p = u.message, *end = p + sizeof u.message;
    p += vsnprintf(p, (size_t)(end - p), format, list);
    if (t && p < end) {
        char who[128];
        place_words(t, who, sizeof who);
        p += snprintf(p, (size_t)(end - p), " (%s", who);
        if (at && at->file && p < end)
            p += snprintf(p, (size_t)(end - p), ", %s at %s:%d", at->what, base_name(at->file), at->line);
        if (p < end)
            snprintf(p, (size_t)(end - p), ")");
    }
    tsan_release(&u.live);
}
void fail(Unit &u, int result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail_v(u, result, nullptr, nullptr, format, list);
    va_end(list);
}
void fail_here(int result, Where at, const char *format, ...)
{
    Thread *t = me->current;
    va_list list;
    va_start(list, format);
    fail_v(me->unit, result, &at, t, format, list);
    va_end(list);
    fiber_switch(t->fiber, me->main);
    __builtin_trap();
}

static std::string waits_for(const Thread &t)
{
    char note[120] = "";
    if (t.state == State::Exited)
        return "have exited";
    if (t.mbar)
        mbar_words(t, note, sizeof note);
    else if (t.note)
        snprintf(note, sizeof note, t.note, t.note1, t.note2);
    return (t.state == State::Polling ? "poll " : "wait in ") + words(t.at) + note;
}
static bool same_wait(const Thread &a, const Thread &b)
{
    if (a.state != b.state || a.state == State::Exited)
        return a.state == b.state;
    return a.at.what == b.at.what && a.at.line == b.at.line && a.note == b.note && a.note1 == b.note1 &&
           a.mbar == b.mbar;
}
std::string deadlock_words(const Unit &u)
{
    enum { MOST = 8 };
    std::string s = "deadlock:";
    int lines = 0;
    for (const Block &b : u.blocks) {
        if (!b.live)
            continue;
        for (unsigned i = 0, j; i < b.nthreads; i = j) {
            for (j = i + 1; j < b.nthreads && same_wait(b.threads[i], b.threads[j]); j++)
                ;
            if (++lines > MOST)
                continue;
            char head[100];
            snprintf(head, sizeof head, "\n  block (%u,%u,%u) threads %u-%u: ", b.bid.x, b.bid.y, b.bid.z, i,
                     j - 1);
            s += head + waits_for(b.threads[i]);
        }
    }
    if (lines > MOST)
        s += "\n  and " + std::to_string(lines - MOST) + " more groups";
    if (!u.pollers.empty() && !u.launch->cooperative)
        s += "\n  (not a cooperative launch: a block may not wait for another through global memory)";
    return s;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    if (me && me->busy && me->current) {
        me->trap = {number, number == SIGSEGV && !info->si_addr && info->si_code == SI_KERNEL,
                    (const char *)info->si_addr};
        fiber_switch(me->current->fiber, me->main);
        return;
    }
    if (number == STOP_SIGNAL)
        return;
    // the host program's own fault: let whoever was there before us have it
    const struct sigaction &was = before[number];
    if (was.sa_flags & SA_SIGINFO)
        was.sa_sigaction(number, info, context);
    else if (was.sa_handler != SIG_DFL && was.sa_handler != SIG_IGN)
        was.sa_handler(number);
    else
        signal(number, SIG_DFL); // the instruction runs again and ends the process
}
// Called by ASan when halt_on_error=0; it has printed its report.
static void on_asan_report(const char *text)
{
    if (!me || !me->busy || !me->current)
        return;
    const char *error = strstr(text, "ERROR: ");
    error = error ? error : text;
    fail(me->unit, 700, "%.*s", (int)strcspn(error, "\n"), error);
}
void trap_install()
{
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, (int)STOP_SIGNAL})
        sigaction(number, &action, &before[number]);
    if (__asan_set_error_report_callback)
        __asan_set_error_report_callback(on_asan_report);
}
void trap_on_this_thread(Worker &w)
{
    stack_t stack = {};
    w.signal_stack.resize(128 << 10);
    stack.ss_size = w.signal_stack.size();
    stack.ss_sp = w.signal_stack.data();
    sigaltstack(&stack, nullptr);
}
void trap_interrupt(const Worker &w)
{
    pthread_kill(w.id, STOP_SIGNAL);
}

void trap_explain(Unit &u, Thread *t)
{
    Trap trap = me->trap;
    me->trap.signal = 0;
    std::string who = place(t);
    const char *a = trap.address;
    if (trap.signal == STOP_SIGNAL)
        return fail(u, 702,
                    "ran past CUDASIM_TIMEOUT without reaching a barrier, a shuffle or a wait: a bare spin "
                    "loop? (%s)",
                    who.c_str());
    if (trap.signal == SIGFPE)
        return fail(u, 719, "whole-number division by zero (%s)", who.c_str());
    if (trap.signal == SIGILL || trap.general_protection)
        return fail(u, 716, "misaligned access (%s)", who.c_str());
    for (const Block &b : u.blocks)
        if (a >= b.arena_map && a < b.arena_map + b.arena_size)
            return fail(u, 700,
                        "illegal address, shared memory of block (%u,%u,%u) at offset %td of %u%s (%s)",
                        b.bid.x, b.bid.y, b.bid.z, a - (char *)b.shared, b.shared_bytes,
                        b.live ? "" : " (the block has exited)", who.c_str());
    if (a >= t->fiber.stack - PAGE && a < t->fiber.stack + PAGE)
        return fail(u, 700, "stack overflow (%s; CUDASIM_STACK is KiB a thread)", who.c_str());
    fail(u, 700, "illegal address, %s (%s)", memory_describe(a).c_str(), who.c_str());
}
} // namespace sim

extern "C" void simt_fault(int result, const char *message, int line, const char *file)
{
    fail_here(result, {"check", file, line}, "%s", message);
}
