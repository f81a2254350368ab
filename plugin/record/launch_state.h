/* Whose a place of a ring of launches is. */
#ifndef MUSTER_RECORD_LAUNCH_STATE_H
#define MUSTER_RECORD_LAUNCH_STATE_H

enum {
    LAUNCH_FREE,     /* for the next ticket that comes by; its last result stays readable */
    LAUNCH_FILLING,  /* the launching thread's */
    LAUNCH_RECORDED, /* the completion thread's */
    LAUNCH_ANCHOR,   /* its end is what the next one's begin is measured from */
};

#endif
