// Timers, a batch in each turn of the loop: so the clock that delays are counted from is never old, and what has fired or was
// stopped makes room for what comes.

#include <stdlib.h>

#include "rates.h"

enum { batch = 1000, longestDelay = 10, hour = 3600 * 1000 };

static uv_timer_t *spare;  // Closed timers, each with the next one as its data.
static uint64_t begun, fired, closed;

static uv_timer_t *takeTimer(void) {
  uv_timer_t *timer = spare;
  if (timer != NULL) {
    spare = timer->data;
  } else if ((timer = malloc(sizeof *timer)) == NULL) {
    fail("malloc", uv_strerror(UV_ENOMEM));
  }
  check("timer", uv_timer_init(loop, timer));
  return timer;
}

static void didClose(uv_handle_t *handle) {
  handle->data = spare;
  spare = (uv_timer_t *)handle;
  closed++;
}

static void didFire(uv_timer_t *timer) {
  fired++;
  uv_close((uv_handle_t *)timer, didClose);
}

// SplitMix64, as the other program has it.
static uint64_t nextDelay(void) {
  static uint64_t state;
  uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return 1 + (z ^ (z >> 31)) % longestDelay;
}

static void scheduleOne(void) {
  check("start", uv_timer_start(takeTimer(), didFire, nextDelay(), 0));
}

static void cancelOne(void) {
  uv_timer_t *timer = takeTimer();
  check("start", uv_timer_start(timer, didFire, hour, 0));
  check("stop", uv_timer_stop(timer));
  uv_close((uv_handle_t *)timer, didClose);
}

// An active idle handle has its turn, and keeps the loop from waiting, until the last timer has begun.
static void beginBatch(uv_idle_t *idle) {
  void (*beginOne)(void) = idle->data;
  for (int i = 0; i < batch && begun < total; i++, begun++) beginOne();
  if (begun == total) uv_close((uv_handle_t *)idle, NULL);
}

// The loop ends when no timer is left, so the time includes the wait for the last.
static double run(void (*beginOne)(void)) {
  uv_idle_t idle;
  idle.data = beginOne;
  uint64_t start = uv_hrtime();
  check("idle", uv_idle_init(loop, &idle));
  check("idle", uv_idle_start(&idle, beginBatch));
  uv_run(loop, UV_RUN_DEFAULT);
  double seconds = secondsSince(start);
  expect("timers closed", closed, total);
  return seconds;
}

double measureTimers(void) {
  double seconds = run(scheduleOne);
  expect("timers fired", fired, total);
  return seconds;
}

double measureCancelledTimers(void) {
  double seconds = run(cancelOne);
  expect("timers fired", fired, 0);
  return seconds;
}
