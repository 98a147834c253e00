import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CheckKind } from "../../src/model/check.ts";
import { codesOnRequest, findingRules } from "../../src/check/catalogue.ts";
import { checked, findingsIn } from "../check/support.ts";
import { stdioSpec } from "../servers/support.ts";
import { root } from "../support/cli.ts";

const folder = join(root, "examples/bad-server");
const program = join(folder, "server.mjs");
const [all = "", onlyByName = ""] = readFileSync(join(folder, "README.md"), "utf8").split("## Only");

/** The codes of the defects in a part of the README, with the tool that has each. */
function defectsIn(part: string): readonly { readonly code: string; readonly tool: string | undefined }[] {
  return [...part.matchAll(/^\| `(?<code>\w+\/[\w-]+)` *\| (?:the tools? `(?<tool>[^`]+)`)?/gm)].map(
    ({ groups = {} }) => ({ code: groups["code"] ?? "", tool: groups["tool"] }),
  );
}

/** What a check finds in the server with defects. */
function check(...defects: readonly string[]): ReturnType<typeof checked> {
  return checked([process.execPath, program, ...defects], { enable: codesOnRequest });
}

describe.concurrent("the bad server", () => {
  it("has a defect for every rule that looks at one server by itself", () => {
    const planted = [...defectsIn(all), ...defectsIn(onlyByName)].map(({ code }) => code);
    const others = [
      // Needs seconds of waiting.
      "protocol/slow-start",
      // Needs a hundred pages.
      "protocol/long-list",
      // Need an address.
      "protocol/origin",
      "protocol/session",
      // Needs schemas that would fill a book.
      "schema/unchecked",
      // Needs another server.
      "definition/shared-name",
      // Need another program.
      "protocol/conformance",
      "protocol/conformance-advice",
      "protocol/conformance-skipped",
      // Needs a committed file.
      "stability/snapshot",
    ];
    expect([...planted, ...others].toSorted()).toEqual(
      Object.keys(findingRules)
        // `examples/unsafe-server` has these.
        .filter((code) => !code.startsWith("security/"))
        .toSorted(),
    );
  });

  it("is found to have every defect that its README lists", async () => {
    const { code, findings } = await check();
    const missed = defectsIn(all).filter(
      (defect) =>
        !findings.some(
          ({ code: found, place }) => found === defect.code && (!defect.tool || place.tool === defect.tool),
        ),
    );
    expect([code, missed]).toEqual([1, []]);
  });

  /** The part of a check that finds a defect. */
  const parts: Readonly<Record<string, CheckKind>> = {
    "protocol/concurrent": "requests",
    "protocol/leftover-processes": "shutdown",
    "protocol/broken-connection": "calls",
    "definition/invalid-uri-template": "definitions",
    "stability/not-compared": "stability",
  };
  it.each(Object.entries(parts))("has %s when that is named", async (code, part) => {
    const fault = code.replace(/^\w+\//, "");
    const call = { tool: fault, args: {}, expects: "result", why: "no arguments" } as const;
    const server = stdioSpec(process.execPath, [program, fault]);
    // On a busy machine the answer of 12 MB takes seconds.
    const calls = part === "calls" ? { calls: [call], callMs: 60_000 } : {};
    const findings = await findingsIn(part, server, calls);
    expect(findings.map((finding) => finding.code)).toContain(code);
  });

  it.each([
    ["protocol/no-session", 1],
    // Not blamed for what a second process of it cannot do.
    ["protocol/second-start", 0],
  ])("has nothing but %s when that is named", async (wanted, code) => {
    const found = await check(wanted.replace(/^\w+\//, ""));
    expect([found.code, found.findings.map((finding) => finding.code)]).toEqual([code, [wanted]]);
  });

  it("has a test for each defect that has to be named", () => {
    const tested = [...Object.keys(parts), "protocol/no-session", "protocol/second-start"];
    expect(tested.toSorted()).toEqual(
      defectsIn(onlyByName)
        .map(({ code }) => code)
        .toSorted(),
    );
  });

  it("has nothing to be found without defects", async () => {
    expect(await check("none")).toEqual({ code: 0, findings: [] });
  });
});
