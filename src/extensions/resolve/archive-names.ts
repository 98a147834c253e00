import { McpvalsError } from "../../core/errors/error.ts";

/**
 * Watches over the names that an archive has, on any system as strictly as on the strictest: they stay in their folder,
 * and no two of them are the same file where case does not count.
 */
export class ArchiveNames {
  readonly #archive: string;
  /** What is taken, by its name without case. */
  readonly #taken = new Map<string, { readonly path: string; readonly kind: "file" | "folder" }>();

  /** `archive` is what errors call it. */
  constructor(archive: string) {
    this.#archive = archive;
  }

  /** Takes a name; the result is the path without a slash at its end. Throws McpvalsError `extension/unsafe-archive`. */
  take(name: string, kind: "file" | "folder"): string {
    if (Buffer.byteLength(name) > longestName)
      throw unsafeArchive(this.#archive, `has the name ${show(name)}, which is too long`);
    const parts = (kind === "folder" ? name.replace(/\/+$/, "") : name).replace(/^(\.\/)+/, "").split("/");
    if (kind === "folder" && (parts.join("/") === "" || parts.join("/") === ".")) return "";
    const reason = parts.map((part) => problemOf(part)).find((problem) => problem !== undefined);
    if (reason !== undefined)
      throw unsafeArchive(this.#archive, `has the name ${show(name)}, which ${reason}`);
    for (let count = 1; count < parts.length; count += 1) {
      this.#claim(parts.slice(0, count).join("/"), "folder");
    }
    const path = parts.join("/");
    this.#claim(path, kind);
    return path;
  }

  #claim(path: string, kind: "file" | "folder"): void {
    const key = path.normalize("NFC").toLowerCase();
    const earlier = this.#taken.get(key);
    if (earlier === undefined) this.#taken.set(key, { path, kind });
    else if (earlier.path !== path || earlier.kind !== kind || kind === "file") {
      throw unsafeArchive(this.#archive, `has both ${show(earlier.path)} and ${show(path)}`);
    }
  }
}

/** Longest name and longest part of one, in bytes. The second is that of file systems. */
const longestName = 1024;
const longestPart = 255;

/** The error `extension/unsafe-archive`: `archive` and `fault` make a sentence. */
export function unsafeArchive(archive: string, fault: string, cause?: unknown): McpvalsError {
  return new McpvalsError("extension/unsafe-archive", `${archive} ${fault}. Nothing of it was kept.`, {
    cause,
  });
}

/** What is wrong with one part of a path, as the end of a sentence. */
function problemOf(part: string): string | undefined {
  if (part === "") return "is absolute or has an empty part";
  if (Buffer.byteLength(part) > longestPart) return "has a part that is too long";
  if (part === "." || part === "..") return "leads out of its folder";
  if (part.includes("\\")) return "has a backslash";
  if (part.includes(":")) return "has a colon, as a drive has";
  if (/\p{Cc}/u.test(part)) return "has a control character";
  if (/[. ]$/.test(part)) return "has a part that ends in a dot or a space";
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(part) ? "is a device on Windows" : undefined;
}

function show(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}

export function tooLarge(shown: string, mostBytes: number): McpvalsError {
  return unsafeArchive(shown, `unpacks to more than ${Math.round(mostBytes / 1024 ** 2)} MB`);
}
