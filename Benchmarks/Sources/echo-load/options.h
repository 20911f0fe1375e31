#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const char *host;
  const char *port;
  unsigned connections;
  unsigned size;      // Bytes in a message.
  unsigned pipeline;  // Messages on their way on each connection; in an open loop at most.
  double rate;        // Messages a second on all connections together; 0 for a closed loop.
  double seconds;
  double warmup;
  bool spin;  // Never sleep.
  bool json;
} Options;

/// Set by `parseOptions`, and not changed after it.
extern Options options;

/// Exits with status 64 and a message when the arguments make no sense, and with 0 after `--help`.
void parseOptions(int count, char **arguments);

#endif
