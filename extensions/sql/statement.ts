import { readFile, realpath } from "node:fs/promises";
import { resolve } from "node:path";
import * as z from "zod";
import {
  EnvironmentError,
  type Json,
  OperationFailed,
  type OperationRun,
} from "../../src/extensions/sdk/index.ts";
import type { Connections } from "./connections.ts";
import { type Database, DatabaseError, insideOf, type Limits, withoutBlank } from "./database.ts";

/** Any JSON value as an argument; what reaches an extension is JSON already. */
export const jsonArgument = z.unknown().transform((value) => value as Json);

/** Arguments that all operations have. */
export const statementArgs = {
  sql: z.string().optional().describe("The SQL."),
  file: z.string().optional().describe("An SQL file in the task's folder or the trial's workspace."),
  params: z.array(jsonArgument).optional().describe("Values of $1, $2 and so on. Bytes are {base64: TEXT}."),
  connection: z.string().optional().describe("Name of a database of the config."),
  url: z.string().optional().describe("Address of a database, instead of a connection of the config."),
};

/** What JSON Schema says beside the arguments: one text of SQL, and one database at most. */
export const statementRules = [
  { oneOf: [{ required: ["sql"] }, { required: ["file"] }] },
  { not: { required: ["connection", "url"] } },
] as const;

export interface StatementArgs {
  readonly sql?: string | undefined;
  readonly file?: string | undefined;
  readonly params?: readonly Json[] | undefined;
  readonly connection?: string | undefined;
  readonly url?: string | undefined;
}

/** What an operation works with. */
export interface Prepared {
  readonly database: Database;
  readonly sql: string;
  readonly params: readonly Json[];
  readonly limits: Limits;
}

/**
 * Does something with the database that the arguments name. What the agent can be the reason of becomes OperationFailed:
 * a table that is missing, rows that do not allow it. All else becomes EnvironmentError: no connection, SQL that nobody
 * could run.
 */
export async function withStatement<T>(
  args: StatementArgs,
  context: OperationRun<Connections>,
  work: (prepared: Prepared) => Promise<T>,
): Promise<T> {
  const limits = { signal: context.signal, deadline: performance.now() + context.timeoutMs };
  try {
    if (args.connection !== undefined && args.url !== undefined) {
      throw new EnvironmentError("connection and url exclude each other");
    }
    const sql = await sqlOf(args, context);
    const database = context.resources.database(args, context.workdir);
    return await work({ database, sql, params: args.params ?? [], limits });
  } catch (error) {
    throw told(error);
  }
}

function told(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error;
  const { kind, message } = error;
  switch (kind) {
    case "environment":
    case "statement":
      return new EnvironmentError(message, { cause: error.cause });
    case "missing":
    case "refused":
      return new OperationFailed(message, { cause: error });
  }
}

async function sqlOf({ sql, file }: StatementArgs, context: OperationRun<Connections>): Promise<string> {
  if ((sql === undefined) === (file === undefined)) throw new EnvironmentError("give either sql or file");
  const text = sql ?? (await readSql(file ?? "", context));
  if (text.includes("\0")) throw new EnvironmentError("the SQL has a NUL character");
  if (withoutBlank(text) === "") throw new EnvironmentError("there is no statement in the SQL");
  return text;
}

async function readSql(file: string, { workdir, workspace }: OperationRun<Connections>): Promise<string> {
  const path = await real(resolve(workdir, file), file);
  const folders = await Promise.all([workdir, workspace].map((folder) => real(folder, folder)));
  if (!folders.some((folder) => insideOf(folder, path))) {
    throw new EnvironmentError(`${file} is neither in the task's folder nor in the workspace`);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (cause) {
    throw new EnvironmentError(`cannot read ${file}`, { cause });
  }
}

async function real(path: string, name: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (cause) {
    throw new EnvironmentError(`there is no ${name}`, { cause });
  }
}
