// The simulated clock that CUDASIM_CLOCK sets: how long kernels take, and which of them come to grief.
// Guarded by the driver's lock.
#pragma once
#include <cstdint>
#include <set>
#include <string>

namespace sim
{
// What the clock has a launch do.
struct Fate {
    bool skipped = false; // only its time passes
    int result = 0;       // a CUresult that breaks the context
};
typedef std::set<std::string> Seen; // entry and grid of the kernels that ran within one launch of a graph

// Reads the file's rules. False: one of them is wrong, and a line on standard error says which.
bool clock_read(const char *file);
bool clock_set();
void clock_seed(uint64_t seed);
// Lets a launch's time pass, in microseconds on `now`. Does not return from a launch that hangs or crashes.
Fate clock_launch(const std::string &name, const std::string &grid, double *now);
// What an event's time in milliseconds is reported as.
float clock_elapsed(float milliseconds);

// Work run while one lives belongs to that launch of a graph; with null to none.
class ClockScope
{
  public:
    explicit ClockScope(Seen *seen);
    ~ClockScope();
    ClockScope(const ClockScope &) = delete;
    ClockScope &operator=(const ClockScope &) = delete;

  private:
    Seen *before_;
};
} // namespace sim
