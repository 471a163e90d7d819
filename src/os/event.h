/* An eventfd as a doorbell. */
#ifndef WEIR_OS_EVENT_H
#define WEIR_OS_EVENT_H

/* The descriptor (close it with weir__os_close) or a negative errno. */
int weir__os_event_new(void);
/* Rings; any thread, signal handlers too. Cannot fail on a live descriptor: one ring already
 * pending is enough. */
void weir__os_event_signal(int fd);
/* Takes every ring so far; 1 when there was one, else 0, or a negative errno. */
int weir__os_event_drain(int fd);

#endif
