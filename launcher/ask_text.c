#include "launcher/ask_text.h"

#include <string.h>

#include "base/text.h"

static const struct {
    const char *letter, *word;
    bool allow, for_run, quit;
} answers[] = {
    {"o", "once", true, false, false},  {"r", "run", true, true, false},
    {"d", "deny", false, false, false}, {"n", "never", false, true, false},
    {"q", "quit", false, false, true},
};

const char ask_text_prompt[] = " - o, r, d, n or q? ";

/* A terminal obeys more than the control characters of ASCII: nothing else gets through. */
static void put_printable(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i] >= 0x20 && s[i] < 0x7F ? s[i] : '?';
        buf_append(out, &c, 1);
    }
}

/* On one line: what parts it into several is a blank. */
static void put_command(struct buf *out, const char *command)
{
    size_t n = strlen(command);
    size_t shown = n < ASK_COMMAND_SHOWN ? n : ASK_COMMAND_SHOWN;

    buf_puts(out, "     asked by: ");
    for (size_t i = 0; i < shown; i++) {
        bool blank = command[i] == '\n' || command[i] == '\r' || command[i] == '\t';
        put_printable(out, blank ? " " : command + i, 1);
    }
    buf_puts(out, shown < n ? "...\n" : "\n");
}

void ask_text_again(struct buf *out, const char *via, const char *host, uint16_t port)
{
    bool bracketed = strchr(host, ':') != NULL;

    buf_puts(out, bracketed ? "srt: [" : "srt: ");
    put_printable(out, host, strlen(host));
    buf_printf(out, bracketed ? "]:%u (" : ":%u (", (unsigned)port);
    put_printable(out, via, strlen(via));
    buf_puts(out, ")");
}

void ask_text_question(struct buf *out, const struct ask_text *t)
{
    buf_puts(out, "srt: no rule decides about this destination. May it be reached?\n"
                  "     o: once   r: for this run   d [reason]: no   n [reason]: not in this run\n"
                  "     q: no to everything, and end the command\n");
    put_command(out, t->command);
    if (t->waiting > 1)
        buf_printf(out, "     waiting: %zu connections, %zu of them for this answer\n", t->waiting,
                   t->waiting_here);
    if (t->hint != NULL)
        buf_printf(out, "     note: %s\n", t->hint);
    ask_text_again(out, t->via, t->host, t->port);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool equals(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

static void take_reason(const char *p, size_t n, struct buf *reason)
{
    struct buf clean;
    buf_init(&clean, 3 * n + 1);
    text_clean_reason(&clean, p, n);
    size_t len = buf_len(&clean);
    if (len > ASK_REASON_BYTES_MAX) {
        len = ASK_REASON_BYTES_MAX;
        while (len > 0 && (buf_data(&clean)[len] & 0xC0) == 0x80)
            len--;
    }
    buf_append(reason, buf_data(&clean), len);
    buf_free(&clean);
}

struct ask_answer ask_text_parse(const char *line, size_t n, struct buf *reason)
{
    while (n > 0 && is_blank(line[n - 1]))
        n--;
    while (n > 0 && is_blank(line[0])) {
        line++;
        n--;
    }
    size_t word = 0;
    while (word < n && !is_blank(line[word]))
        word++;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (!equals(line, word, answers[i].letter) && !equals(line, word, answers[i].word))
            continue;
        /* A yes, or an end, with anything behind it may be meant otherwise. */
        if ((answers[i].allow || answers[i].quit) && word != n)
            break;
        if (word != n)
            take_reason(line + word, n - word, reason);
        return (struct ask_answer){.clear = true,
                                   .allow = answers[i].allow,
                                   .for_run = answers[i].for_run,
                                   .quit = answers[i].quit};
    }
    return (struct ask_answer){0};
}
