import { DatabaseError as ServerError } from "pg";
import { DatabaseError, type DatabaseErrorKind } from "./database.ts";

/**
 * By the beginning of PostgreSQL's code: the longest that fits counts. What is none of these depends on what the tables
 * have, and is `refused`.
 */
const kinds: Readonly<Record<string, DatabaseErrorKind>> = {
  "08": "environment",
  "0A": "statement",
  "25": "environment",
  "25001": "statement",
  "25006": "statement",
  "28": "environment",
  "34": "statement",
  "3D": "environment",
  "3F000": "missing",
  "40": "environment",
  "42501": "environment",
  "42601": "statement",
  "42602": "statement",
  "42622": "statement",
  "42883": "missing",
  "42939": "statement",
  "42703": "missing",
  "42704": "missing",
  "42P01": "missing",
  "42P02": "statement",
  "42P18": "statement",
  "53": "environment",
  "54": "statement",
  "55P03": "environment",
  "57": "environment",
  "58": "environment",
  F0: "environment",
  XX: "environment",
};

/** What `pg` threw, as a DatabaseError. */
export function postgresError(error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error;
  if (!(error instanceof ServerError)) {
    return new DatabaseError("environment", lostText(error), { cause: error });
  }
  return new DatabaseError(kindOf(error.code ?? ""), textOf(error), { cause: error });
}

function kindOf(code: string): DatabaseErrorKind {
  if (code === "08P01") return "statement";
  return kinds[code] ?? kinds[code.slice(0, 2)] ?? "refused";
}

function textOf({ message, detail, hint }: ServerError): string {
  return [message, detail, hint].filter((part) => part !== undefined && part !== "").join(". ");
}

/** A connection can fail at several addresses at once, and then the message is empty. */
function lostText(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(lostText))].join(", ");
  return error instanceof Error ? error.message || error.name : String(error);
}
