// One thread asks the loop's, and waits for the answer before it asks again.

#include "rates.h"

static uv_async_t wake;
static uv_mutex_t mutex;
static uv_cond_t didChange;
static enum { quiet, asked, answered, over } state;  // Guarded by the mutex, as is the answer.
static uint64_t answer;

static void change(int next) {
  uv_mutex_lock(&mutex);
  state = next;
  uv_mutex_unlock(&mutex);
  // Not under the mutex, for which the loop's thread would have to wait.
  check("wake", uv_async_send(&wake));
}

static uint64_t hop(void) {
  change(asked);
  uv_mutex_lock(&mutex);
  while (state != answered) uv_cond_wait(&didChange, &mutex);
  uint64_t result = answer;
  uv_mutex_unlock(&mutex);
  return result;
}

static void hopAll(void *unused) {
  (void)unused;
  for (uint64_t number = 1; number <= total; number++) expect("answer", hop(), number);
  change(over);
}

static void wakeDidArrive(uv_async_t *handle) {
  uv_mutex_lock(&mutex);
  int isAsked = state == asked, isOver = state == over;
  if (isAsked) {
    answer++;
    state = answered;
  }
  uv_mutex_unlock(&mutex);
  if (isAsked) uv_cond_signal(&didChange);
  if (isOver) uv_close((uv_handle_t *)handle, NULL);
}

double measureHops(void) {
  uv_thread_t thread;
  check("mutex", uv_mutex_init(&mutex));
  check("condition", uv_cond_init(&didChange));
  check("async", uv_async_init(loop, &wake, wakeDidArrive));
  uint64_t start = uv_hrtime();
  check("thread", uv_thread_create(&thread, hopAll, NULL));
  uv_run(loop, UV_RUN_DEFAULT);
  double seconds = secondsSince(start);
  check("join", uv_thread_join(&thread));
  uv_cond_destroy(&didChange);
  uv_mutex_destroy(&mutex);
  expect("hops", answer, total);
  return seconds;
}
