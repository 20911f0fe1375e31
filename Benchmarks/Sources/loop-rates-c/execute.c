// Jobs from other threads, in the classical way: a list under a mutex, and a wake-up when it was empty.

#include <stdlib.h>

#include "rates.h"

typedef struct {
  void (*run)(void *);
  void *context;
} Job;

typedef struct {
  Job *jobs;
  size_t count, room;
} JobList;

enum { maxThreads = 4 };

static uv_async_t wake;
static uv_mutex_t mutex;
static JobList waiting;  // Guarded by the mutex.

// Loop thread only.
static JobList running;
static uint64_t jobsRun;
static unsigned threadsLeft;

static void append(JobList *list, Job job) {
  if (list->count == list->room) {
    list->room = list->room == 0 ? 64 : 2 * list->room;
    list->jobs = realloc(list->jobs, list->room * sizeof *list->jobs);
    if (list->jobs == NULL) fail("realloc", uv_strerror(UV_ENOMEM));
  }
  list->jobs[list->count++] = job;
}

static void execute(void (*run)(void *), void *context) {
  uv_mutex_lock(&mutex);
  int mustWake = waiting.count == 0;
  append(&waiting, (Job){run, context});
  uv_mutex_unlock(&mutex);
  if (mustWake) check("wake", uv_async_send(&wake));
}

// Swaps the lists, so that two serve for ever.
static void runWaiting(uv_async_t *handle) {
  (void)handle;
  uv_mutex_lock(&mutex);
  JobList taken = waiting;
  waiting = running;
  uv_mutex_unlock(&mutex);
  for (size_t i = 0; i < taken.count; i++) taken.jobs[i].run(taken.jobs[i].context);
  taken.count = 0;
  running = taken;
}

static void countJob(void *count) { ++*(uint64_t *)count; }

// Each thread's jobs run in order, so all of them have run.
static void threadDidEnd(void *left) {
  if (--*(unsigned *)left == 0) uv_close((uv_handle_t *)&wake, NULL);
}

static void handOver(void *share) {
  for (uint64_t left = *(uint64_t *)share; left > 0; left--) execute(countJob, &jobsRun);
  execute(threadDidEnd, &threadsLeft);
}

static double run(unsigned threadCount) {
  uv_thread_t threads[maxThreads];
  uint64_t shares[maxThreads];
  threadsLeft = threadCount;
  check("mutex", uv_mutex_init(&mutex));
  check("async", uv_async_init(loop, &wake, runWaiting));
  uint64_t start = uv_hrtime();
  for (unsigned i = 0; i < threadCount; i++) {
    shares[i] = (total + i) / threadCount;  // Together they are the total.
    check("thread", uv_thread_create(&threads[i], handOver, &shares[i]));
  }
  uv_run(loop, UV_RUN_DEFAULT);
  double seconds = secondsSince(start);
  for (unsigned i = 0; i < threadCount; i++) check("join", uv_thread_join(&threads[i]));
  uv_mutex_destroy(&mutex);
  expect("jobs run", jobsRun, total);
  return seconds;
}

double measureExecute(void) { return run(1); }

double measureExecuteFrom4(void) { return run(maxThreads); }
