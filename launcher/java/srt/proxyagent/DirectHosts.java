package srt.proxyagent;

import java.util.Collection;
import java.util.LinkedHashSet;

/** NO_PROXY in the words of http.nonProxyHosts: names with a * at the start or the end. */
final class DirectHosts {
    /** What a JVM has when the property is not set. */
    private static final String[] ALWAYS = {"localhost", "127.*", "[::1]", "0.0.0.0", "[::0]"};

    private DirectHosts() {
    }

    static String fromNoProxy(String list) {
        Collection<String> hosts = new LinkedHashSet<String>();
        for (String host : ALWAYS) {
            hosts.add(host);
        }
        for (String part : list.split("[,\\s]+")) {
            if (!part.isEmpty()) {
                add(hosts, part);
            }
        }
        return String.join("|", hosts);
    }

    /** What the property cannot say (a port, a block of IPv6) is left to the proxy. */
    private static void add(Collection<String> hosts, String entry) {
        int slash = entry.indexOf('/');
        if (slash >= 0) {
            addBlock(hosts, entry.substring(0, slash), entry.substring(slash + 1));
        } else if (entry.startsWith("[") && entry.endsWith("]")) {
            hosts.add(entry);
        } else if (entry.indexOf(':') != entry.lastIndexOf(':')) {
            hosts.add("[" + entry + "]");
        } else if (entry.startsWith(".") && entry.indexOf(':') < 0) {
            hosts.add("*" + entry);
        } else if (entry.indexOf(':') < 0) {
            hosts.add(entry);
        }
    }

    /** An IPv4 block as one pattern for each value of its last octet that counts. */
    private static void addBlock(Collection<String> hosts, String address, String prefix) {
        int[] octets = octets(address);
        int bits = number(prefix, 32);
        if (octets == null || bits < 0) {
            return;
        }
        if (bits == 0) {
            hosts.add("*");
            return;
        }
        int last = (bits - 1) / 8;
        StringBuilder stem = new StringBuilder();
        for (int i = 0; i < last; i++) {
            stem.append(octets[i]).append('.');
        }
        int count = 1 << (8 * (last + 1) - bits);
        int first = octets[last] & -count;
        for (int value = first; value < first + count; value++) {
            hosts.add(stem.toString() + value + (last < 3 ? ".*" : ""));
        }
    }

    private static int[] octets(String address) {
        String[] parts = address.split("\\.", -1);
        int[] octets = new int[4];
        if (parts.length != 4) {
            return null;
        }
        for (int i = 0; i < 4; i++) {
            octets[i] = number(parts[i], 255);
            if (octets[i] < 0) {
                return null;
            }
        }
        return octets;
    }

    /** -1 when it is no number from 0 to most. */
    private static int number(String text, int most) {
        if (!text.matches("[0-9]{1,3}")) {
            return -1;
        }
        int value = Integer.parseInt(text);
        return value <= most ? value : -1;
    }
}
