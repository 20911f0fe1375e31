// The open loop: messages that are due at fixed times, whatever the server does.
//
// Message m of all is due m intervals after the start, on connection m modulo their number. So a message's
// time follows from its number, and the queue of those that wait for their connection is a mere count.

#ifndef PACE_H
#define PACE_H

#include <stdint.h>

#include "connection.h"

/// The first message is due at `start`, none is at `end` or later.
void paceBegin(uint64_t start, uint64_t end);

/// Begins messages that have become due: a few at most, so that receiving has its turn. Does nothing in a
/// closed loop.
void paceKeep(void);

/// When to call `paceKeep` again.
uint64_t paceNext(void);

/// When `message` of `connection` is due; both count from 0.
uint64_t paceTime(const Connection *connection, uint64_t message);

/// Begins what is due on `connection` as far as its pipeline has room.
void paceRefill(Connection *connection);

/// To be called after `end`: of what is due nothing more is begun, and what is not begun is given up.
void paceEnd(void);

#endif
