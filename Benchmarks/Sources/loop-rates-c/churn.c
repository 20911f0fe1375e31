// Connections that are made, carry one byte there and back, and are closed: clients and server on one loop.
//
// A byte always fits into the empty buffer of its socket, so no write is ever queued.

#include <stdlib.h>

#include "rates.h"

enum { lanes = 16 };

typedef struct {
  uv_tcp_t tcp;  // First, so that the handle's address is the client's.
  uv_connect_t connect;
  char byte;
} Client;

static Client clients[lanes];
static uv_tcp_t listener;
static struct sockaddr_in address;  // The listener's.
static uint64_t begun, ended, served, start;
static double seconds;

static void lendBuffer(uv_handle_t *handle, size_t suggested, uv_buf_t *result) {
  static char buffer[64];
  (void)handle;
  (void)suggested;
  *result = uv_buf_init(buffer, sizeof buffer);
}

static void sendByte(uv_stream_t *stream, char *byte) {
  uv_buf_t bytes = uv_buf_init(byte, 1);
  expect("bytes sent", (uint64_t)check("write", uv_try_write(stream, &bytes, 1)), 1);
}

// The server.

static void connectionDidClose(uv_handle_t *handle) {
  served++;
  free(handle);
}

static void connectionDidRead(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
  if (count == 0) return;  // Nothing to read after all.
  if (count == UV_EOF) return uv_close((uv_handle_t *)stream, connectionDidClose);
  check("read", (int)count);
  expect("bytes from a client", (uint64_t)count, 1);
  sendByte(stream, bytes->base);
}

static void clientDidArrive(uv_stream_t *listener, int status) {
  check("listen", status);
  uv_tcp_t *tcp = malloc(sizeof *tcp);
  if (tcp == NULL) fail("malloc", uv_strerror(UV_ENOMEM));
  check("tcp", uv_tcp_init(loop, tcp));
  check("accept", uv_accept(listener, (uv_stream_t *)tcp));
  check("nodelay", uv_tcp_nodelay(tcp, 1));
  check("read", uv_read_start((uv_stream_t *)tcp, lendBuffer, connectionDidRead));
}

static void startServer(void) {
  int length = sizeof address;
  check("address", uv_ip4_addr("127.0.0.1", 0, &address));
  check("tcp", uv_tcp_init(loop, &listener));
  check("bind", uv_tcp_bind(&listener, (struct sockaddr *)&address, 0));
  check("listen", uv_listen((uv_stream_t *)&listener, 1024, clientDidArrive));
  check("getsockname", uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &length));
}

// The clients: each lane begins its next connection when it has closed the one before.

static void didConnect(uv_connect_t *connect, int status);

static void beginNext(Client *client) {
  if (begun == total) return;
  client->byte = (char)begun++;
  check("tcp", uv_tcp_init(loop, &client->tcp));
  check("connect", uv_tcp_connect(&client->connect, &client->tcp, (struct sockaddr *)&address, didConnect));
}

static void clientDidClose(uv_handle_t *handle) {
  if (++ended == total) {
    seconds = secondsSince(start);
    uv_close((uv_handle_t *)&listener, NULL);
  }
  beginNext((Client *)handle);
}

static void clientDidRead(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
  if (count == 0) return;
  check("read", (int)count);
  expect("bytes back", (uint64_t)count, 1);
  expect("byte", (unsigned char)bytes->base[0], (unsigned char)((Client *)stream)->byte);
  uv_close((uv_handle_t *)stream, clientDidClose);
}

static void didConnect(uv_connect_t *connect, int status) {
  Client *client = (Client *)connect->handle;
  check("connect", status);
  check("nodelay", uv_tcp_nodelay(&client->tcp, 1));
  sendByte(connect->handle, &client->byte);
  check("read", uv_read_start(connect->handle, lendBuffer, clientDidRead));
}

double measureChurn(void) {
  startServer();
  start = uv_hrtime();
  for (unsigned i = 0; i < lanes; i++) beginNext(&clients[i]);
  uv_run(loop, UV_RUN_DEFAULT);
  expect("connections served", served, total);
  return seconds;
}
