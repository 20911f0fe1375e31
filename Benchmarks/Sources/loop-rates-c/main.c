// The baseline for loops: timers, hand-over between threads and short connections on raw libuv, written for speed.
//
// Benchmarks/README.md says what the modes are.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rates.h"

uv_loop_t *loop;
uint64_t total;

_Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "loop-rates-c: %s: %s\n", what, why);
  exit(1);
}

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: loop-rates-c timers|timers-cancel|execute|execute-4|hop|churn [--count N]\n");
  exit(64);
}

static uint64_t parseCount(const char *text) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != 0 || value <= 0) usage();
  return (uint64_t)value;
}

int main(int count, char **arguments) {
  static const struct {
    const char *name, *unit;
    uint64_t total;
    double (*measure)(void);
  } modes[] = {{"timers", "timers/s", 1000000, measureTimers},
               {"timers-cancel", "timers/s", 1000000, measureCancelledTimers},
               {"execute", "jobs/s", 1000000, measureExecute},
               {"execute-4", "jobs/s", 1000000, measureExecuteFrom4},
               {"hop", "hops/s", 200000, measureHops},
               {"churn", "connections/s", 20000, measureChurn}};

  if (count != 2 && (count != 4 || strcmp(arguments[2], "--count") != 0)) usage();
  loop = uv_default_loop();
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    if (strcmp(arguments[1], modes[i].name) != 0) continue;
    total = count == 4 ? parseCount(arguments[3]) : modes[i].total;
    double seconds = modes[i].measure();
    check("close", uv_loop_close(loop));
    printf("%s %.3f %s\n", modes[i].name, (double)total / seconds, modes[i].unit);
    return 0;
  }
  usage();
}
