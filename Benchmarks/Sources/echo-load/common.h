#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>

static const uint64_t second = 1000000000;

/// Nanoseconds on the clock that is never set.
uint64_t now(void);

/// Prints a message and exits with status 1.
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
