// The program that answers in the network of a check of security: `node canary-host.js AUTHORITY`, an Authority as JSON.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Socket } from "node:net";
import { argv, stdin, stdout } from "node:process";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import {
  answerOf,
  canariesIn,
  canaryPort,
  metadataAddress,
  metadataNames,
  pageAddress,
  rebindingPrefix,
  type SentSecrets,
} from "./canaries.ts";
import { type Authority, certificateFor } from "../sandbox/certificates.ts";

const authority = JSON.parse(argv[2] ?? "") as Authority;

/** How much of a connection is searched for secrets, in bytes. */
const maxSentLength = 1024 ** 2;

/** How often the address of a name was asked for. */
const asked = new Map<string, number>();

/** The address of a name; one that begins as those do that change is an address of the internet only the first time. */
function addressOf(name: string): string {
  if (metadataNames.includes(name)) return metadataAddress;
  if (!name.startsWith(rebindingPrefix)) return pageAddress;
  const count = asked.get(name) ?? 0;
  asked.set(name, count + 1);
  return count === 0 ? pageAddress : "127.0.0.1";
}

/** Writes a line of JSON ({@link SentSecrets}) if a text that was sent to a host has planted secrets, and gives these. */
function report(target: string, text: string, known: readonly string[] = []): readonly string[] {
  const secrets = canariesIn(text).filter((place) => !known.includes(place));
  if (secrets.length > 0) stdout.write(`${JSON.stringify({ target, secrets } satisfies SentSecrets)}\n`);
  return secrets;
}

/** Answers a question of DNS: a name has one address of IPv4, which nobody keeps, and nothing else. Undefined: it is no question. */
function answerTo(question: Buffer): Buffer | undefined {
  const end = question.indexOf(0, 12);
  if (question.length < 17 || end < 0 || question.length < end + 5) return undefined;
  const labels: string[] = [];
  for (let at = 12; at < end; at += 1 + (question[at] ?? 0))
    labels.push(question.toString("latin1", at + 1, at + 1 + (question[at] ?? 0)));
  // A label has at most 63 characters, so that a longer text is in several.
  report(labels.join("."), `${labels.join(".")} ${labels.join("")}`);
  const isAddress = question.readUInt16BE(end + 1) === 1;
  // An answer, with authority, of a server that asks others; then how many questions, answers and other records there are.
  const head = Buffer.from([0x84, 0x80, 0, 1, 0, isAddress ? 1 : 0, 0, 0, 0, 0]);
  const parts = [question.subarray(0, 2), head, question.subarray(12, end + 5)];
  if (isAddress) {
    // The name of the question; an address of the internet; kept for 0 seconds; 4 bytes.
    const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4];
    const address = addressOf(labels.join(".").toLowerCase()).split(".").map(Number);
    parts.push(Buffer.from([...record, ...address]));
  }
  return Buffer.concat(parts);
}

const names = createSocket("udp4", (question, { address, port }) => {
  const answer = answerTo(question);
  if (answer !== undefined) names.send(answer, port, address);
}).bind(53);
await once(names, "listening");
names.unref();
const pages = createHttpServer((request, response) => {
  const { url = "", socket } = request;
  const { status, type, location, body } = answerOf(url, socket.localAddress ?? "");
  // A connection that is used again would show nothing.
  const headers = { "content-type": type, connection: "close" };
  response.writeHead(status, { ...headers, ...(location === undefined ? {} : { location }) });
  // Only when all was received, so that what it has in it is known before the answer is.
  request.resume().on("end", () => response.end(body));
});

/** Answers on a connection, and searches what is received. */
function answer(socket: Socket): void {
  // First, since Node keeps what a server of HTTP reads from those who listened before it.
  pages.emit("connection", socket);
  let text = "";
  const known: string[] = [];
  socket.on("data", (bytes) => {
    if (text.length >= maxSentLength) return;
    text += bytes.toString("latin1");
    const host = /^host: *(\S+)/im.exec(text)?.[1] ?? `${socket.localAddress}:${socket.localPort}`;
    known.push(...report(host, text, known));
  });
}

const contexts = new Map<string, SecureContext>();

function contextFor(host: string): SecureContext {
  const known = contexts.get(host);
  if (known !== undefined) return known;
  const context = createSecureContext({ key: authority.key, cert: certificateFor(host, authority) });
  contexts.set(host, context);
  return context;
}

/** The same with TLS, with a certificate of the authority for the host that is asked for. */
function answerSecurely(socket: Socket): void {
  const address = (socket.localAddress ?? "").replace(/^::ffff:/, "");
  const secure = new TLSSocket(socket, {
    isServer: true,
    secureContext: contextFor(address),
    SNICallback: (host, done) => done(null, contextFor(host)),
  });
  // Clients that do not trust it, or speak no TLS.
  secure.on("error", () => secure.destroy());
  answer(secure);
}

for (const [port, serve] of [
  [80, answer],
  [canaryPort, answer],
  [443, answerSecurely],
] as const) {
  const server = createServer(serve).listen(port);
  await once(server, "listening");
  server.unref();
}
// It ends with its stdin: the sockets do not keep it alive.
stdin.resume();
stdout.write(`${process.pid}\n`);
