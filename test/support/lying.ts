import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { root } from "./cli.ts";

const program = join(root, "test/fixtures/servers/lying-server.mjs");

export interface LyingServer {
  readonly transport: "stdio";
  readonly command: string;
  readonly args: string[];
}

/** A server over stdio that lies; see its program for how. */
export function lyingServer(lie: string): LyingServer {
  return { transport: "stdio", command: process.execPath, args: [program, lie] };
}

export interface HttpLyingServer extends AsyncDisposable {
  /** At `events` it answers with a stream of events, elsewhere with JSON. */
  at(path: string): { readonly transport: "shttp"; readonly url: string };
}

/** The same over Streamable HTTP, on loopback. */
export async function lyingServerOverHttp(lie: string): Promise<HttpLyingServer> {
  const child = spawn(process.execPath, [program, lie, "http"], { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  return {
    at: (path) => ({ transport: "shttp", url: `http://127.0.0.1:${String(port).trim()}/${path}` }),
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}
