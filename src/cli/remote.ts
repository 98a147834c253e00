import { McpvalsError } from "../base/error.ts";
import { exact } from "../base/json.ts";
import { environment } from "../formats/environment.ts";
import { visibleText } from "../base/visible-text.ts";
import { workingFolder, writeError } from "./terminal.ts";

/** The variable with the address of the database of runs. */
const databaseVariable = "MCPVALS_DATABASE_URL";

/** A run in a database. */
export interface RemoteName {
  /** Address of the database. */
  readonly url: string;
  /** Its id, the start of it, or `latest`. */
  readonly run: string;
}

/** Reads `postgres://…#RUN`; undefined for anything else. */
export function remoteName(name: string): RemoteName | undefined {
  if (!/^postgres(?:ql)?:\/\//i.test(name)) return undefined;
  const [url = "", run = ""] = name.split("#");
  return { url, run: run === "" ? "latest" : run };
}

/** The address of the database: the one that is given, else that of the environment. Throws `usage/invalid-option` without one. */
export function databaseUrl(given: string | undefined): string {
  const url = given ?? environment()[databaseVariable] ?? "";
  if (url !== "") return url;
  throw new McpvalsError("usage/invalid-option", "no database is named", {
    hint: `Name one: postgres://USER:PASSWORD@HOST:PORT/DATABASE, or set ${databaseVariable}.`,
  });
}

/** The command that follows a run of a database from here, and from anywhere else; without its password. */
export function attachCommand(url: string, run: string): string {
  if (environment()[databaseVariable] === url) return `npx mcpvals attach ${run}`;
  const shown = new URL(url);
  const secret = "PASSWORD";
  if (shown.password !== "") shown.password = secret;
  if (shown.searchParams.has("password")) shown.searchParams.set("password", secret);
  shown.hash = run;
  return `npx mcpvals attach '${shown.href}'`;
}

/** The name of a run on this machine. One of a database is brought here first. Throws as `bringRun`. */
export async function localRun(name: string, output: string | undefined): Promise<string> {
  const remote = remoteName(name);
  if (remote === undefined) return name;
  const { bringRun } = await import("../run/remote/coordinator.ts");
  return bringRun(remote.url, remote.run, { cwd: workingFolder(), ...exact({ output }), onNote: writeNote });
}

export function writeNote(note: string): void {
  writeError(visibleText(`note: ${note}`));
}
