import { join } from "node:path";
import { root } from "./cli.ts";

/** How a server that attacks is started; see the head of its program for what it can do. */
export interface HostileServer {
  readonly transport: "stdio";
  readonly command: string;
  readonly args: string[];
}

/** A server over stdio that attacks as told. */
export function hostileServer(...attack: readonly string[]): HostileServer {
  const program = join(root, "test/fixtures/servers/hostile-server.mjs");
  return { transport: "stdio", command: process.execPath, args: [program, ...attack] };
}
