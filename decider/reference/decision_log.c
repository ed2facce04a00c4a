#include "decider/reference/decision_log.h"

#include <string.h>
#include <time.h>

#include "base/text.h"

/* {"time":"2026-01-02T03:04:05.678Z" */
static void put_time(struct buf *out, double now)
{
    int64_t ms = (int64_t)(now * 1000 + 0.5);
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};

    gmtime_r(&seconds, &tm);
    buf_printf(out, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", tm.tm_year + 1900,
               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

/* key: with its quotes, and what goes before and behind. */
static void put_text(struct buf *out, const char *key, const char *s, size_t n, size_t max)
{
    buf_puts(out, key);
    text_json(out, s, text_cut(s, n, max));
}

static void put_line(struct buf *out, double now, const struct logged_question *q,
                     const struct rule_decision *decision)
{
    bool allow = decision->verdict->action == DECIDER_ALLOW;

    put_time(out, now);
    buf_printf(out, ",\"id\":%lld,\"kind\":\"%s\"", (long long)q->id,
               q->connection ? "connection" : "request");
    put_text(out, q->connection ? ",\"via\":" : ",\"method\":", q->how, strlen(q->how),
             LOGGED_METHOD_MAX);
    put_text(out, ",\"host\":", q->host, strlen(q->host), LOGGED_PATH_MAX);
    buf_printf(out, ",\"port\":%u", q->port);
    if (q->path != NULL) /* a fragment is as private as a query */
        put_text(out, ",\"path\":", q->path, strcspn(q->path, "#"), LOGGED_PATH_MAX);
    buf_puts(out, allow ? ",\"action\":\"allow\"" : ",\"action\":\"deny\"");
    if (!allow)
        buf_printf(out, ",\"status\":%u", decision->verdict->status);
    if (decision->rule >= 0)
        buf_printf(out, ",\"rule\":%ld}\n", decision->rule);
    else
        buf_puts(out, ",\"rule\":null}\n");
}

void decision_log(struct line_log *log, double now, const struct logged_question *q,
                  const struct rule_decision *decision)
{
    struct buf *line = line_log_line(log);
    if (line == NULL)
        return;
    put_line(line, now, q, decision);
    line_log_put(log);
}
