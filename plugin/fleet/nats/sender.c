#include "fleet/nats/sender.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fleet/fleet_name.h"
#include "fleet/nats/outbox.h"

#define LOG_NS (30 * MUSTER_NS_PER_S) /* not oftener that messages are refused */

struct muster_sender {
    struct muster_link_options options;
    struct muster_link *link;
    unsigned begun;
    uint64_t instance;
    pthread_mutex_t lock;
    /* Under the lock. */
    bool refused, was_up;
    uint64_t logged_ns, bytes;
    struct muster_outbox outbox;
};

/* ---- what the server answers ---- */

static void log_refused(struct muster_sender *sender, const char *why, const char *advice)
{
    uint64_t now = muster_now_ns();
    sender->refused = true;
    if (sender->logged_ns && now - sender->logged_ns < LOG_NS)
        return;
    sender->logged_ns = now;
    fprintf(sender->options.log,
            "%s: NATS %s does not take messages (%s); a minute of them is kept. %s\n",
            sender->options.who, sender->options.nats.url, why, advice);
    fflush(sender->options.log);
}

static void on_acked(jsCtx *js, natsMsg *message, jsPubAck *ack, jsPubAckErr *why, void *arg)
{
    struct muster_sender *sender = arg;
    const char *id = NULL;
    (void)js;
    if (natsMsgHeader_Get(message, "Nats-Msg-Id", &id) == NATS_OK && id) {
        const char *dash = strrchr(id, '-');
        pthread_mutex_lock(&sender->lock);
        muster_outbox_answer(&sender->outbox, dash ? strtoull(dash + 1, NULL, 10) : UINT64_MAX,
                             ack != NULL);
        if (ack && sender->refused)
            sender->refused = false;
        else if (!ack && why->Err != NATS_TIMEOUT)
            log_refused(sender, why->ErrText ? why->ErrText : natsStatus_GetText(why->Err),
                        why->Err == NATS_NO_RESPONDERS
                            ? "No stream takes " MUSTER_FLEET_JOBS
                              ".>: start muster fleet, which makes it, with JetStream on"
                            : "See the server's log: its disk, its limits, what these credentials "
                              "may");
        pthread_mutex_unlock(&sender->lock);
    }
    natsMsg_Destroy(message);
}

/* ---- sending ---- */

static bool send_one(struct muster_sender *sender, const struct muster_letter *letter)
{
    natsMsg *message = NULL;
    char id[64];
    jsPubOptions options;
    jsPubOptions_Init(&options);
    snprintf(id, sizeof id, "%016" PRIx64 "-%" PRIu64, sender->instance, letter->id);
    options.MsgId = id; /* no MaxWait: the library would set a timer anew for each of them */
    natsStatus s =
        natsMsg_Create(&message, letter->subject, NULL, letter->data, (int)letter->bytes);
    s = s == NATS_OK ? js_PublishMsgAsync(muster_link_js(sender->link), &message, &options) : s;
    natsMsg_Destroy(message);
    return s == NATS_OK;
}

/* What the library still waits for is sent again, or was answered meanwhile. */
static void forget_sent(const struct muster_sender *sender)
{
    natsMsgList sent = {NULL, 0};
    if (js_PublishAsyncGetPendingList(&sent, muster_link_js(sender->link)) == NATS_OK)
        natsMsgList_Destroy(&sent);
}

/* What flies is to be sent again where nobody will answer. True: the library, of the same
 * connection as before, waits for it still; of one through which nothing was sent yet it cannot be
 * asked. */
static bool recall(struct muster_sender *sender, unsigned begun, bool up, uint64_t now_ns)
{
    pthread_mutex_lock(&sender->lock);
    bool anew = begun != sender->begun || (sender->was_up && !up);
    bool over = anew || muster_outbox_overdue(&sender->outbox, now_ns);
    /* A subject of another account, of which there is no stream, is not answered at all. */
    if (over && !anew && up)
        log_refused(sender, "no answer",
                    "Does muster fleet run, which makes the stream for them? Is the host or the "
                    "disk of NATS overloaded?");
    bool waits = begun == sender->begun && sender->outbox.flying > 0;
    if (over)
        muster_outbox_recall(&sender->outbox);
    sender->begun = begun;
    sender->was_up = up;
    pthread_mutex_unlock(&sender->lock);
    return over && waits;
}

/* The lock is held but while the library is at work: only this thread adds and forgets letters. */
void muster_sender_send(struct muster_sender *sender)
{
    uint64_t now = muster_now_ns();
    unsigned begun = muster_link_tend(sender->link, now);
    bool up = muster_link_is_up(sender->link) && muster_link_js(sender->link);
    if (recall(sender, begun, up, now))
        forget_sent(sender);
    pthread_mutex_lock(&sender->lock);
    muster_outbox_trim(&sender->outbox, now);
    const struct muster_letter *letter;
    while (up && (letter = muster_outbox_next(&sender->outbox, now))) {
        pthread_mutex_unlock(&sender->lock);
        up = send_one(sender, letter);
        pthread_mutex_lock(&sender->lock);
        if (!up)
            muster_outbox_answer(&sender->outbox, letter->id, false);
    }
    pthread_mutex_unlock(&sender->lock);
}

/* ---- all ---- */

int muster_sender_open(const struct muster_link_options *link, uint64_t instance,
                       struct muster_sender **sender, struct muster_err *err)
{
    struct muster_sender *one = calloc(1, sizeof *one);
    if (!one)
        return muster_fail_memory(err, "what NATS is told");
    one->options = *link;
    one->options.acked = on_acked;
    one->options.acked_arg = one;
    one->instance = instance;
    pthread_mutex_init(&one->lock, NULL);
    if (muster_link_open(&one->options, &one->link, err) != 0) {
        pthread_mutex_destroy(&one->lock);
        free(one);
        return -1;
    }
    *sender = one;
    return 0;
}

void muster_sender_add(struct muster_sender *sender, const char *subject, void *data, size_t bytes,
                       uint64_t now_ns)
{
    pthread_mutex_lock(&sender->lock);
    sender->bytes += bytes;
    muster_outbox_add(&sender->outbox, subject, data, bytes, now_ns);
    pthread_mutex_unlock(&sender->lock);
}

void muster_sender_close(struct muster_sender *sender)
{
    if (!sender)
        return;
    if (muster_link_js(sender->link)) {
        jsPubOptions options;
        jsPubOptions_Init(&options);
        options.MaxWait = MUSTER_LINK_WAIT_MS;
        js_PublishAsyncComplete(muster_link_js(sender->link), &options);
    }
    muster_link_close(sender->link);
    muster_outbox_free(&sender->outbox);
    pthread_mutex_destroy(&sender->lock);
    free(sender);
}

struct muster_sender_figures muster_sender_figures(struct muster_sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    struct muster_sender_figures now = {.good = sender->was_up && !sender->refused,
                                        .waiting = muster_outbox_waiting(&sender->outbox),
                                        .there = sender->outbox.there,
                                        .lost = sender->outbox.lost,
                                        .bytes = sender->bytes};
    pthread_mutex_unlock(&sender->lock);
    return now;
}
