import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parsePackageRef } from "../model/package-ref.ts";

function refOf(text: string): unknown {
  const parsed = parsePackageRef(text);
  return parsed.ok ? parsed.ref : parsed.message;
}

const release = { kind: "release", name: "github.com/Org/repo.x", owner: "Org", repo: "repo.x" };

describe("a package", () => {
  it.each<[string, object]>([
    ["github.com/Org/repo.x@v1.2.0-rc.1+b", { ...release, version: "v1.2.0-rc.1+b" }],
    ["https://github.com/Org/repo.x@v0.0.2", { ...release, version: "v0.0.2" }],
    ["npm:left", { kind: "npm", name: "npm:left", package: "left" }],
    ["npm:left@^1.2", { kind: "npm", name: "npm:left", package: "left", version: "^1.2" }],
    ["npm:@s/p.x@>=1 <2", { kind: "npm", name: "npm:@s/p.x", package: "@s/p.x", version: ">=1 <2" }],
    ["mcpvals:csv", { kind: "bundled", name: "mcpvals:csv", extension: "csv" }],
    ["./a b", { kind: "path", name: "./a b", path: "./a b" }],
    ["/a@1", { kind: "path", name: "/a@1", path: "/a@1" }],
    ["~/a", { kind: "path", name: "~/a", path: "~/a" }],
    ["file://./a", { kind: "path", name: "./a", path: "./a" }],
    ["gitlab.com/a/b@v1", { kind: "path", name: "gitlab.com/a/b@v1", path: "gitlab.com/a/b@v1" }],
    [String.raw`C:\a`, { kind: "path", name: String.raw`C:\a`, path: String.raw`C:\a` }],
  ])("%j is read", (text, ref) => {
    expect(refOf(text)).toEqual(ref);
  });

  it.each<[string, string]>([
    ["", "is not a valid package"],
    [" ./a", "is not a valid package"],
    ["./a\u0000", "is not a valid package"],
    ["http://github.com/a/b", "is not a valid GitHub repository"],
    ["GitHub.com/a/b", "is not a valid GitHub repository"],
    ["github.com", "is not a valid GitHub repository"],
    ["github.com/a/b/c@v1", "does not name one repository"],
    ["github.com/../b", "does not name one repository"],
    ["github.com/a/b.git", "does not name one repository"],
    ["github.com/a/b@", "has no version after the @"],
    ["https://example.org/a", "is an address of an unknown kind"],
    ["npm:", "is not a valid npm package"],
    ["npm:--global", "is not a valid npm package"],
    ["npm:../a", "is not a valid npm package"],
    ["npm:@.s/a", "is not a valid npm package"],
    ["npm:a@", "has no version after the @"],
    ["npm:a@.b", "has no version after the @"],
    ["npm:a@..", "has no version after the @"],
    ["npm:a@file:..", "has no version after the @"],
    ["mcpvals:", "is not an extension of mcpvals"],
    ["mcpvals:../a", "is not an extension of mcpvals"],
    ["mcpvals:csv@1", "has a version"],
    ["file:a", "names no file"],
  ])("%j is refused", (text, what) => {
    expect(refOf(text)).toBe(`${JSON.stringify(text)} ${what}`);
  });

  it("never leads out of the cache, whatever it is", () => {
    const odd = fc.string({ unit: fc.constantFrom("a", ".", "/", "@", "-", "~", ":", "\\") });
    fc.assert(
      fc.property(fc.constantFrom("github.com/", "npm:", "npm:@", "mcpvals:"), odd, (start, rest) => {
        const parsed = parsePackageRef(start + rest);
        if (!parsed.ok || parsed.ref.kind === "path") return;
        const parts = parsed.ref.name.split(/[/:]/);
        expect(parts).not.toContain("..");
        expect(parts).not.toContain(".");
        expect(parts).not.toContain("");
        if ("version" in parsed.ref) expect(parsed.ref.version).not.toMatch(/[/\\]|^\.\.?$/);
      }),
    );
  });
});
