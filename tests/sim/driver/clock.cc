// The rules of CUDASIM_CLOCK: see README.md.
#include "clock.h"
#include "../engine/engine.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fnmatch.h>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace sim
{
namespace
{
const double DEFAULT_MICROSECONDS = 10;
const double LEAST_FACTOR = 0.01; // no noise or drift makes time stand still or run backwards

struct Matched { // a rule about kernels
    std::string glob;
    double value; // microseconds, or a CUresult
};
struct Elapsed {
    long nth; // 0: every one
    float value;
};
struct Clock {
    bool set = false;
    std::vector<Matched> times, faults, hangs, crashes;
    std::vector<Elapsed> elapsed;
    double noise = 0, drift = 0, busy_probability = 0, busy_factor = 1;
    bool skip = false;
    long elapsed_calls = 0;
    Seen *seen = nullptr; // of the graph's launch that is under way
    std::mt19937_64 random;
};
Clock &state()
{
    static Clock *c = new Clock;
    return *c;
}

// The engine is specified to the bit, the distributions of <random> are not.
double uniform()
{
    return (double)(state().random() >> 11) * 0x1p-53;
}
double gaussian()
{
    double a = 1 - uniform(), b = uniform(); // a is not 0
    return std::sqrt(-2 * std::log(a)) * std::cos(2 * M_PI * b);
}

bool number(const std::string &text, double *v)
{
    const char *end = text.data() + text.size();
    auto r = std::from_chars(text.data(), end, *v);
    return r.ec == std::errc() && r.ptr == end;
}
bool number_between(const std::string &text, double least, double most, double *v)
{
    return number(text, v) && *v >= least && *v <= most; // NaN is not
}
typedef std::vector<std::string> Words;
bool add(std::vector<Matched> &rules, const Words &w, double least, double most)
{
    double v = 0;
    if (w.size() > 2 && !number_between(w[2], least, most, &v))
        return false;
    rules.push_back({w[1], v});
    return true;
}
bool add_elapsed(Clock &c, const Words &w)
{
    double nth = 0, value;
    if (w[1] != "*" && !(number_between(w[1], 1, 1e9, &nth) && nth == std::floor(nth)))
        return false;
    if (!number(w[2], &value))
        return false;
    c.elapsed.push_back({(long)nth, (float)value});
    return true;
}

struct Form {
    const char *name;
    size_t words; // the name among them
    const char *wanted;
    bool (*read)(Clock &c, const Words &w);
};
const Form forms[] = {
    {"time", 3, "GLOB MICROSECONDS, 0 to 1e9",
     [](Clock &c, const Words &w) { return add(c.times, w, 0, 1e9); }},
    {"noise", 2, "FRACTION, 0 to 10",
     [](Clock &c, const Words &w) { return number_between(w[1], 0, 10, &c.noise); }},
    {"drift", 2, "FRACTION a second, -1e6 to 1e6",
     [](Clock &c, const Words &w) { return number_between(w[1], -1e6, 1e6, &c.drift); }},
    {"busy", 3, "PROBABILITY FACTOR, 0 to 1 and 0.01 to 1e6",
     [](Clock &c, const Words &w) {
         return number_between(w[1], 0, 1, &c.busy_probability) &&
                number_between(w[2], LEAST_FACTOR, 1e6, &c.busy_factor);
     }},
    {"elapsed", 3, "N VALUE, N from 1 or *, VALUE in milliseconds, also nan and inf", add_elapsed},
    {"fault", 3, "GLOB RESULT, a CUresult from 1 to 999",
     [](Clock &c, const Words &w) { return add(c.faults, w, 1, 999); }},
    {"hang", 2, "GLOB", [](Clock &c, const Words &w) { return add(c.hangs, w, 0, 0); }},
    {"crash", 2, "GLOB", [](Clock &c, const Words &w) { return add(c.crashes, w, 0, 0); }},
    {"skip", 1, "and nothing more", [](Clock &c, const Words &) { return c.skip = true; }},
};

bool read_rule(Clock &c, const std::string &line, const std::string &place)
{
    Words w;
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string one; words >> one;)
        w.push_back(one);
    if (w.empty())
        return true;
    std::string names;
    for (const Form &f : forms) {
        if (w[0] == f.name) {
            if (w.size() == f.words && f.read(c, w))
                return true;
            say(place + ": '" + line + "': want " + f.name + " " + f.wanted);
            return false;
        }
        names += std::string(names.empty() ? "" : ", ") + f.name;
    }
    say(place + ": '" + w[0] + "' is no rule: one of " + names);
    return false;
}

// "cublasLtMatmul.1" is known by what stands before the dot too.
bool matches(const std::string &glob, const std::string &name)
{
    return !fnmatch(glob.c_str(), name.c_str(), 0) ||
           !fnmatch(glob.c_str(), name.substr(0, name.find('.')).c_str(), 0);
}
// The last rule that matches.
const Matched *find(const std::vector<Matched> &rules, const std::string &name)
{
    for (size_t i = rules.size(); i-- > 0;)
        if (matches(rules[i].glob, name))
            return &rules[i];
    return nullptr;
}
double duration(const std::string &name, double now)
{
    const Clock &c = state();
    const Matched *rule = find(c.times, name);
    // always as many draws, so that a rule more does not change what the others do
    double noise = gaussian(), neighbour = uniform();
    double t = rule ? rule->value : DEFAULT_MICROSECONDS;
    t *= std::max(LEAST_FACTOR, 1 + c.noise * noise);
    t *= std::max(LEAST_FACTOR, 1 + c.drift * now * 1e-6);
    return neighbour < c.busy_probability ? t * c.busy_factor : t;
}
} // namespace

