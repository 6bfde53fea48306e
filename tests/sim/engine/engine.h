// Between the driver API, device memory and the execution engine.
#pragma once
#include "../simt_abi.h"
#include <cstddef>
#include <memory>
#include <string>

namespace sim
{
struct Launch {
    std::string name;
    const simt_entry *entry;
    void **params;
    dim3 grid, block, cluster;
    unsigned shared; // bytes
    bool cooperative, programmatic;
};
// `result` is a CUresult (0 for success); `message` is for people.
struct Outcome {
    int result = 0;
    std::string message;
};
// Blocks of a programmatic launch that have come to their wait for the kernel before and stay there. To
// destroy it without a launch is to forget them.
struct Early;
// Begins the first block, the last and one in between, for the caller to run the kernel before then. The
// parameters must stay where they are. Null: none was begun.
std::shared_ptr<Early> engine_begin(const Launch &launch);
// Runs a launch to its end; launches of several callers follow one another. `early`: what was begun of it, or
// null.
Outcome engine_launch(const Launch &launch, const std::shared_ptr<Early> &early);
// The schedule of later launches; 0 is linear order. Begins as CUDASIM_SEED, else random.
void engine_seed(uint64_t seed);

// Device memory. Each allocation ends at a guard page; thread-safe. `owner` groups allocations.
void *memory_alloc(size_t bytes, const void *owner);
bool memory_free(void *p, std::string *complaint); // false: not the start of a live allocation
void memory_free_all(const void *owner);
bool memory_contains(const void *p, size_t bytes); // wholly inside one live allocation
std::string memory_describe(const void *p);        // words for an address that faulted
std::string memory_check_slack();                  // empty, or which allocation was written past its end
size_t memory_used(const void *owner);             // bytes
size_t memory_count();                             // live allocations

long env_number(const char *name, long otherwise);
const char *env_text(const char *name); // "" where it is not set
void say(const std::string &message);   // one line on standard error
} // namespace sim
