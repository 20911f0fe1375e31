#ifndef RATES_H
#define RATES_H

#include <stdint.h>
#include <uv.h>

extern uv_loop_t *loop;
extern uint64_t total;  // How many timers, jobs, hops or connections.

/// Ends the program with a line on standard error.
_Noreturn void fail(const char *what, const char *why);

static inline int check(const char *what, int status) {
  if (status < 0) fail(what, uv_strerror(status));
  return status;
}

static inline void expect(const char *what, uint64_t value, uint64_t expected) {
  if (value != expected) fail(what, "the wrong result");
}

static inline double secondsSince(uint64_t start) { return (double)(uv_hrtime() - start) / 1e9; }

// Each does the work of a mode, checks it, and returns how long it took. No handle is left open.
double measureTimers(void);
double measureCancelledTimers(void);
double measureExecute(void);
double measureExecuteFrom4(void);
double measureHops(void);
double measureChurn(void);

#endif
