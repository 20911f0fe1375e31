#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void usage(const char *problem) {
  fprintf(stderr,
          "echo-load: %s\n"
          "usage: echo-load --port PORT [--host HOST] [--connections N] [--size BYTES]\n"
          "                 [--pipeline N] [--seconds S] [--warmup S] [--json]\n",
          problem);
  exit(64);
}

static double parseNumber(const char *text, double low, double high) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno != 0 || end == text || *end != 0 || !(value >= low && value <= high)) {
    usage("a number is malformed or out of range");
  }
  return value;
}

static unsigned parseCount(const char *text, unsigned high) {
  double value = parseNumber(text, 1, high);
  if (value != (double)(unsigned)value) usage("a count is not a whole number");
  return (unsigned)value;
}

Options parseOptions(int count, char **arguments) {
  Options options = {.host = "127.0.0.1",
                     .connections = 50,
                     .size = 64,
                     .pipeline = 1,
                     .seconds = 3,
                     .warmup = 0.5};
  for (int i = 1; i < count; i++) {
    const char *name = arguments[i];
    if (strcmp(name, "--json") == 0) {
      options.json = true;
      continue;
    }
    if (++i == count) usage("an option is unknown or has no value");
    const char *value = arguments[i];
    if (strcmp(name, "--host") == 0) {
      options.host = value;
    } else if (strcmp(name, "--port") == 0) {
      parseCount(value, 65535);
      options.port = value;
    } else if (strcmp(name, "--connections") == 0) {
      options.connections = parseCount(value, 100000);
    } else if (strcmp(name, "--size") == 0) {
      options.size = parseCount(value, 1 << 30);
    } else if (strcmp(name, "--pipeline") == 0) {
      options.pipeline = parseCount(value, 10000);
    } else if (strcmp(name, "--seconds") == 0) {
      options.seconds = parseNumber(value, 0.01, 86400);
    } else if (strcmp(name, "--warmup") == 0) {
      options.warmup = parseNumber(value, 0, 86400);
    } else {
      usage("an option is unknown or has no value");
    }
  }
  if (options.port == NULL) usage("--port is missing");
  return options;
}
