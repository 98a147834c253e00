import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findingRules } from "../../src/core/lint/catalogue.ts";
import { checked } from "../check/support.ts";
import { root } from "../support/cli.ts";

const folder = join(root, "examples/bad-server");
const [all = "", onlyByName = ""] = readFileSync(join(folder, "README.md"), "utf8").split("## Only");

/** The codes of the defects in a part of the README, with the tool that has each. */
function defectsIn(part: string): readonly { readonly code: string; readonly tool: string | undefined }[] {
  return [...part.matchAll(/^\| `(?<code>\w+\/[\w-]+)` *\| (?:the tools? `(?<tool>[^`]+)`)?/gm)].map(
    ({ groups = {} }) => ({ code: groups["code"] ?? "", tool: groups["tool"] }),
  );
}

/** What a check finds in the server with defects. */
function check(...defects: readonly string[]): ReturnType<typeof checked> {
  return checked([process.execPath, join(folder, "server.mjs"), ...defects]);
}

describe.concurrent("the bad server", () => {
  it("has a defect for every rule that looks at one server by itself", () => {
    const planted = [...defectsIn(all), ...defectsIn(onlyByName)].map(({ code }) => code);
    const others = [
      // Needs seconds of waiting.
      "protocol/slow-start",
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
    expect([...planted, ...others].toSorted()).toEqual(Object.keys(findingRules).toSorted());
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
  }, 120_000);

  // The next test has it. Two checks of it at the same time would find each other's processes.
  const others = ["protocol/second-start"];
  it.each(
    defectsIn(onlyByName)
      .map(({ code }) => code)
      .filter((code) => !others.includes(code)),
  )(
    "has %s when that is named",
    async (wanted) => {
      const { code, findings } = await check(wanted.replace(/^\w+\//, ""));
      expect(findings.map((finding) => finding.code)).toContain(wanted);
      expect(code).toBe(findings.some(({ severity }) => severity === "error") ? 1 : 0);
    },
    60_000,
  );

  it("is not blamed for what a second process of it cannot do", async () => {
    const { code, findings } = await check("second-start");
    expect([code, findings.map((finding) => finding.code)]).toEqual([0, ["protocol/second-start"]]);
  }, 60_000);

  it("has nothing to be found without defects", async () => {
    expect(await check("none")).toEqual({ code: 0, findings: [] });
  }, 60_000);
});
