/*
 * What a decider costs: questions and answers over its link, in a closed loop.
 * It prints one JSON line.
 *
 *   bench-decide answers [--pending N] [--seconds S] [--proto 1|2] [COMMAND]
 *   bench-decide hold [--pending N] [--proto 1|2] [COMMAND]
 *
 *   answers  N questions are open all the time, for S seconds: decisions a second, how long one
 *            takes, and the time of the processor on either side (the decider's from its start)
 *   hold     N questions are asked of a decider that does not answer: what they take of memory
 *
 * COMMAND is a decider's command line, as --decider-exec takes it; without one the program starts
 * itself ("allow" and "mute"): a decider in C that does nothing else.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ev.h>

#include "base/fd.h"
#include "base/mem.h"
#include "decider/clock.h"
#include "decider/frame.h"
#include "decider/peer_message.h"
#include "decider/remote.h"

enum {
    PENDING_MAX = 1000000,
    LATENCY_MAX_US = 10000000, /* and longer */
    HOLD_TIMEOUT_MS = 3600000,
    OUTPUT_MAX = 16 * FRAME_MAX
};

struct slot {
    double asked;
};

static struct {
    struct ev_loop *loop;
    struct decider *decider;
    bool hold;
    unsigned proto;
    unsigned long pending;
    double seconds;
    const char *command;
    /* progress */
    struct slot *slots;
    uint32_t latencies[LATENCY_MAX_US + 1]; /* how many took so many microseconds */
    uint64_t decisions, failures;
    double begun, ended;
    double cpu_begun;
    size_t memory_begun;
    ev_timer end;
} bench = {.proto = 1, .pending = 0, .seconds = 5};

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "bench-decide: %s\n", what);
    exit(1);
}

static double cpu_seconds(int who)
{
    struct rusage used;

    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%lu %lu", &all, &resident) != 2)
        die("/proc/self/statm cannot be read");
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#define FIELD(n, v)                                                                      \
    {                                                                                    \
        .name = (n), .name_len = sizeof(n) - 1, .value = (v), .value_len = sizeof(v) - 1 \
    }

static decider_answer on_answer;

static void ask(struct slot *slot)
{
    static const struct decider_field fields[] = {
        FIELD("Host", "api.example.com"),
        FIELD("User-Agent", "bench-decide/1.0 (closed loop; one question a slot)"),
        FIELD("Accept", "application/json"),
        FIELD("Accept-Encoding", "gzip, deflate, br"),
        FIELD("Content-Type", "application/json"),
        FIELD("Content-Length", "512"),
        FIELD("X-Request-Id", "0b1f6c1e-6f2c-4a1c-9b0e-2f6d1c7a9e55"),
    };
    static const struct decider_request request = {.method = "POST",
                                                   .method_len = 4,
                                                   .host = "api.example.com",
                                                   .port = 443,
                                                   .server_name = "api.example.com",
                                                   .target = "/v1/things?limit=10",
                                                   .target_len = 19,
                                                   .fields = fields,
                                                   .field_count = sizeof fields / sizeof fields[0]};
    static const struct decider_connection connection = {
        .via = "connect", .host = "api.example.com", .port = 443, .client = "127.0.0.1"};
    const char *refused = NULL;
    const struct decider_question *q;

    slot->asked = clock_now();
    if (bench.proto == 1)
        q = decider_ask_request(bench.decider, &request, &refused, on_answer, slot);
    else
        q = decider_ask_connection(bench.decider, &connection, on_answer, slot);
    if (q == NULL)
        die(refused != NULL ? refused : "the decider cannot be asked");
}

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct slot *slot = ctx;
    double took_us = (clock_now() - slot->asked) * 1e6;

    bench.decisions++;
    if (v->action != DECIDER_ALLOW && v->action != DECIDER_DENY)
        bench.failures++;
    bench.latencies[took_us < LATENCY_MAX_US ? (size_t)took_us : LATENCY_MAX_US]++;
    if (bench.ended == 0)
        ask(slot);
}

static void on_end(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    bench.ended = clock_now();
    ev_break(loop, EVBREAK_ALL);
}

/* The link is up from here on, and questions go out when the loop does. */
static void on_begin(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)revents;
    bench.memory_begun = resident_bytes();
    bench.cpu_begun = cpu_seconds(RUSAGE_SELF);
    bench.begun = clock_now();
    for (unsigned long i = 0; i < bench.pending; i++)
        ask(&bench.slots[i]);
    ev_set_cb(timer, on_end);
    ev_timer_set(timer, bench.seconds, 0);
    ev_timer_start(loop, timer);
}

static void on_ready(void *ctx, const struct hello *hello)
{
    (void)ctx;
    (void)hello;
    ev_timer_start(bench.loop, &bench.end);
}

static void on_away(void *ctx, const char *why, bool final)
{
    (void)ctx;
    (void) final;
    die(why);
}

static uint64_t percentile_us(unsigned percent)
{
    uint64_t seen = 0;

    for (uint64_t us = 0; us <= LATENCY_MAX_US; us++) {
        seen += bench.latencies[us];
        if (seen * 100 >= bench.decisions * percent)
            return us;
    }
    return LATENCY_MAX_US;
}

