#include "pace.h"

#include <stdbool.h>

#include "common.h"
#include "measure.h"
#include "options.h"

enum { messagesAtOnce = 16 };

static uint64_t paceStart, paceStop;
static double interval;
static uint64_t released;  // Messages that have become due, on all connections together.

static uint64_t timeOf(uint64_t message) {
  return paceStart + (uint64_t)((double)message * interval);
}

void paceBegin(uint64_t start, uint64_t end) {
  paceStart = start;
  paceStop = end;
  interval = (double)second / options.rate;
}

uint64_t paceNext(void) {
  uint64_t due = timeOf(released);
  return due < paceStop ? due : paceStop;
}

uint64_t paceTime(const Connection *connection, uint64_t message) {
  return timeOf(message * options.connections + numberOf(connection));
}

static uint64_t dueOn(const Connection *connection) {
  return (released + options.connections - 1 - numberOf(connection)) / options.connections;
}

void paceRefill(Connection *connection) {
  uint64_t begun = connection->queued / options.size;
  uint64_t waiting = dueOn(connection) - begun;
  uint64_t room = options.pipeline - (begun - connection->answered);
  if (waiting == 0 || room == 0) return;
  bool isFull = connection->sent < connection->queued;  // Then epoll says when there is room.
  connection->queued += (waiting < room ? waiting : room) * options.size;
  if (!isFull) sendQueued(connection);
}

static bool releaseNext(void) {
  uint64_t due = timeOf(released);
  if (due >= paceStop) return false;
  uint64_t time = now();
  if (due > time) return false;
  measureDelay(due, time);
  Connection *connection = &connections[released % options.connections];
  released++;
  paceRefill(connection);
  return true;
}

void paceKeep(void) {
  for (int i = 0; i < messagesAtOnce && releaseNext(); i++) continue;
}

/// Gives up what is not begun, and of what is begun the messages without a byte sent: after a server that is
/// too slow there may be more than it answers in any reasonable time.
static void giveUpRest(Connection *connection, uint64_t time) {
  uint64_t begun = (connection->sent + options.size - 1) / options.size;
  for (uint64_t message = begun; message < dueOn(connection); message++) {
    measureUnsent(paceTime(connection, message), time);
  }
  connection->queued = begun * options.size;
}

void paceEnd(void) {
  while (releaseNext()) continue;  // The last ones, whose time came after we had looked.
  uint64_t time = now();
  for (unsigned i = 0; i < options.connections; i++) giveUpRest(&connections[i], time);
}
