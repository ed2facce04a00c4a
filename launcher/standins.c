/*
 * The private directory holds a file `lock` and one file per run, run-<16 hex digits>, that lists
 * every stand-in the run uses. A run holds an exclusive flock on its own file as long as it lives,
 * so a run file whose lock is to be had is stale: its run is dead. The lock on `lock` is held, for
 * a moment, by whoever makes or removes nodes or makes, reads, writes or unlinks a run file.
 * Therefore
 *
 * - who has it sees every live run's list whole and as the disk is: run files are made and locked,
 *   listed and unlinked under it, and so is each node. What a live run lists is not removed by
 *   others; of several runs that end at once, the last one to have the lock finds its nodes in no
 *   other list and removes them.
 * - a run that is killed at any point leaves no node without a record: the list is written before
 *   the nodes are made, then again with what tells them from later ones; the nodes are removed
 *   before the file. Stale files are cleared by the next run that takes the lock.
 * - a node that stands in already when a run opens is in the lists that it reads then. Only about
 *   one that may be younger the lists have to be read again, so most questions cost one look.
 *
 * Locks end with their process, so no file has to be cleaned up for them to be right.
 */
#include "launcher/standins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/standins_record.h"

enum {
    CLEAR_MS = 2000,  /* for stale nodes on a slow disk; the next run goes on */
    OLD_S = 60,       /* how much older a node is that was there when we opened, by any clock */
    BEGUN_S = 1,      /* how old the time in the list may be when a node is made */
    NAME_ATTEMPTS = 4 /* to find a name for a run file */
};

/* Of a run file; the digits stand for random bytes. */
#define RUN_PREFIX "run-"
enum { RUN_DIGITS = 16, RUN_NAME_LEN = sizeof RUN_PREFIX - 1 + RUN_DIGITS };
struct run_name {
    char text[RUN_NAME_LEN + 1];
};

/* A directory that holds stand-ins. It stays open, so that they are found when it is renamed. */
struct place {
    char *path;
    size_t len;
    int fd;
};
struct standins {
    DIR *list; /* of the private directory; NULL when it cannot be used */
    int directory;
    int number;     /* why it cannot */
    int64_t opened; /* when the lists were first read: seconds, real time; 0: they were not */
    int run;        /* our run file, locked; -1 before there is one */
    struct run_name name;
    struct standin_list own, live; /* what we and what other runs use */
    struct place *places;
    size_t place_count, place_room;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What closing lets go of; -1 with errno. */
static int take_lock(const struct standins *s)
{
    if (s->list != NULL)
        return standin_lock(s->directory);
    errno = s->number;
    return -1;
}

/* --- nodes --------------------------------------------------------------------------------- */

/* Gone with the directories above it, or turned into something else. */
static bool is_gone(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP;
}

/* A run uses this very node under this name. */
static bool in_use(const struct standins *s, const char *path, const struct node *node)
{
    return standin_list_find(&s->live, path, node) != NULL ||
           standin_list_find(&s->own, path, node) != NULL;
}

/* With the lock: removes the node if it is still what was made and no run uses it. 0 or the errno
 * that keeps it, for a later run to try again. What fills it is the user's by now. */
static int remove_node(const struct standins *s, const struct standin_entry *e, int parent,
                       const char *name)
{
    struct node node;
    int number = node_look(parent, name, &node);

    if (number != 0)
        return number == ENOENT ? 0 : number;
    if (!standin_entry_describes(e, &node) || in_use(s, e->path, &node))
        return 0;
    number = node_remove(parent, name, e->kind);
    return number == ENOENT || number == ENOTEMPTY || number == EEXIST ? 0 : number;
}

/* --- the lists of other runs --------------------------------------------------------------- */

/* The next other run's file; NULL at the end. */
static const char *next_run(const struct standins *s)
{
    const struct dirent *entry;
    while ((entry = readdir(s->list)) != NULL) {
        const char *name = entry->d_name, *digits = name + sizeof RUN_PREFIX - 1;
        if (strncmp(name, RUN_PREFIX, sizeof RUN_PREFIX - 1) == 0 && strlen(digits) == RUN_DIGITS &&
            strspn(digits, "0123456789abcdef") == RUN_DIGITS && strcmp(name, s->name.text) != 0)
            return name;
    }
    return NULL;
}

/* Run files of the dead. */
struct stale {
    struct {
        struct run_name name;
        bool kept; /* lists a node that cannot be removed now */
    } * runs;
    size_t count, room;
    struct standin_list nodes;
};

static void add_stale(struct stale *stale, const char *name)
{
    if (stale->count == stale->room) {
        stale->room = 2 * stale->room + 8;
        stale->runs = mem_resize(stale->runs, stale->room, sizeof *stale->runs);
    }
    stale->runs[stale->count].kept = false;
    memcpy(stale->runs[stale->count++].name.text, name, RUN_NAME_LEN + 1);
}

/* Those that can be locked stay stale without a lock: nobody turns up for a file that is there. */
static void read_runs(struct standins *s, struct stale *stale)
{
    const char *name;

    standin_list_free(&s->live);
    rewinddir(s->list);
    while ((name = next_run(s)) != NULL) {
        int fd = openat(s->directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            add_stale(stale, name);
            standin_record_read(fd, stale->count - 1, &stale->nodes);
        } else {
            standin_record_read(fd, 0, &s->live);
        }
        close(fd);
    }
}

static int remove_stale_node(const struct standins *s, const struct standin_entry *e)
{
    const char *name;
    int parent = node_open_parent(e->path, &name);
    if (parent < 0)
        return is_gone(errno) ? 0 : errno;
    int number = remove_node(s, e, parent, name);
    close(parent);
    return number;
}

/* With the lock: reads what live runs use, and clears what dead ones left behind. */
static void reload(struct standins *s)
{
    const int64_t deadline = now_ms() + CLEAR_MS;
    struct stale stale = {0};

    read_runs(s, &stale);
    standin_list_sort(&stale.nodes);
    for (size_t i = 0; i < stale.nodes.count; i++) {
        const struct standin_entry *e = &stale.nodes.list[i];
        if (now_ms() >= deadline || remove_stale_node(s, e) != 0)
            stale.runs[e->run].kept = true;
    }
    for (size_t i = 0; i < stale.count; i++)
        if (!stale.runs[i].kept)
            (void)unlinkat(s->directory, stale.runs[i].name.text, 0);
    standin_list_free(&stale.nodes);
    free(stale.runs);
}

struct standins *standins_open(const char *directory)
{
    struct standins *s = mem_alloc(sizeof *s);

