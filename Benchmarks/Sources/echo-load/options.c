#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { closedPipeline = 1, openPipeline = 1000 };

Options options = {
    .host = "127.0.0.1", .connections = 50, .size = 64, .seconds = 3, .warmup = 0.5};

static const char help[] =
    "usage: echo-load --port PORT [option]...\n"
    "\n"
    "  --host HOST       where the server listens (127.0.0.1)\n"
    "  --connections N   connections (50)\n"
    "  --size BYTES      size of a message (64)\n"
    "  --pipeline N      messages on their way on each connection (1); with --rate at most (1000)\n"
    "  --rate N          an open loop: N messages a second on all connections together, each sent at its\n"
    "                    time whether or not those before it are back, and its latency counted from then\n"
    "  --seconds S       measured time (3)\n"
    "  --warmup S        time before that (0.5)\n"
    "  --spin            never sleep, so that nothing is late by a wake-up; takes a whole core\n"
    "  --json            print one line for other programs\n"
    "  --help            show this\n";

static _Noreturn __attribute__((format(printf, 1, 2))) void usage(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("echo-load: ", stderr);
  vfprintf(stderr, format, values);
  fputs(" (see --help)\n", stderr);
  va_end(values);
  exit(64);
}

static double parseNumber(const char *name, const char *text, double low, double high) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno != 0 || end == text || *end != 0 || !(value >= low && value <= high)) {
    usage("%s takes a number from %.10g to %.10g, not '%s'", name, low, high, text);
  }
  return value;
}

static unsigned parseCount(const char *name, const char *text, unsigned high) {
  double value = parseNumber(name, text, 1, high);
  if (value != (double)(unsigned)value) usage("%s takes a whole number, not '%s'", name, text);
  return (unsigned)value;
}

static void parseOption(const char *name, const char *value) {
  if (strcmp(name, "--host") == 0) {
    options.host = value;
  } else if (strcmp(name, "--port") == 0) {
    parseCount(name, value, 65535);
    options.port = value;
  } else if (strcmp(name, "--connections") == 0) {
    options.connections = parseCount(name, value, 100000);
  } else if (strcmp(name, "--size") == 0) {
    options.size = parseCount(name, value, 1 << 30);
  } else if (strcmp(name, "--pipeline") == 0) {
    options.pipeline = parseCount(name, value, 10000);
  } else if (strcmp(name, "--rate") == 0) {
    options.rate = parseNumber(name, value, 1, 10000000);
  } else if (strcmp(name, "--seconds") == 0) {
    options.seconds = parseNumber(name, value, 0.01, 86400);
  } else if (strcmp(name, "--warmup") == 0) {
    options.warmup = parseNumber(name, value, 0, 86400);
  } else {
    usage("unknown option '%s'", name);
  }
}

void parseOptions(int count, char **arguments) {
  for (int i = 1; i < count; i++) {
    const char *name = arguments[i];
    if (strcmp(name, "--help") == 0) {
      fputs(help, stdout);
      exit(0);
    } else if (strcmp(name, "--json") == 0) {
      options.json = true;
    } else if (strcmp(name, "--spin") == 0) {
      options.spin = true;
    } else {
      if (++i == count) usage("unknown option, or one without a value: '%s'", name);
      parseOption(name, arguments[i]);
    }
  }
  if (options.port == NULL) usage("--port is missing");
  if (options.pipeline == 0) options.pipeline = options.rate > 0 ? openPipeline : closedPipeline;
}
