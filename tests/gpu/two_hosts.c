/*
 * Preloaded into the ranks of a job on one machine: makes two hosts of it. Rank r of n enters the
 * network namespace TWO_HOSTS_NETNS0 or, from n / 2 on, TWO_HOSTS_NETNS1 (files of `ip netns`),
 * and NCCL is told another host identity and the interface there, TWO_HOSTS_IFNAME0 or 1.
 * Does nothing in a process without RANK and WORLD_SIZE: the launcher stays where it is.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *of_host(const char *name, int host)
{
    char variable[64];
    snprintf(variable, sizeof variable, "%s%d", name, host);
    return getenv(variable);
}

static void give_up(const char *what)
{
    perror(what);
    _exit(1);
}

__attribute__((constructor)) static void enter(void)
{
    const char *rank = getenv("RANK"), *ranks = getenv("WORLD_SIZE");
    char text[64];
    if (!rank || !ranks)
        return;
    int host = 2 * atoi(rank) >= atoi(ranks);
    const char *space = of_host("TWO_HOSTS_NETNS", host);
    const char *interface = of_host("TWO_HOSTS_IFNAME", host);
    int fd = space ? open(space, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        give_up("two_hosts: cannot enter the network namespace");
    close(fd);
    snprintf(text, sizeof text, "node%d", host);
    setenv("NCCL_HOSTID", text, 1);
    snprintf(text, sizeof text, "=%s", interface ? interface : "");
    setenv("NCCL_SOCKET_IFNAME", text, 1);
    setenv("NCCL_NET", "Socket", 1);
}