    s->run = -1;
    s->directory = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->list = s->directory >= 0 ? fdopendir(s->directory) : NULL;
    s->number = errno;
    if (s->list == NULL && s->directory >= 0)
        close(s->directory);
    const int64_t now = time(NULL);
    int lock = take_lock(s);
    if (lock >= 0) {
        reload(s);
        s->opened = now;
        close(lock);
    }
    return s;
}

/* Made long before we opened. */
static bool is_old(const struct standins *s, const struct node *node)
{
    const int64_t made = node->identity.birth_s != 0 ? node->identity.birth_s : node->changed;
    return made < s->opened - OLD_S;
}

bool standins_known(struct standins *s, const char *path)
{
    struct node node;

    if (s->list == NULL)
        return false;
    /* Links on the way do no harm here: only the node that a run made is known. */
    int number = node_look(AT_FDCWD, path, &node);
    if (number != 0 || node.kind == NODE_OTHER)
        return number == ENOENT; /* one that has just gone counts as missing, too */
    if (in_use(s, path, &node))
        return true;
    if (is_old(s, &node))
        return false;
    int lock = take_lock(s);
    if (lock < 0)
        return false;
    reload(s);
    number = node_look(AT_FDCWD, path, &node);
    bool known = number == ENOENT || (number == 0 && in_use(s, path, &node));
    close(lock);
    return known;
}

/* --- making -------------------------------------------------------------------------------- */

/* What to try for a name, in order: some file systems have no sockets, and a drive of another
 * system may refuse a file of this name but take a directory. */
static const enum node_kind *kinds_for(bool directory)
{
    static const enum node_kind all[] = {NODE_SOCKET, NODE_FILE, NODE_DIRECTORY, NODE_OTHER};
    return directory ? &all[2] : all;
}

static bool not_supported(int number)
{
    return number == EPERM || number == EOPNOTSUPP || number == EINVAL || number == ENOSYS;
}

/* The directory takes no such node: then the command cannot make one either. */
static bool refused(int number)
{
    return not_supported(number) || number == EROFS || number == EACCES;
}

/* With the lock: our run file, locked. 0 or the errno. */
static int make_run(struct standins *s)
{
    uint64_t random;

    for (int i = 0; i < NAME_ATTEMPTS && s->run < 0; i++) {
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return errno;
        snprintf(s->name.text, sizeof s->name.text, RUN_PREFIX "%016llx",
                 (unsigned long long)random);
        s->run = openat(s->directory, s->name.text,
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->run < 0 && errno != EEXIST)
            return errno;
    }
    if (s->run < 0)
        return EEXIST;
    if (flock(s->run, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int number = errno;
    (void)unlinkat(s->directory, s->name.text, 0);
    close(s->run);
    s->run = -1;
    return number;
}

/* The open directory of a path, -1 when it is not open. *name is the last component. */
static int find_place(const struct standins *s, const char *path, const char **name)
{
    const size_t len = (size_t)(strrchr(path, '/') - path);

    *name = path + len + 1;
    for (size_t i = s->place_count; i-- > 0;)
        if (s->places[i].len == len && memcmp(s->places[i].path, path, len) == 0)
            return s->places[i].fd;
    return -1;
}

/* The same, opened when it is not. -1 with errno. */
static int open_place(struct standins *s, const char *path, const char **name)
{
    int fd = find_place(s, path, name);
    if (fd >= 0)
        return fd;
    fd = node_open_parent(path, name);
    if (fd < 0)
        return -1;
    if (s->place_count == s->place_room) {
        s->place_room = 2 * s->place_room + 8;
        s->places = mem_resize(s->places, s->place_room, sizeof *s->places);
    }
    const size_t len = (size_t)(*name - path) - 1;
    s->places[s->place_count++] =
        (struct place){.path = mem_dup_n(path, len), .len = len, .fd = fd};
    return fd;
}

/* Ours of this path, NULL when there is none. */
static struct standin_entry *find_own(const struct standins *s, const char *path)
{
    for (size_t i = s->own.count; i-- > 0;)
        if (s->own.list[i].kind != NODE_OTHER && strcmp(s->own.list[i].path, path) == 0)
            return &s->own.list[i];
    return NULL;
}

/* The list has to say of a node what it is and about when it was made, in case that we are killed
 * before it is known. 0 or the errno. */
static int announce(const struct standins *s, struct standin_entry *e, enum node_kind kind)
{
    const int64_t now = time(NULL);

    if (e->kind == kind && now >= e->begun && now <= e->begun + BEGUN_S)
        return 0;
    e->kind = kind;
    e->begun = now;
    return standin_record_write(s->run, &s->own);
}

/* Another run's node. 0 or the errno. */
static int share(const struct standins *s, struct standin_entry *e, int parent, const char *name)
{
    struct node node;
    int number = node_look(parent, name, &node);

    if (number != 0)
        return number;
    if (standin_list_find(&s->live, e->path, &node) == NULL)
        return EEXIST;
    e->kind = node.kind;
    e->identity = node.identity;
    return 0;
}

/* With the lock: the node of an entry that is in the file. 0 or the errno. */
static int make_node(struct standins *s, struct standin_entry *e, bool directory)
{
    const enum node_kind *kind = kinds_for(directory);
    struct node node;
    const char *name;
    int number, parent = open_place(s, e->path, &name);

    if (parent < 0)
        return errno;
    do {
        number = announce(s, e, *kind++);
        if (number != 0)
            return number;
        number = node_make(parent, name, e->kind);
    } while (not_supported(number) && *kind != NODE_OTHER);
    if (number == EEXIST)
        return share(s, e, parent, name);
    if (number != 0)
        return number;

    number = node_look(parent, name, &node);
    if (number != 0)
        (void)node_remove(parent, name, e->kind);
    else if (node.kind != e->kind)
        number = EEXIST; /* somebody put another one there */
    e->identity = node.identity;
    return number;
}

static void drop_mount(struct mounts *plan, const char *path)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++) {
        struct mount *m = &plan->list[i];
        if (m->kind == MOUNT_READ_ONLY && strcmp(m->place, path) == 0 && m->source != NULL &&
            strcmp(m->source, path) == 0) {
            free(m->source);
            free(m->place);
        } else {
            plan->list[kept++] = *m;
        }
    }
    plan->count = kept;
}

static void explain(const char *path, int number, struct buf *error)
{
    if (number == EEXIST || is_gone(number))
        buf_printf(error, "%s changed while starting", path);
    else
        buf_printf(error, "%s cannot be protected: nothing can stand in for it (%s)", path,
                   strerror(number));
}

/* Lists what we lack of the plan, from the index returned on. */
static size_t add_wanted(struct standins *s, const struct mounts *plan)
{
    const size_t first = s->own.count;

    for (size_t i = 0; i < plan->standin_count; i++) {
        const struct standin *standin = &plan->standins[i];
        if (find_own(s, standin->path) != NULL)
            continue;
        const struct standin_entry entry = {
            .kind = *kinds_for(standin->directory),
            .begun = time(NULL),
            .path = mem_dup(standin->path),
        };
        standin_list_add(&s->own, &entry);
    }
    return first;
}

/* With the lock and the list in the file: their nodes. */
static bool make_nodes(struct standins *s, size_t first, struct mounts *plan, struct buf *error)
{
    bool made = true;

    for (size_t i = 0; i < plan->standin_count; i++) {
        const struct standin *standin = &plan->standins[i];
        struct standin_entry *e = find_own(s, standin->path);
        if (e != NULL && (size_t)(e - s->own.list) < first)
            continue; /* since an earlier plan */
        int number = e != NULL && made ? make_node(s, e, standin->directory) : 0;
        if (number != 0 && (!standin->optional || !refused(number))) {
            explain(standin->path, number, error);
            made = false;
        } else if (number != 0) {
            drop_mount(plan, standin->path);
        }
        if (e != NULL && (number != 0 || e->identity.inode == 0))
            e->kind = NODE_OTHER;
    }
    return made;
}

/* With the lock. */
static bool make_wanted(struct standins *s, struct mounts *plan, struct buf *error)
{
    int number = s->run >= 0 ? 0 : make_run(s);
    const size_t first = add_wanted(s, plan);
    bool made = false;

    if (number == 0)
        number = standin_record_write(s->run, &s->own);
    if (number == 0) {
        made = make_nodes(s, first, plan, error);
        number = standin_record_write(s->run, &s->own);
    } else {
        for (size_t i = first; i < s->own.count; i++)
            s->own.list[i].kind = NODE_OTHER;
    }
    if (number != 0 && buf_len(error) == 0)
        buf_printf(error, "what stands in for missing names cannot be recorded: %s",
                   strerror(number));
    return made && number == 0;
}

static bool has_all(const struct standins *s, const struct mounts *plan)
{
    for (size_t i = 0; i < plan->standin_count; i++)
        if (find_own(s, plan->standins[i].path) == NULL)
            return false;
    return true;
}

bool standins_make(struct standins *s, struct mounts *plan, struct buf *error)
{
    if (!has_all(s, plan)) {
        int lock = take_lock(s);
        if (lock < 0) {
            buf_printf(error, "what stands in for missing names cannot be locked: %s",
                       strerror(errno));
            return false;
        }
        reload(s);
        bool made = make_wanted(s, plan, error);
        close(lock);
        if (!made)
            return false;
    }
    for (size_t i = 0; i < plan->standin_count; i++) {
        const struct standin_entry *e = find_own(s, plan->standins[i].path);
        if (e != NULL)
            plan->standins[i].directory = e->kind == NODE_DIRECTORY;
    }
    return true;
}

/* --- letting go ---------------------------------------------------------------------------- */

static void let_go(struct standins *s)
{
    int lock = take_lock(s);
    bool kept = false;

    if (lock < 0)
        return; /* our run file is stale in a moment */
    reload(s);
    struct standin_list mine = s->own;
    s->own = (struct standin_list){0};
    standin_list_sort(&mine);
    for (size_t i = 0; i < mine.count; i++) {
        const char *name;
        int parent = find_place(s, mine.list[i].path, &name);
        if (mine.list[i].kind != NODE_OTHER && remove_node(s, &mine.list[i], parent, name) != 0)
            kept = true;
    }
    if (!kept)
        (void)unlinkat(s->directory, s->name.text, 0);
    standin_list_free(&mine);
    close(lock);
}

int standins_lock(const struct standins *s)
{
    return s != NULL ? s->run : -1;
}

void standins_close(struct standins *s)
{
    if (s == NULL)
        return;
    if (s->run >= 0)
        let_go(s);
    standins_abandon(s);
}

void standins_abandon(struct standins *s)
{
    if (s == NULL)
        return;
    if (s->run >= 0)
        close(s->run);
    for (size_t i = 0; i < s->place_count; i++) {
        close(s->places[i].fd);
        free(s->places[i].path);
    }
    if (s->list != NULL)
        closedir(s->list);
    free(s->places);
    standin_list_free(&s->own);
    standin_list_free(&s->live);
    free(s);
}
