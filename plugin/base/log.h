/*
 * What muster itself logs on stderr: one line, "muster: text". Never called from a callback that
 * NCCL makes during training; set-up, tear-down and muster's own threads only. Thread-safe (one
 * write(2) a line).
 */
#ifndef MUSTER_BASE_LOG_H
#define MUSTER_BASE_LOG_H

enum muster_log_level { MUSTER_LOG_ERROR, MUSTER_LOG_WARN, MUSTER_LOG_INFO, MUSTER_LOG_DEBUG };

void muster_log_set_level(enum muster_log_level level);
__attribute__((format(printf, 2, 3))) void muster_log(enum muster_log_level level, const char *fmt,
                                                      ...);

#endif
