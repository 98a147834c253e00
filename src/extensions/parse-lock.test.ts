import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatKeyPath } from "../base/json.ts";
import { formatLock, type LockFile, parseLock } from "./lock-file.ts";

const hash = `sha256:${"ab".repeat(32)}`;
const entry = {
  package: "github.com/a/e",
  version: "v1.0.0",
  files: { any: { name: "e.tgz", hash, tree: hash } },
};
const lock: LockFile = {
  version: 1,
  extensions: {
    "github.com/a/e@v1": entry,
    "github.com/a/b@v1": {
      package: "github.com/a/b",
      version: "v1.2",
      checksums: hash,
      files: {
        "linux-arm64": { name: "b-linux-arm64", hash, tree: hash },
        "darwin-amd64": { name: "b-darwin", hash, tree: hash },
      },
    },
  },
};

function problemsOf(document: unknown): string[] {
  const parsed = parseLock(document);
  return parsed.ok
    ? []
    : parsed.problems.map((each) => `${each.code} ${formatKeyPath(each.path)}: ${each.message}`);
}

describe("a lock", () => {
  it("is written sorted", () => {
    expect(formatLock(lock))
      .toBe(`# Which version of each extension is used, and what its files must be. Written by mcpvals; commit it.
version: 1
extensions:
  github.com/a/b@v1:
    package: github.com/a/b
    version: v1.2
    checksums: ${hash}
    files:
      darwin-amd64:
        name: b-darwin
        hash: ${hash}
        tree: ${hash}
      linux-arm64:
        name: b-linux-arm64
        hash: ${hash}
        tree: ${hash}
  github.com/a/e@v1:
    package: github.com/a/e
    version: v1.0.0
    files:
      any:
        name: e.tgz
        hash: ${hash}
        tree: ${hash}
`);
    expect(parseLock(parseYaml(formatLock({ version: 1, extensions: {} })))).toEqual({
      ok: true,
      lock: { version: 1, extensions: {} },
    });
  });

  it("is read as it was written, whatever is in it", () => {
    const text = fc
      .string({ minLength: 1, unit: "binary" })
      .filter((each) => /^[^\0]*[^\s\0][^\0]*$/.test(each) && each !== "__proto__" && each.isWellFormed());
    const digest = fc
      .array(fc.constantFrom(..."0123456789abcdef"), { minLength: 64, maxLength: 64 })
      .map((digits) => `sha256:${digits.join("")}`);
    const file = fc.record({ name: text, hash: digest, tree: digest });
    const locked = fc.record(
      { package: text, version: text, checksums: digest, files: fc.dictionary(text, file, { maxKeys: 3 }) },
      { requiredKeys: ["package", "version", "files"] },
    );
    fc.assert(
      fc.property(fc.dictionary(text, locked, { maxKeys: 3 }), (extensions) => {
        const written: LockFile = JSON.parse(JSON.stringify({ version: 1, extensions })) as LockFile;
        expect(parseLock(parseYaml(formatLock(written)))).toEqual({ ok: true, lock: written });
      }),
    );
  });

  it.each(["sha256:", hash.slice(0, -1), hash.toUpperCase(), `sha512-${"A".repeat(86)}==`, ` ${hash}`])(
    "takes no part of a hash, nor anything like one: %j",
    (bad) => {
      const file = { name: "e.tgz", hash: bad, tree: bad, trusted: true };
      const locked = { ...entry, checksums: bad, files: { any: file } };
      const problems = problemsOf({ version: 1, extensions: { e: locked } });
      expect(problems.map((each) => each.slice(0, each.indexOf(": ")))).toEqual([
        "extension/invalid-lock extensions.e.checksums",
        "extension/invalid-lock extensions.e.files.any.hash",
        "extension/invalid-lock extensions.e.files.any.tree",
        "extension/invalid-lock extensions.e.files.any.trusted",
      ]);
    },
  );

  it("is read without the npm packages that older versions locked", () => {
    const npm = { ...entry, package: "npm:e", files: { any: { ...entry.files.any, hash: "sha512-AA==" } } };
    const extensions = { "npm:e@1": npm, ...lock.extensions };
    expect(parseLock({ version: 1, extensions })).toEqual({ ok: true, lock });
  });

  it("is refused when another version of mcpvals wrote it, or it is not an object", () => {
    expect(problemsOf({ version: 2 })).toEqual([
      "extension/invalid-lock version: version must be 1: another version of mcpvals wrote this lock",
    ]);
    expect(problemsOf("lock")).toEqual(["extension/invalid-lock : the lock must be an object, not a string"]);
  });
});
