// Connections to the server, and the bytes on them.
//
// Each sends the same pattern over and over, from a place of its own, and compares every byte that comes
// back with the byte sent. When a message is to be sent is decided elsewhere.

#ifndef CONNECTION_H
#define CONNECTION_H

#include <netdb.h>
#include <stdint.h>

typedef struct {
  int descriptor;
  uint32_t interest;  // What epoll watches for.
  uint64_t queued;    // Bytes of all messages begun, sent or not. sent <= queued, received <= sent.
  uint64_t sent;
  uint64_t received;
  uint64_t answered;  // Whole messages received.
  uint64_t *begun;    // When each message on its way was begun: a ring of `pipeline`. NULL in an open loop.
} Connection;

/// All of them: `options.connections`.
extern Connection *connections;

/// The epoll descriptor that watches them. The data of its events is the connection.
extern int poller;

/// Makes the pattern, the poller and the connections, without connecting them.
void prepareConnections(void);

unsigned numberOf(const Connection *connection);

/// Afterwards epoll watches for EPOLLOUT and nothing else, which it never does later.
void startConnecting(Connection *connection, const struct addrinfo *server);
void finishConnecting(Connection *connection);

/// Sends what the kernel takes of the messages begun. Epoll then watches for room for the rest.
void sendQueued(Connection *connection);

/// Receives and checks what has come, and returns how many messages are whole but not yet in `answered`.
uint64_t receive(Connection *connection);

#endif
