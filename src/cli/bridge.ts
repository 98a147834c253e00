import { request, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { environment } from "../formats/environment.ts";
import { codeOf, messageOf } from "../base/error.ts";

/**
 * `mcpvals bridge`: connects stdin and stdout with the gateway, for agents that only start programs. Bytes are passed on
 * unchanged until either side ends. Returns the exit code: 0 at the end of either side, 2 without an address, 3 when the
 * gateway is gone or refuses. It loads hardly more than Node, since an agent waits for it.
 */
export async function bridge(args: readonly string[]): Promise<number> {
  const [first, ...rest] = args;
  if (first === "--help" || first === "-h") return say(usage, 0);
  const url = first ?? environment()["MCPVALS_BRIDGE_URL"];
  if (url === undefined || rest.length > 0 || !URL.canParse(url)) return say(usage, 2);
  try {
    const { socket, head } = await connect(url);
    return await join(socket, head);
  } catch (error) {
    return say(`mcpvals bridge: ${reasonOf(error)}\n`, 3);
  }
}

const usage = `Usage: mcpvals bridge [URL]

Joins stdin and stdout with the gateway of a running mcpvals. A trial's agent is told to start it; URL is that of
MCPVALS_BRIDGE_URL unless given.
`;

function say(text: string, code: number): number {
  (code === 0 ? process.stdout : process.stderr).write(text);
  return code;
}

interface Connected {
  readonly socket: Duplex;
  /** Bytes that came with the response. */
  readonly head: Buffer;
}

function connect(url: string): Promise<Connected> {
  const headers = { connection: "Upgrade", upgrade: "mcpvals-bridge" };
  return new Promise((resolve, reject) => {
    const opening = request(url, { headers, agent: false });
    opening.once("upgrade", (_, socket, head) => resolve({ socket, head }));
    opening.once("response", (response: IncomingMessage) => {
      response.resume();
      reject(
        new Error(`the gateway refused (HTTP ${response.statusCode}); the trial that it was for has ended`),
      );
    });
    opening.once("error", reject);
    opening.end();
  });
}

/** Settles when either side has ended and everything from the gateway is written. */
function join(socket: Duplex, head: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const { stdin, stdout } = process;
    stdout.write(head);
    stdin.pipe(socket);
    socket.pipe(stdout, { end: false });
    // The callback runs when earlier writes are flushed.
    socket.once("close", () => stdout.write("", () => resolve(0)));
    socket.once("error", (error) => reject(error));
    // The agent no longer reads.
    stdout.once("error", () => {
      socket.destroy();
      resolve(0);
    });
  });
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (code === "ECONNREFUSED" || code === "ECONNRESET" || code === "EPIPE")
    return `the gateway is gone (${code}); the run that it belongs to has ended`;
  return messageOf(error);
}
