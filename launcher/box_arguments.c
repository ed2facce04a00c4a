/* What bubblewrap is told. Chapter 50 sections 9, 15 and 18. */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/box.h"

/* bubblewrap refuses more. */
enum { WORDS_MAX = 9000 };

struct words {
    struct buf *out;
    size_t count;
};

static void add(struct words *w, const char *word)
{
    buf_append(w->out, word, strlen(word) + 1);
    w->count++;
}

static void add_bind(struct words *w, const char *option, const char *source, const char *place)
{
    add(w, option);
    add(w, source);
    add(w, place);
}

static void add_namespaces(struct words *w)
{
    static const char *const words[] = {
        "--die-with-parent",    "--unshare-user",
        "--unshare-net",        "--unshare-pid",
        "--unshare-ipc",        "--unshare-uts",
        "--unshare-cgroup-try", "--as-pid-1",
        "--cap-drop",           "ALL",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        add(w, words[i]);
}

/* What srt-inside needs until it has built the box; it drops all of it before the command. */
static void add_capabilities(struct words *w, const struct box_options *o)
{
    static const char *const capabilities[] = {"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SYS_RESOURCE",
                                               "CAP_DAC_READ_SEARCH"};
    if (o->dependencies->bwrap_setuid)
        return;
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        add(w, "--cap-add");
        add(w, capabilities[i]);
    }
}

static void add_proc(struct words *w, bool weaker_nested)
{
    if (weaker_nested) {
        add_bind(w, "--bind", "/proc", "/proc");
    } else {
        add(w, "--proc");
        add(w, "/proc");
    }
}

static bool add_mounts(struct words *w, const struct mounts *mounts, struct buf *error)
{
    size_t built_in = 0, links = 0;

    add_bind(w, mounts->root_writable ? "--bind" : "--ro-bind", "/", "/");
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *m = &mounts->list[i];
        switch (m->kind) {
        case MOUNT_READ_ONLY:
            add_bind(w, "--ro-bind", m->source, m->place);
            break;
        case MOUNT_WRITABLE:
            add_bind(w, "--bind", m->source, m->place);
            break;
        case MOUNT_HIDE_DIRECTORY:
            add(w, "--tmpfs");
            add(w, m->place);
            break;
        case MOUNT_HIDE_FILE:
            add_bind(w, "--ro-bind", "/dev/null", m->place);
            break;
        case MOUNT_PIN_LINK:
            links++;
            break;
        }
        built_in += m->reason == REASON_MANDATORY || m->reason == REASON_OWN;
    }
    if (links != 0)
        log_warning("bubblewrap cannot protect a symbolic link itself, only what it leads to: %zu "
                    "protected names are links that the command can replace",
                    links);
    if (w->count > WORDS_MAX) {
        buf_printf(error,
                   "Sandbox profile has %zu bwrap arguments and bwrap accepts at most %d (about "
                   "3000 mounts). %zu of them are built-in protection; deny whole directories, or "
                   "unset SRT_MOUNTS",
                   w->count, WORDS_MAX, built_in);
        return false;
    }
    return true;
}

/* As srt-inside does it with mount calls of its own: /proc and /sys change nothing on the host. */
static void add_system_covers(struct words *w)
{
    static const char *const hidden_files[] = {"/proc/kcore", "/proc/keys", "/proc/timer_list",
                                               "/proc/latency_stats", "/proc/sched_debug"};
    static const char *const hidden_directories[] = {"/proc/acpi", "/proc/fs", "/proc/scsi"};
    struct stat st;

    for (size_t i = 0; i < sizeof hidden_files / sizeof hidden_files[0]; i++)
        if (stat(hidden_files[i], &st) == 0)
            add_bind(w, "--ro-bind", "/dev/null", hidden_files[i]);
    for (size_t i = 0; i < sizeof hidden_directories / sizeof hidden_directories[0]; i++) {
        if (stat(hidden_directories[i], &st) == 0) {
            add(w, "--tmpfs");
            add(w, hidden_directories[i]);
        }
    }
}

bool box_arguments(const struct box_options *o, struct buf *words, struct buf *error)
{
    struct words w = {.out = words};

    add_namespaces(&w);
    add_capabilities(&w, o);
    if (o->mounts == NULL) {
        /* Writable: the mounts of the orders are cloned from it, and only then the rest is made
         * read-only. Without --dev, which would cost an ordinary user the capabilities. */
        add_bind(&w, "--bind", "/", "/");
        add_proc(&w, o->weaker_nested);
    } else {
        if (!add_mounts(&w, o->mounts, error))
            return false;
        add_bind(&w, "--ro-bind", "/sys", "/sys");
        add(&w, "--dev");
        add(&w, "/dev");
        add_proc(&w, o->weaker_nested);
        if (!o->weaker_nested && (!o->nested_namespaces || geteuid() == 0))
            add_system_covers(&w);
    }
    add(&w, "--chdir");
    add(&w, "/");
    return true;
}
