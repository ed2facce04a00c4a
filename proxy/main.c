/* srt: one program, several faces. */
#include <stdio.h>
#include <string.h>

#include "proxy/check.h"
#include "proxy/gateway.h"

static const char usage[] = "usage: srt proxy --settings FILE [--listen HOST:PORT]...\n"
                            "       srt check [--settings FILE] [HOST:PORT]...\n"
                            "       srt --version | --help\n"
                            "See srt(1), srt-proxy(8), srt-settings(5).\n";

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(base_name(argv[0]), "srt-proxy") == 0)
        return gateway_main(argc, argv);
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[1], "proxy") == 0)
        return gateway_main(argc - 1, argv + 1);
    if (strcmp(argv[1], "check") == 0)
        return check_main(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        puts("srt " SRT_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    fprintf(stderr, "srt: unknown command %s\n%s", argv[1], usage);
    return 2;
}
