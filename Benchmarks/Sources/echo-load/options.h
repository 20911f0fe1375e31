#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const char *host;
  const char *port;
  unsigned connections;
  unsigned size;      // Bytes in a message.
  unsigned pipeline;  // Messages on their way on each connection.
  double seconds;
  double warmup;
  bool json;
} Options;

/// Exits with status 64 and a message when the arguments make no sense.
Options parseOptions(int count, char **arguments);

#endif
