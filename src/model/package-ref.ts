import { withoutUndefined } from "../base/json.ts";
import type { ParseResult } from "../base/problem.ts";

/** Where an extension comes from. `name` is the package without its version, as `allowedSources` are matched with it. */
export type PackageRef =
  /** `github.com/OWNER/REPO[@VERSION]`, also with `https://` before it. `version` is `latest` when none is written. */
  | {
      readonly kind: "release";
      readonly name: string;
      readonly owner: string;
      readonly repo: string;
      readonly version: string;
    }
  /** `npm:NAME[@VERSION]`: an installed package; the version may be a range. */
  | { readonly kind: "npm"; readonly name: string; readonly package: string; readonly version?: string }
  /** A file or a folder: `./P`, `../P`, `/P`, `~/P`, `file://P`, or any other text with a slash in it. */
  | { readonly kind: "path"; readonly name: string; readonly path: string }
  /** `mcpvals:NAME`: one that comes with mcpvals itself. */
  | { readonly kind: "bundled"; readonly name: string; readonly extension: string };

export type ParsedPackageRef = ParseResult<
  { readonly ref: PackageRef },
  { readonly message: string; readonly hint: string }
>;

/** Reads what names an extension's package. Nothing is looked up: a path need not exist. */
export function parsePackageRef(text: string): ParsedPackageRef {
  if (text.trim() === "" || text !== text.trim() || hasControlCharacters(text)) {
    return refused(text, "is not a valid package", writings);
  }
  if (text.startsWith("mcpvals:")) return bundled(text);
  if (text.startsWith("npm:")) return npm(text);
  if (/^(?:https?:\/\/)?(?:www\.)?github\.com(?:$|[/:@])/i.test(text)) return release(text);
  if (/^file:/i.test(text)) return file(text);
  if (/^[A-Za-z][\w+.-]*:\/\//.test(text)) return refused(text, "is an address of an unknown kind", writings);
  if (isPath(text)) return { ok: true, ref: { kind: "path", name: text, path: text } };
  return refused(text, "is not a valid package", writings);
}

const writings =
  "Write github.com/ORG/REPO@VERSION, npm:NAME@VERSION, mcpvals:NAME, or a path such as ./NAME.";

function refused(text: string, what: string, hint: string): ParsedPackageRef {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return { ok: false, message: `${JSON.stringify(shown)} ${what}`, hint };
}

function bundled(text: string): ParsedPackageRef {
  const extension = text.slice("mcpvals:".length);
  if (/^[a-z][a-z0-9-]*$/.test(extension)) {
    return { ok: true, ref: { kind: "bundled", name: text, extension } };
  }
  if (/^[a-z][a-z0-9-]*@/.test(extension)) {
    return refused(
      text,
      "has a version",
      "What comes with mcpvals has the version of mcpvals: leave it out.",
    );
  }
  return refused(text, "is not an extension of mcpvals", "Write mcpvals:NAME, with small letters.");
}

/** Names as npm takes them for new packages. */
const npmName = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/;

function npm(text: string): ParsedPackageRef {
  const written = text.slice("npm:".length);
  const at = written.indexOf("@", 1);
  const [name, version] = at === -1 ? [written] : [written.slice(0, at), written.slice(at + 1)];
  if (!npmName.test(name)) return refused(text, "is not a valid npm package", "Write npm:NAME@VERSION.");
  if (version !== undefined && !/^[\w+~^<>=*| -][\w.+~^<>=*| -]*$/.test(version)) {
    return refused(text, "has no version after the @", "Write a version or a range of npm.");
  }
  return {
    ok: true,
    ref: { kind: "npm", name: `npm:${name}`, package: name, ...withoutUndefined({ version }) },
  };
}

function release(text: string): ParsedPackageRef {
  const hint = "Write github.com/ORG/REPO@VERSION.";
  const match = /^(?:https:\/\/)?github\.com\/(.*)$/s.exec(text);
  if (match === null) return refused(text, "is not a valid GitHub repository", hint);
  const [name = "", version = "latest"] = (match[1] ?? "").split(/@(.*)/s);
  const [owner = "", repo = "", ...rest] = name.split("/");
  const isName = /^[A-Za-z0-9][A-Za-z0-9-]*$/.test(owner) && /^[\w-][\w.-]*$/.test(repo);
  if (!isName || rest.length > 0 || /\.git$/i.test(repo)) {
    return refused(text, "does not name one repository", hint);
  }
  if (!/^[\w][\w.+-]*$/.test(version)) return refused(text, "has no version after the @", hint);
  return { ok: true, ref: { kind: "release", name: `github.com/${owner}/${repo}`, owner, repo, version } };
}

function file(text: string): ParsedPackageRef {
  const path = /^file:\/\/(.+)$/is.exec(text)?.[1];
  if (path === undefined) return refused(text, "names no file", "Write file://PATH, or the path alone.");
  return { ok: true, ref: { kind: "path", name: path, path } };
}

function isPath(text: string): boolean {
  return /[/\\]/.test(text) || text === "." || text === ".." || text === "~";
}

function hasControlCharacters(text: string): boolean {
  return /\p{Cc}/u.test(text);
}
