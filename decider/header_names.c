#include "decider/header_names.h"

#include <string.h>

#include "decider/message.h"

/* clang-format off */
const unsigned char header_name_lower[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&',
    ['\''] = '\'', ['*'] = '*', ['+'] = '+', ['-'] = '-', ['.'] = '.',
    ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4',
    ['5'] = '5', ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9',
    ['A'] = 'a', ['B'] = 'b', ['C'] = 'c', ['D'] = 'd', ['E'] = 'e',
    ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i', ['J'] = 'j',
    ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o',
    ['P'] = 'p', ['Q'] = 'q', ['R'] = 'r', ['S'] = 's', ['T'] = 't',
    ['U'] = 'u', ['V'] = 'v', ['W'] = 'w', ['X'] = 'x', ['Y'] = 'y',
    ['Z'] = 'z', ['^'] = '^', ['_'] = '_', ['`'] = '`', ['a'] = 'a',
    ['b'] = 'b', ['c'] = 'c', ['d'] = 'd', ['e'] = 'e', ['f'] = 'f',
    ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k',
    ['l'] = 'l', ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p',
    ['q'] = 'q', ['r'] = 'r', ['s'] = 's', ['t'] = 't', ['u'] = 'u',
    ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y', ['z'] = 'z',
    ['|'] = '|', ['~'] = '~',
};
/* clang-format on */

/* Framing and hop-by-hop: what a message is and how far it goes is the proxy's to say. */
static const char *const FRAMING[] = {"host",       "content-length", "transfer-encoding",
                                      "connection", "upgrade",        "te",
                                      "trailer",    "keep-alive",     "proxy-connection"};
/* Where credentials travel: only a credential is placed there. */
static const char *const CREDENTIALS[] = {"authorization", "proxy-authorization", "cookie",
                                          "x-api-key"};

bool header_name_is_lower(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == 0 || header_name_lower[c] != c)
            return false;
    }
    return n != 0;
}

static char folded(char c)
{
    unsigned char lower = header_name_lower[(unsigned char)c];
    return lower == '_' || lower == '.' ? '-' : (char)lower;
}

static bool is_spelling_of(const char *name, const char *header)
{
    while (*header != 0 && folded(*name) == *header) {
        name++;
        header++;
    }
    return *header == 0 && *name == 0;
}

static bool is_one_of(const char *name, const char *const *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_spelling_of(name, headers[i]))
            return true;
    return false;
}

bool header_may_be_removed(const char *name)
{
    return !is_one_of(name, FRAMING, sizeof FRAMING / sizeof FRAMING[0]);
}

bool header_may_be_set(const char *name)
{
    return header_may_be_removed(name) &&
           !is_one_of(name, CREDENTIALS, sizeof CREDENTIALS / sizeof CREDENTIALS[0]);
}
