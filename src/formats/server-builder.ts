import { resolve } from "node:path";
import { buildServer, type BuildServer, type ServerLifetime } from "../model/server.ts";
import { completeStdio, type LoadContext } from "./environment.ts";

const startupTimeoutMs = 30_000;

/** Creates the function that builds the servers of files in a folder. */
export function serverBuilder({
  dir,
  loadContext: { environment, overrides },
  lifetime,
}: {
  readonly dir: string;
  readonly loadContext: LoadContext;
  readonly lifetime?: ServerLifetime | undefined;
}): BuildServer {
  return (name, server) =>
    buildServer(name, server, {
      startupTimeoutMs,
      lifetime,
      resolvePath: (path) => resolve(dir, path),
      completeStdio: (stdio) => completeStdio(stdio, { dir, environment, overrides }),
    });
}
