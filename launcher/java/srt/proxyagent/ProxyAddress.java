package srt.proxyagent;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** A proxy as a variable names it: [http://][user[:password]@]host[:port][/]. */
final class ProxyAddress {
    private static final int DEFAULT_PORT = 80;

    /** Without brackets, if it is an IPv6 address. */
    final String host;
    final int port;
    /** Null when the address holds no credential. */
    final String user;
    final String password;

    private ProxyAddress(String host, int port, String user, String password) {
        this.host = host;
        this.port = port;
        this.user = user;
        this.password = password;
    }

    /** An IllegalArgumentException says what is wrong, without repeating the text. */
    static ProxyAddress parse(String text) {
        String rest = authority(text);
        String user = null;
        String password = null;
        int at = rest.lastIndexOf('@');
        if (at >= 0) {
            String credential = rest.substring(0, at);
            rest = rest.substring(at + 1);
            int colon = credential.indexOf(':');
            user = decode(colon < 0 ? credential : credential.substring(0, colon));
            password = colon < 0 ? "" : decode(credential.substring(colon + 1));
        }
        int end = endOfHost(rest);
        String host = rest.substring(0, end);
        if (host.startsWith("[")) {
            host = host.substring(1, host.length() - 1);
        }
        if (host.isEmpty() || hasSpace(host)) {
            throw new IllegalArgumentException("no host in the proxy's URL");
        }
        return new ProxyAddress(host, port(rest.substring(end)), user, password);
    }

    private static String authority(String text) {
        int scheme = text.indexOf("://");
        String rest = text;
        if (scheme >= 0) {
            if (!text.substring(0, scheme).toLowerCase(Locale.ROOT).equals("http")) {
                throw new IllegalArgumentException("the proxy's URL is not of scheme http");
            }
            rest = text.substring(scheme + 3);
        }
        for (int i = 0; i < rest.length(); i++) {
            if ("/?#".indexOf(rest.charAt(i)) >= 0) {
                return rest.substring(0, i);
            }
        }
        return rest;
    }

    private static int endOfHost(String text) {
        if (text.startsWith("[")) {
            int bracket = text.indexOf(']');
            if (bracket < 0) {
                throw new IllegalArgumentException("an unclosed [ in the proxy's URL");
            }
            return bracket + 1;
        }
        int colon = text.indexOf(':');
        return colon < 0 ? text.length() : colon;
    }

    /** What stands behind the host: nothing, or a colon and digits. */
    private static int port(String text) {
        if (text.isEmpty() || text.equals(":")) {
            return DEFAULT_PORT;
        }
        int port = 0;
        for (int i = 1; i < text.length() && port <= 65535; i++) {
            char c = text.charAt(i);
            port = c < '0' || c > '9' ? 65536 : port * 10 + (c - '0');
        }
        if (text.charAt(0) != ':' || port < 1 || port > 65535) {
            throw new IllegalArgumentException("no valid port in the proxy's URL");
        }
        return port;
    }

    private static boolean hasSpace(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) <= ' ') {
                return true;
            }
        }
        return false;
    }

    /** Percent-decoded; a per cent sign without two hexadecimal digits is itself. */
    private static String decode(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length);
        for (int i = 0; i < bytes.length; i++) {
            int high = bytes[i] == '%' && i + 2 < bytes.length ? hexDigit(bytes[i + 1]) : -1;
            int low = high >= 0 ? hexDigit(bytes[i + 2]) : -1;
            if (low >= 0) {
                out.write(high << 4 | low);
                i += 2;
            } else {
                out.write(bytes[i]);
            }
        }
        return new String(out.toByteArray(), StandardCharsets.UTF_8);
    }

    private static int hexDigit(byte b) {
        return b < 0 ? -1 : Character.digit((char) b, 16);
    }
}
