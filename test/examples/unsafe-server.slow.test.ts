import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addressRules } from "../../src/check/address-security.ts";
import { findingRules } from "../../src/check/catalogue.ts";
import { checked } from "../check/support.ts";
import { folderOf, root } from "../support/cli.ts";

const folder = join(root, "examples/unsafe-server");
const rows = readFileSync(join(folder, "README.md"), "utf8").matchAll(
  /^\| `(?<code>security\/[\w-]+)` *\| (?:the tool `(?<tool>[^`]+)`)?/gm,
);
const planted = [...rows].map(({ groups = {} }) => ({ code: groups["code"], tool: groups["tool"] }));

interface FoundDefect {
  readonly code: string;
  readonly tool: string | undefined;
  readonly message: string;
  readonly evidence: boolean;
}

/** What a check finds about security in the server with some defects; without any it has all. */
async function found(...defects: readonly string[]): Promise<readonly FoundDefect[]> {
  using project = folderOf({});
  mkdirSync(join(project.path, "notes"));
  const command = [process.execPath, join(folder, "server.mjs"), join(project.path, "notes"), ...defects];
  const { findings } = await checked(command, { security: true, calls: "none", cwd: project.path });
  return findings
    .filter(({ code, severity }) => code.startsWith("security/") && severity !== "info")
    .map(({ code, place, message, evidence }) => ({
      code,
      tool: place.tool,
      message,
      evidence: evidence.length > 0,
    }));
}

describe.concurrent("the unsafe server", () => {
  it("has a defect for every rule about security that looks at one program by itself", () => {
    const others = ["security/profile", "security/not-watched", "security/not-tried"];
    const codes = Object.keys(findingRules).filter(
      (code) => code.startsWith("security/") && !Object.hasOwn(addressRules, code),
    );
    const found = new Set([...planted.map(({ code }) => code), ...others]);
    expect([...found].toSorted()).toEqual(codes.toSorted());
  });

  it("is found to have exactly the defects that its README lists, each with an event", async () => {
    const all = await found();
    const known = planted.map(({ code, tool }) => ({ code, tool, evidence: true }));
    const byCode = (
      a: { readonly code: string | undefined },
      b: { readonly code: string | undefined },
    ): number => String(a.code).localeCompare(String(b.code));
    expect(all.map(({ code, tool, evidence }) => ({ code, tool, evidence })).toSorted(byCode)).toEqual(
      known.toSorted(byCode),
    );
    const [looked, address] = [
      "it connected to 127.0.0.1:8642; what worked: ",
      "a name that stands for an address of the internet first, then for one of this machine",
    ];
    const messageOf = (tool: string): string | undefined =>
      all.find((each) => each.code === "security/request-escape" && each.tool === tool)?.message;
    expect(messageOf("check_link")).toBe(looked + address);
    expect(messageOf("expand_link")).toBe(
      `${looked}${address}, a page that redirects to this machine, a page that redirects to a cloud's metadata, a page that redirects to a page that redirects to this machine, a page that redirects to a name that stands for an address of this machine, a page with https: that redirects to this machine with https:`,
    );
  });

  it("has nothing to be found without defects", async () => {
    expect(await found("none")).toEqual([]);
  });
});
