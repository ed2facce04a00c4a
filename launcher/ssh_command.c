#include "launcher/ssh_command.h"

#include <string.h>

static const char start[] = "ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand='";

enum word_kind {
    WORD_BARE,   /* nothing a shell looks at */
    WORD_QUOTED, /* comes through in double quotes */
    WORD_UNSAFE
};

/* What is left as it is inside '"..."' by POSIX shells, csh and fish alike. */
static enum word_kind classify(const char *word)
{
    static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_./:@+,-%";
    if (word[0] == 0)
        return WORD_UNSAFE;
    for (const char *c = word; *c != 0; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F || strchr("'\"\\$`!", *c) != NULL)
            return WORD_UNSAFE;
    return word[strspn(word, bare)] == 0 ? WORD_BARE : WORD_QUOTED;
}

/* ssh replaces %h, %p and others; "%%" is a percent sign. */
static void put_word(struct buf *out, const char *word)
{
    bool quoted = classify(word) == WORD_QUOTED;
    if (quoted)
        buf_puts(out, "\"");
    for (; *word != 0; word++) {
        if (*word == '%')
            buf_puts(out, "%");
        buf_append(out, word, 1);
    }
    if (quoted)
        buf_puts(out, "\"");
}

bool ssh_command_connector(struct buf *out, const char *path)
{
    if (path[0] != '/' || classify(path) == WORD_UNSAFE)
        return false;
    buf_puts(out, start);
    put_word(out, path);
    buf_puts(out, " connect %h %p'");
    return true;
}

void ssh_command_socat(struct buf *out, const char *socat, const char *user, const char *token)
{
    buf_puts(out, start);
    put_word(out, socat != NULL && classify(socat) != WORD_UNSAFE ? socat : "socat");
    buf_puts(out, " - PROXY:localhost:%h:%p,proxyport=3128");
    if (token != NULL)
        buf_printf(out, ",proxyauth=%s:%s", user, token);
    buf_puts(out, "'");
}
