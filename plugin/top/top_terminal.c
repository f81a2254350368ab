#include "top/top_terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "top/top_screen.h"

enum { ESCAPE_MS = 25, ESCAPE = 27, DELETE = 127 };

struct shown {
    const struct muster_top_source *source;
    struct muster_top top;
    struct muster_top_view view;
    struct muster_screen screen;
    chtype style[MUSTER_SCREEN_STYLES];
    SCREEN *curses;
    int signals; /* a descriptor to read them from */
    sigset_t before;
};

/* ---- the terminal ---- */

static void choose_styles(struct shown *shown)
{
    bool colour = has_colors() && !muster_env("NO_COLOR");
    shown->style[MUSTER_SCREEN_PLAIN] = A_NORMAL;
    shown->style[MUSTER_SCREEN_HEADING] = A_BOLD;
    shown->style[MUSTER_SCREEN_BAD] = A_BOLD;
    shown->style[MUSTER_SCREEN_GOOD] = A_BOLD;
    shown->style[MUSTER_SCREEN_MARKED] = A_REVERSE;
    if (!colour || start_color() != OK)
        return;
    use_default_colors();
    init_pair(1, COLOR_RED, -1);
    init_pair(2, COLOR_GREEN, -1);
    shown->style[MUSTER_SCREEN_BAD] |= (chtype)COLOR_PAIR(1);
    shown->style[MUSTER_SCREEN_GOOD] |= (chtype)COLOR_PAIR(2);
}

static void close_terminal(struct shown *shown)
{
    if (shown->curses) {
        endwin();
        delscreen(shown->curses);
    }
    if (shown->signals >= 0)
        close(shown->signals);
    sigprocmask(SIG_SETMASK, &shown->before, NULL);
}

static int open_terminal(struct shown *shown, struct muster_err *err)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &shown->before);
    shown->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (shown->signals < 0)
        return muster_fail(err, "signalfd: %s", strerror(errno));
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return muster_fail(err, "this is no terminal; `muster top --once` prints one screen");
    setlocale(LC_CTYPE, "");
    shown->view.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    shown->curses = newterm(NULL, stdout, stdin);
    if (!shown->curses) {
        const char *term = muster_env("TERM");
        return muster_fail(err,
                           "TERM=%s is a terminal that ncurses does not know; "
                           "`muster top --once` prints one screen",
                           term ? term : "");
    }
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    choose_styles(shown);
    return 0;
}

/* ---- drawing ---- */

/* A terminal without UTF-8 gets a question mark for each character that it has not. */
static void put_text(const struct shown *shown, const char *text)
{
    for (; *text && !shown->view.utf8; text++)
        if ((*text & 0xc0) != 0x80)
            addch((chtype)((*text & 0x80) ? '?' : *text));
    if (*text)
        addstr(text);
}

static void draw(struct shown *shown)
{
    shown->screen.width = COLS > 0 ? (unsigned)COLS : 1;
    shown->screen.height = LINES > 0 ? (unsigned)LINES : 1;
    muster_top_draw(&shown->top, &shown->view, &shown->screen);
    erase();
    for (unsigned i = 0; i < shown->screen.used; i++) {
        const struct muster_screen_line *line = &shown->screen.line[i];
        move((int)i, 0);
        attrset((int)shown->style[line->style]);
        put_text(shown, line->text);
        if (line->style == MUSTER_SCREEN_MARKED)
            mvchgat((int)i, 0, -1, A_REVERSE, 0, NULL);
    }
    attrset(A_NORMAL);
    refresh();
}

/* ---- keys ---- */

static int key_of(int key)
{
    static const int keys[][2] = {
        {KEY_UP, MUSTER_TOP_UP},         {KEY_DOWN, MUSTER_TOP_DOWN},
        {KEY_PPAGE, MUSTER_TOP_PAGE_UP}, {KEY_NPAGE, MUSTER_TOP_PAGE_DOWN},
        {KEY_HOME, MUSTER_TOP_HOME},     {KEY_END, MUSTER_TOP_END},
        {KEY_ENTER, MUSTER_TOP_ENTER},   {'\r', MUSTER_TOP_ENTER},
        {'\n', MUSTER_TOP_ENTER},        {KEY_BACKSPACE, MUSTER_TOP_BACK},
        {KEY_LEFT, MUSTER_TOP_BACK},     {DELETE, MUSTER_TOP_BACK},
        {'\b', MUSTER_TOP_BACK},         {ESCAPE, MUSTER_TOP_BACK},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] == key)
            return keys[i][1];
    return key;
}

/* All keys that wait. True: there was one, or the terminal has another size. */
static bool take_keys(struct shown *shown)
{
    bool any = false;
    int key;
    while (!shown->view.quit && (key = getch()) != ERR) {
        size_t job = shown->view.job;
        muster_top_press(&shown->view, key_of(key), &shown->top, shown->screen.page);
        if (shown->view.job != job)
            shown->source->fill(shown->source->arg, shown->view.job, &shown->top);
        any = true;
    }
    return any;
}

/* Until `due`, a key, another size, or a signal that ends it. False: it is over. */
static bool pause_until(const struct shown *shown, uint64_t due)
{
    uint64_t now = muster_now_ns(), ns = due > now ? due - now : 0;
    struct timespec left = {.tv_sec = (time_t)(ns / MUSTER_NS_PER_S),
                            .tv_nsec = (long)(ns % MUSTER_NS_PER_S)};
    struct pollfd on[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = shown->signals, .events = POLLIN}};
    struct signalfd_siginfo taken;
    int n = ppoll(on, 2, &left, NULL);
    if (n < 0)
        return errno == EINTR;
    /* Taken, so that it is not delivered once it is not blocked any more. */
    if (on[1].revents && read(shown->signals, &taken, sizeof taken) > 0)
        return false;
    return !(on[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void show(struct shown *shown, uint64_t interval_ns)
{
    uint64_t look_ns = muster_now_ns() + interval_ns, due;
    shown->source->fill(shown->source->arg, shown->view.job, &shown->top);
    do {
        draw(shown);
        do {
            due = shown->source->take(shown->source->arg);
            if (!pause_until(shown, due < look_ns ? due : look_ns))
                return;
        } while (!take_keys(shown) && muster_now_ns() < look_ns);
        if (muster_now_ns() < look_ns)
            continue;
        look_ns = muster_now_ns() + interval_ns;
        shown->source->look(shown->source->arg);
        if (!shown->view.paused)
            shown->source->fill(shown->source->arg, shown->view.job, &shown->top);
    } while (!shown->view.quit);
}

int muster_top_terminal(const struct muster_top_source *source, size_t job, uint64_t interval_ns,
                        struct muster_err *err)
{
    struct shown *shown = calloc(1, sizeof *shown);
    if (!shown)
        return muster_fail_memory(err, "the screen");
    shown->source = source;
    shown->view.job = job;
    int failed = open_terminal(shown, err);
    if (!failed)
        show(shown, interval_ns);
    close_terminal(shown);
    free(shown);
    return failed;
}