static void run(void)
{
    struct buf error;
    const struct remote_options o = {.loop = bench.loop,
                                     .proto = bench.proto,
                                     .timeout_ms = HOLD_TIMEOUT_MS,
                                     .fd_in = -1,
                                     .fd_out = -1,
                                     .exec = bench.command,
                                     .ready = on_ready,
                                     .away = on_away};

    buf_init(&error, 1024);
    bench.slots = mem_array(bench.pending, sizeof *bench.slots);
    /* Touched beforehand: what the questions take is measured. */
    memset(bench.slots, 1, bench.pending * sizeof *bench.slots);
    ev_timer_init(&bench.end, on_begin, 0, 0);
    bench.decider = remote_new(&o, &error);
    if (bench.decider == NULL)
        die(buf_cstr(&error));
    ev_run(bench.loop, 0);
    buf_free(&error);
}

static void report(void)
{
    double cpu = cpu_seconds(RUSAGE_SELF) - bench.cpu_begun;
    double seconds = bench.ended - bench.begun;
    size_t now = resident_bytes();
    size_t growth = now > bench.memory_begun ? now - bench.memory_begun : 0;

    remote_free(bench.decider);
    if (bench.hold) {
        printf("{\"mode\": \"hold\", \"proto\": %u, \"pending\": %lu, \"answered\": %" PRIu64
               ", \"rss_growth\": %zu, \"bytes_per_question\": %zu}\n",
               bench.proto, bench.pending, bench.decisions, growth, growth / bench.pending);
        return;
    }
    printf("{\"mode\": \"answers\", \"proto\": %u, \"pending\": %lu, \"seconds\": %.3f, "
           "\"decisions\": %" PRIu64 ", \"failures\": %" PRIu64 ", \"decisions_per_s\": %.0f, "
           "\"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64 ", \"cpu_s\": %.3f, "
           "\"decider_cpu_s\": %.3f, \"rss_growth\": %zu}\n",
           bench.proto, bench.pending, seconds, bench.decisions, bench.failures,
           (double)bench.decisions / seconds, percentile_us(50), percentile_us(99), cpu,
           cpu_seconds(RUSAGE_CHILDREN), growth);
}

/* The decider's side. */

static void answer(const uint8_t *p, size_t n, bool mute, struct buf *out)
{
    const struct decider_verdict allow = {.action = DECIDER_ALLOW};
    struct peer_message m;
    const char *why = NULL;

    if (!peer_message_read(&m, p, n, &why))
        die(why);
    if (m.kind == PEER_HELLO)
        peer_hello_write(out, m.proto, DECIDER_CONNECTIONS | DECIDER_REQUESTS, NULL, 0, NULL, 0);
    else if (!mute)
        peer_verdict_write(out, m.id, &allow);
    peer_message_free(&m);
}

static int decide(bool mute)
{
    struct buf in, out;
    ssize_t n = 0;

    buf_init(&in, 2 * (FRAME_HEAD + FRAME_MAX));
    buf_init(&out, OUTPUT_MAX);
    do {
        size_t length;
        buf_commit(&in, (size_t)n);
        while (frame_next(buf_data(&in), buf_len(&in), FRAME_MAX, &length) == FRAME_OK) {
            answer(buf_data(&in) + FRAME_HEAD, length, mute, &out);
            buf_consume(&in, FRAME_HEAD + length);
        }
        if (!fd_write_all(STDOUT_FILENO, buf_data(&out), buf_len(&out)))
            break;
        buf_clear(&out);
        n = read(STDIN_FILENO, buf_reserve(&in, FRAME_MAX), FRAME_MAX);
    } while (n > 0);
    buf_free(&in);
    buf_free(&out);
    return 0;
}

__attribute__((noreturn)) static void usage(void)
{
    fputs("usage: bench-decide answers|hold [--pending N] [--seconds S] [--proto 1|2] [COMMAND]\n",
          stderr);
    exit(2);
}

static void take_options(int argc, char **argv)
{
    int i = 2;

    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--pending") == 0)
            bench.pending = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--proto") == 0)
            bench.proto = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else
            usage();
    }
    if (i < argc)
        bench.command = argv[i++];
    if (i != argc || bench.pending == 0 || bench.pending > PENDING_MAX || !(bench.seconds > 0) ||
        bench.proto < 1 || bench.proto > 2)
        usage();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "allow") == 0 || strcmp(mode, "mute") == 0)
        return decide(strcmp(mode, "mute") == 0);
    bench.hold = strcmp(mode, "hold") == 0;
    if (!bench.hold && strcmp(mode, "answers") != 0)
        usage();
    bench.pending = bench.hold ? 10000 : 64;
    bench.seconds = bench.hold ? 1 : 5;
    bench.command = bench.hold ? "/proc/self/exe mute" : "/proc/self/exe allow";
    take_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    bench.loop = ev_loop_new(EVFLAG_AUTO);
    run();
    report();
    ev_loop_destroy(bench.loop);
    free(bench.slots);
    return bench.failures != 0;
}