bool clock_read(const char *file)
{
    Clock c;
    std::ifstream in(file);
    std::string line;
    int number = 0;
    if (!in) {
        say(std::string("CUDASIM_CLOCK: cannot read ") + file + ": " + strerror(errno));
        return false;
    }
    while (std::getline(in, line))
        if (!read_rule(c, line, std::string("CUDASIM_CLOCK: ") + file + ":" + std::to_string(++number)))
            return false;
    if (in.bad()) {
        say(std::string("CUDASIM_CLOCK: cannot read ") + file);
        return false;
    }
    const char *seed = env_text("CUDASIM_SEED");
    c.set = true;
    c.random.seed(*seed ? (uint64_t)env_number("CUDASIM_SEED", 0) : std::random_device()());
    state() = c;
    return true;
}
bool clock_set()
{
    return state().set;
}
void clock_seed(uint64_t seed)
{
    state().random.seed(seed);
}

Fate clock_launch(const std::string &name, const std::string &grid, double *now)
{
    Clock &c = state();
    Fate fate;
    if (find(c.crashes, name)) {
        signal(SIGSEGV, SIG_DFL); // not the handler that puts a kernel's faults into words
        raise(SIGSEGV);
    }
    while (find(c.hangs, name))
        pause();
    *now += duration(name, *now);
    if (const Matched *rule = find(c.faults, name))
        fate.result = (int)rule->value;
    else if (c.skip && c.seen)
        fate.skipped = !c.seen->insert(name + " " + grid).second;
    return fate;
}
float clock_elapsed(float milliseconds)
{
    Clock &c = state();
    c.elapsed_calls++;
    for (size_t i = c.elapsed.size(); i-- > 0;)
        if (!c.elapsed[i].nth || c.elapsed[i].nth == c.elapsed_calls)
            return c.elapsed[i].value;
    return milliseconds;
}

ClockScope::ClockScope(Seen *seen) : before_(state().seen)
{
    state().seen = seen;
}
ClockScope::~ClockScope()
{
    state().seen = before_;
}
} // namespace sim
