// Streams, events, capture and graphs.
#include "clock.h"
#include "state.h"
#include <algorithm>

using namespace sim;

namespace sim
{
CUresult stream_of(CUstream handle, Stream **stream)
{
    if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        *stream = &current->null_stream;
        return CUDA_SUCCESS;
    }
    *stream = live<Stream>(handle);
    REQUIRE(*stream && (*stream)->context == current, CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}
static CUresult step(Stream *s)
{
    Work work = std::move(s->waiting.front());
    s->waiting.pop_front();
    ClockScope outside(nullptr); // also where work of a graph waits for another stream's
    if (!work.kernel || s->waiting.empty() || !s->waiting.front().begin)
        return work();
    s->waiting.front().begin(true);
    CUresult result = work();
    if (result)
        s->waiting.front().begin(false);
    return result;
}
CUresult drain(Stream *s)
{
    while (!s->waiting.empty())
        RETURN_IF(step(s));
    return s->context->sticky;
}
CUresult drain_all(Context *c)
{
    for (Stream *s : c->streams)
        RETURN_IF(drain(s));
    return c->sticky;
}
// What must be done before the null stream's next work, and before any work that comes after that.
static CUresult drain_others(Stream *s)
{
    if (s != &s->context->null_stream)
        return s->blocking ? drain(&s->context->null_stream) : CUDA_SUCCESS;
    for (Stream *other : s->context->streams)
        if (other != s && other->blocking)
            RETURN_IF(drain(other));
    return CUDA_SUCCESS;
}
CUresult submit(Stream *s, Work work)
{
    enum { MOST = 4096 }; // so that a long run without a synchronisation does not grow for ever
    if (s->capture) {
        REQUIRE(!s->capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        s->capture->work.push_back(std::move(work));
        return CUDA_SUCCESS;
    }
    if (s == &s->context->null_stream)
        RETURN_IF(refuse_legacy_in_capture(s->context));
    RETURN_IF(drain_others(s));
    s->waiting.push_back(std::move(work));
    if (!driver().lazy)
        return drain(s);
    return s->waiting.size() > MOST ? step(s) : CUDA_SUCCESS;
}

CUresult refuse_in_capture()
{
    bool refused = false;
    for (Context *c : driver().contexts)
        for (Stream *s : c->streams) {
            if (!s->capture || s->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
                continue;
            bool mine = s->capture->thread == std::this_thread::get_id();
            if (s->capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !mine)
                continue;
            s->capture->broken = true;
            refused = true;
        }
    return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}
CUresult refuse_legacy_in_capture(Context *c)
{
    for (Stream *s : c->streams)
        if (s->capture && s->blocking) {
            s->capture->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return CUDA_SUCCESS;
}
static CUresult until(Stream *s, const std::shared_ptr<Mark> &mark)
{
    while (!mark->done && !s->waiting.empty())
        RETURN_IF(step(s));
    return s->context->sticky;
}
} // namespace sim

extern "C" {
CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(cuStreamCreate, NEEDS_CONTEXT);
    Stream *s = new Stream{current, !(flags & CU_STREAM_NON_BLOCKING), {}, nullptr};
    current->streams.push_back(s);
    enlist(s);
    *stream = (CUstream)s;
    return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int)
{
    return cuStreamCreate(stream, flags);
}
CUresult cuStreamDestroy(CUstream stream)
{
    ENTER(cuStreamDestroy, NEEDS_CONTEXT);
    Stream *s = live<Stream>(stream);
    REQUIRE(s && s->context == current, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = drain(s);
    auto &all = s->context->streams;
    all.erase(std::find(all.begin(), all.end(), s));
    driver().handles.erase(s);
    delete s;
    return result;
}
CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(cuStreamSynchronize, NEEDS_CONTEXT);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    if (s->capture) {
        s->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (s == &current->null_stream)
        RETURN_IF(refuse_legacy_in_capture(current));
    RETURN_IF(drain_others(s));
    return drain(s);
}
CUresult cuStreamQuery(CUstream stream)
{
    ENTER(cuStreamQuery, NEEDS_CONTEXT);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    if (s->waiting.empty())
        return CUDA_SUCCESS;
    RETURN_IF(step(s)); // so that a loop of queries ends
    return CUDA_ERROR_NOT_READY;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    ENTER(cuStreamGetCtx, NEEDS_CONTEXT);
    Stream *s = live<Stream>(stream);
    *context = (CUcontext)(s ? s->context : current);
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER(cuStreamIsCapturing, NEEDS_CONTEXT);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    if (s == &current->null_stream) // an error, but the capture goes on
        for (Stream *other : current->streams)
            REQUIRE(!(other->capture && other->blocking), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *status = !s->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER(cuStreamBeginCapture, NEEDS_CONTEXT);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    REQUIRE(s != &current->null_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REQUIRE(!s->capture, CUDA_ERROR_ILLEGAL_STATE);
    s->capture = std::make_shared<Capture>(Capture{{}, mode, std::this_thread::get_id()});
    return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER(cuStreamEndCapture, NEEDS_CONTEXT);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    REQUIRE(s->capture, CUDA_ERROR_ILLEGAL_STATE);
    std::shared_ptr<Capture> capture = s->capture;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        REQUIRE(capture->thread == std::this_thread::get_id(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    for (Stream *joined : current->streams)
        if (joined->capture == capture)
            joined->capture = nullptr;
    *graph = nullptr;
    REQUIRE(!capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    Graph *g = new Graph{std::move(capture->work)};
    enlist(g);
    *graph = (CUgraph)g;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long)
{
    ENTER(cuGraphInstantiate, NEEDS_CONTEXT);
    Graph *g = live<Graph>(graph);
    REQUIRE(g, CUDA_ERROR_INVALID_VALUE);
    Graph *copy = new Graph(*g);
    enlist(copy);
    *exec = (CUgraphExec)copy;
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER(cuGraphLaunch, NEEDS_CONTEXT);
    Graph *g = live<Graph>(exec);
    REQUIRE(g, CUDA_ERROR_INVALID_VALUE);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    auto seen = std::make_shared<Seen>();
    for (const Work &work : g->work) {
        Work wrapped = work;
        wrapped.run = [work, seen] {
            ClockScope inside(seen.get());
            return work();
        };
        RETURN_IF(submit(s, std::move(wrapped)));
    }
    return CUDA_SUCCESS;
}
static CUresult graph_destroy(void *handle)
{
    Graph *g = live<Graph>(handle);
    REQUIRE(g, CUDA_ERROR_INVALID_VALUE);
    driver().handles.erase(g);
    delete g;
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER(cuGraphExecDestroy, NEEDS_INIT);
    return graph_destroy(exec);
}
CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(cuGraphDestroy, NEEDS_INIT);
    return graph_destroy(graph);
}

CUresult cuEventCreate(CUevent *event, unsigned)
{
    ENTER(cuEventCreate, NEEDS_CONTEXT);
    Event *e = new Event{current, nullptr};
    enlist(e);
    *event = (CUevent)e;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event)
{
    ENTER(cuEventDestroy, NEEDS_INIT);
    Event *e = live<Event>(event);
    REQUIRE(e, CUDA_ERROR_INVALID_HANDLE);
    driver().handles.erase(e);
    delete e;
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(cuEventRecord, NEEDS_CONTEXT);
    Event *e = live<Event>(event);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    REQUIRE(e && e->context == s->context, CUDA_ERROR_INVALID_HANDLE);
    auto mark = std::make_shared<Mark>();
    e->mark = mark;
    e->stream = s;
    e->captured = s->capture != nullptr;
    return submit(s, [mark] {
        *mark = {true, driver().clock};
        return CUDA_SUCCESS;
    });
}
static CUresult not_captured(const Event *e)
{
    if (!e->captured || !live<Stream>(e->stream) || !e->stream->capture)
        return CUDA_SUCCESS;
    e->stream->capture->broken = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}
CUresult cuEventSynchronize(CUevent event)
{
    ENTER(cuEventSynchronize, NEEDS_CONTEXT);
    Event *e = live<Event>(event);
    REQUIRE(e, CUDA_ERROR_INVALID_HANDLE);
    RETURN_IF(not_captured(e));
    bool waits = e->mark && (e->stream == &e->context->null_stream || live<Stream>(e->stream));
    return waits ? until(e->stream, e->mark) : e->context->sticky;
}
CUresult cuEventQuery(CUevent event)
{
    ENTER(cuEventQuery, NEEDS_CONTEXT);
    Event *e = live<Event>(event);
    REQUIRE(e, CUDA_ERROR_INVALID_HANDLE);
    RETURN_IF(not_captured(e));
    if (!e->mark || e->mark->done)
        return CUDA_SUCCESS;
    if (!e->stream->waiting.empty())
        RETURN_IF(step(e->stream));
    return CUDA_ERROR_NOT_READY;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned)
{
    ENTER(cuStreamWaitEvent, NEEDS_CONTEXT);
    Event *e = live<Event>(event);
    Stream *s;
    RETURN_IF(stream_of(stream, &s));
    REQUIRE(e, CUDA_ERROR_INVALID_HANDLE);
    if (!e->mark)
        return CUDA_SUCCESS;
    if (e->captured) { // the waiting stream joins the capture
        if (!s->capture)
            s->capture = e->stream->capture;
        return CUDA_SUCCESS;
    }
    Stream *from = e->stream;
    auto mark = e->mark;
    return submit(s, [from, mark] { return mark->done ? CUDA_SUCCESS : until(from, mark); });
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    ENTER(cuEventElapsedTime, NEEDS_CONTEXT);
    Event *a = live<Event>(start), *b = live<Event>(end);
    REQUIRE(a && b && a->mark && b->mark, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(a->mark->done && b->mark->done, CUDA_ERROR_NOT_READY);
    *milliseconds = clock_elapsed((float)((b->mark->time - a->mark->time) * 1e-3));
    return CUDA_SUCCESS;
}
}
