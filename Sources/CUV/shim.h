#ifndef CUV_SHIM_H
#define CUV_SHIM_H

// accept4 and friends are hidden without this.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <uv.h>

#if UV_VERSION_HEX < 0x012c02
#error "swift-uv needs libuv 1.44.2 or later"
#endif

// libdispatch exports these for Foundation's run loop and declares them in a private header.
// The first is an eventfd that becomes readable when the main queue has work; the second runs it.
// They can go once libdispatch has public calls for driving the main queue.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);

#endif
