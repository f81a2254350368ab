/* TCP to whichever address of a host takes a connection: localhost may be ::1 or 127.0.0.1. */
#ifndef MUSTER_LAUNCH_CONNECT_H
#define MUSTER_LAUNCH_CONNECT_H

struct addrinfo;

/* The first of `list`, as getaddrinfo gave it, that takes a connection. `patience_s` limits each
 * try and what is sent later; 0: the kernel's own limit. The descriptor is the caller's, and does
 * not pass to programs that are started. -1: none does; errno is that of the last try. */
int muster_connect_any(const struct addrinfo *list, unsigned patience_s);

#endif
