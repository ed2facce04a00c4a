// The proxy of the npm package sandbox-runtime, alone, terminating TLS: for bench/tls.py.
// usage: node sandbox_runtime.mjs PACKAGE-DIRECTORY CA-CERTIFICATE CA-KEY PORT ALLOWED-HOST
import { pathToFileURL } from 'node:url';

const [directory, caCertPath, caKeyPath, port, allowed] = process.argv.slice(2);
const part = name => import(pathToFileURL(`${directory}/dist/sandbox/${name}.js`).href);
const { createHttpProxyServer } = await part('http-proxy');
const { createMitmCA } = await part('mitm-ca');

createHttpProxyServer({
    filter: async (_port, host) => host === allowed,
    mitmCA: createMitmCA({ caCertPath, caKeyPath }),
    maxTerminatedTunnels: 65536,
}).listen(Number(port), '127.0.0.1');
