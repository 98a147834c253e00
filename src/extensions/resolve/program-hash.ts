import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { hasCode } from "./file-errors.ts";

/** `sha256:HEX` of a program; undefined for one that may be run but not read. */
export async function programHash(path: string): Promise<string | undefined> {
  const sum = createHash("sha256");
  try {
    for await (const piece of createReadStream(path)) sum.update(piece as Buffer);
  } catch (error) {
    if (hasCode(error, "EACCES", "EPERM")) return undefined;
    throw error;
  }
  return `sha256:${sum.digest("hex")}`;
}
